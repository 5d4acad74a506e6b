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

template <typename T> static __global__ void adam_kernel(struct adam_args args, T *copy) {
    float scale = *args.scale;
    if (!isfinite(scale))
        return;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < args.count; i += step) {
        float g = args.grad[i] * scale, master = args.master[i];
        float m = args.beta1 * args.m[i] + (1 - args.beta1) * g;
        float v = args.beta2 * args.v[i] + (1 - args.beta2) * g * g;
        float update = (m / args.correction1) / (sqrtf(v / args.correction2) + args.epsilon);
        master -= args.lr * (update + args.weight_decay * master);
        args.m[i] = m;
        args.v[i] = v;
        args.master[i] = master;
        if (copy)
            store(copy + i, master);
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
    WITH_TYPE(op->copy.data ? op->copy.dtype : DTYPE_F32, T,
              LAUNCH(cuda, adam_kernel<T>, flat_blocks(args.count), FLAT_THREADS, 0, args, (T *)op->copy.data));
}

static __global__ void scale_kernel(float *x, int64_t count, float factor) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        x[i] *= factor;
}

extern "C" void cuda_scale(struct device *device, const struct op_scale *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t count = tensor_count(op->x);
    if (count > 0)
        LAUNCH(cuda, scale_kernel, flat_blocks(count), FLAT_THREADS, 0, (float *)op->x.data, count, op->factor);
}
