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
    int64_t count;
    float lr, beta1, beta2, epsilon, weight_decay;
    float correction1, correction2;  // 1 - beta^step
};

static __device__ __forceinline__ void adam_update(const struct adam_args &args, float scale, const float grad[4],
                                                   float master[4], float m[4], float v[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float g = grad[i] * scale;
        m[i] = args.beta1 * m[i] + (1 - args.beta1) * g;
        v[i] = args.beta2 * v[i] + (1 - args.beta2) * g * g;
        float update = (m[i] / args.correction1) / (sqrtf(v[i] / args.correction2) + args.epsilon);
        master[i] -= args.lr * (update + args.weight_decay * master[i]);
    }
}

// Four elements a thread and step.
template <typename T> static __global__ void adam_kernel(struct adam_args args, T *copy) {
    float scale = *args.scale;
    if (!isfinite(scale))
        return;
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < args.count; i += step) {
        float grad[4], master[4], m[4], v[4];
        load4(grad, args.grad, i, args.count);
        load4(master, args.master, i, args.count);
        load4(m, args.m, i, args.count);
        load4(v, args.v, i, args.count);
        adam_update(args, scale, grad, master, m, v);
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
    args.lr = op->lr;
    args.beta1 = op->beta1;
    args.beta2 = op->beta2;
    args.epsilon = op->epsilon;
    args.weight_decay = op->weight_decay;
    args.correction1 = (float)(1.0 - pow((double)op->beta1, (double)op->step));
    args.correction2 = (float)(1.0 - pow((double)op->beta2, (double)op->step));
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
