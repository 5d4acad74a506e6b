// Keys and values of latent attention, between the order in which they are computed and that of attention.
#include "ops/cuda/elements.cuh"

enum { LATENT_THREADS = 256 };

// Per head: own channels of keys, shared channels of keys, channels of values. Both directions have the same layout.
struct latent_args {
    void *kv, *up, *shared;
    int64_t rows, shared_stride;  // of rows of `shared`
    int heads, own, shared_size, values;
};

static struct latent_args latent_args(struct tensor kv, struct tensor up, struct tensor shared, int64_t heads,
                                      int64_t value_size) {
    struct latent_args args = {};
    args.kv = kv.data;
    args.up = up.data;
    args.shared = shared.data;
    args.rows = kv.shape[0];
    args.shared_stride = shared.stride[0];
    args.heads = (int)heads;
    args.values = (int)value_size;
    args.own = (int)(up.shape[1] / heads - value_size);
    args.shared_size = (int)shared.shape[1];
    return args;
}

// Where channel c of a head's own channels, keys before values, lies in a packed row.
static __device__ __forceinline__ int packed_column(const struct latent_args &args, int head, int c) {
    int key_size = args.own + args.shared_size;
    return c < args.own ? head * key_size + c : args.heads * key_size + head * args.values + c - args.own;
}

// Grid (rows, heads); the threads of a block walk along a head.
template <typename T> static __global__ void latent_forward_kernel(struct latent_args args) {
    int64_t row = blockIdx.x;
    int head = blockIdx.y, up_size = args.own + args.values, key_size = args.own + args.shared_size;
    T *kv = (T *)args.kv + row * args.heads * (key_size + args.values);
    const T *up = (const T *)args.up + (row * args.heads + head) * up_size;
    const T *shared = (const T *)args.shared + row * args.shared_stride;
    for (int c = threadIdx.x; c < up_size; c += blockDim.x)
        kv[packed_column(args, head, c)] = up[c];
    for (int c = threadIdx.x; c < args.shared_size; c += blockDim.x)
        kv[head * key_size + args.own + c] = shared[c];
}

// Grid (rows, heads + 1): the last block of a row sums what the heads share, head by head.
template <typename T> static __global__ void latent_backward_kernel(struct latent_args args) {
    int64_t row = blockIdx.x;
    int head = blockIdx.y, up_size = args.own + args.values, key_size = args.own + args.shared_size;
    const T *kv = (const T *)args.kv + row * args.heads * (key_size + args.values);
    if (head < args.heads) {
        T *up = (T *)args.up + (row * args.heads + head) * up_size;
        for (int c = threadIdx.x; c < up_size; c += blockDim.x)
            up[c] = kv[packed_column(args, head, c)];
        return;
    }
    for (int c = threadIdx.x; c < args.shared_size; c += blockDim.x) {
        float sum = 0;
        for (int h = 0; h < args.heads; h++)
            sum += to_float(kv[h * key_size + args.own + c]);
        store((T *)args.shared + row * args.shared_stride + c, sum);
    }
}

extern "C" void cuda_latent_forward(struct device *device, const struct op_latent_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct latent_args args = latent_args(op->kv, op->up, op->shared, op->heads, op->value_size);
    if (args.rows == 0)
        return;
    dim3 grid(grid_x(args.rows), grid_yz(args.heads));
    WITH_TYPE(op->kv.dtype, T, LAUNCH(cuda, latent_forward_kernel<T>, grid, LATENT_THREADS, 0, args));
}

extern "C" void cuda_latent_backward(struct device *device, const struct op_latent_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct latent_args args = latent_args(op->dkv, op->dup, op->dshared, op->heads, op->value_size);
    if (args.rows == 0)
        return;
    dim3 grid(grid_x(args.rows), grid_yz(args.heads + 1));
    WITH_TYPE(op->dkv.dtype, T, LAUNCH(cuda, latent_backward_kernel<T>, grid, LATENT_THREADS, 0, args));
}
