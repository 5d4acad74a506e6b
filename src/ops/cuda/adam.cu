// Adam with decoupled weight decay over a flat range, and scaling. Element-wise: a thread walks the range in steps of
// the whole grid.
#include "ops/cuda/cuda.cuh"

enum { FLAT_THREADS = 256, FLAT_BLOCKS = 4096 };

static unsigned flat_blocks(int64_t count) {
    int64_t blocks = divide_up(count, FLAT_THREADS);
    return (unsigned)min(blocks, (int64_t)FLAT_BLOCKS);
}

struct adam_args {
    float *master, *m, *v;  // (count)
    const float *grad;      // (count)
    const float *scale;     // (1)
    const float *rate;      // (RATE_LENGTH)
    int64_t count;
    float beta1, beta2, epsilon;
    bool is_decayed;
};

// What all elements share, from the device's memory.
struct adam_factors {
    float scale, step, correction, decay;
};

static __device__ __forceinline__ void adam_update(const struct adam_args &args, struct adam_factors factors,
                                                   const float grad[4], float master[4], float m[4], float v[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float g = grad[i] * factors.scale;
        m[i] = args.beta1 * m[i] + (1 - args.beta1) * g;
        v[i] = args.beta2 * v[i] + (1 - args.beta2) * g * g;
        float update = factors.step * m[i] / (sqrtf(v[i] * factors.correction) + args.epsilon);
        master[i] = master[i] - factors.decay * master[i] - update;
    }
}

// Four elements a thread and step.
template <typename T> static __global__ void adam_kernel(struct adam_args args, T *copy) {
    struct adam_factors factors = {*args.scale, args.rate[RATE_STEP], args.rate[RATE_CORRECTION],
                                   args.is_decayed ? args.rate[RATE_DECAY] : 0.0f};
    if (!isfinite(factors.scale))
        return;
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < args.count; i += step) {
        float grad[4], master[4], m[4], v[4];
        load4(grad, args.grad, i, args.count);
        load4(master, args.master, i, args.count);
        load4(m, args.m, i, args.count);
        load4(v, args.v, i, args.count);
        adam_update(args, factors, grad, master, m, v);
        store4(args.m, i, args.count, m);
        store4(args.v, i, args.count, v);
        store4(args.master, i, args.count, master);
        if (copy)
            store4(copy, i, args.count, master);
    }
}

extern "C" void cuda_adam(struct device *device, const struct op_adam *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct adam_args args = {};
    args.master = (float *)op->master.data;
    args.m = (float *)op->m.data;
    args.v = (float *)op->v.data;
    args.grad = (const float *)op->grad.data;
    args.scale = (const float *)op->scale.data;
    args.count = tensor_count(op->master);
    args.rate = (const float *)op->rate.data;
    args.beta1 = op->beta1;
    args.beta2 = op->beta2;
    args.epsilon = op->epsilon;
    args.is_decayed = op->is_decayed;
    if (args.count == 0)
        return;
    WITH_TYPE(
        op->copy.data ? op->copy.dtype : DTYPE_F32, T,
        LAUNCH(cuda, adam_kernel<T>, flat_blocks(divide_up(args.count, 4)), FLAT_THREADS, 0, args, (T *)op->copy.data));
}

static __global__ void scale_kernel(float *x, int64_t count, float factor, const float *by) {
    factor = by ? factor * *by : factor;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        x[i] *= factor;
}

extern "C" void cuda_scale(struct device *device, const struct op_scale *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t count = tensor_count(op->x);
    if (count > 0)
        LAUNCH(cuda, scale_kernel, flat_blocks(count), FLAT_THREADS, 0, (float *)op->x.data, count, op->factor,
               (const float *)op->by.data);
}
