// Reorders keys and values of latent attention between the order in which they are computed and that of attention.
#include "ops/cuda/elements.cuh"

enum { LATENT_THREADS = 256, LATENT_WORDS = 4 };

// Per head: own channels of keys, shared channels of keys, channels of values. Both passes have the same layout.
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

// Column in a packed row of channel c of a head's own channels, keys before values.
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

// Grid (rows, heads + 1): the last block of a row sums the shared channels, head by head.
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

// Converts sizes and strides to words of 16 bytes, if possible. Only for bf16, the usual dtype of models with latents.
static bool latent_in_words(struct latent_args *args, enum dtype dtype) {
    int each = (int)(sizeof(uint4) / sizeof(__nv_bfloat16));
    if (dtype != DTYPE_BF16)
        return false;
    const void *const places[] = {args->kv, args->up, args->shared};
    for (int i = 0; i < 3; i++)
        if ((uintptr_t)places[i] % sizeof(uint4) != 0)
            return false;
    if (args->own % each != 0 || args->shared_size % each != 0 || args->values % each != 0 ||
        args->shared_stride % each != 0)
        return false;
    args->own /= each;
    args->shared_size /= each;
    args->values /= each;
    args->shared_stride /= each;
    return true;
}

// Grid (rows, parts of a row): each thread has some words of a packed row.
static __global__ void latent_forward_words(struct latent_args args) {
    int64_t row = blockIdx.x;
    int up_size = args.own + args.values, key_size = args.own + args.shared_size, keys = args.heads * key_size;
    int width = keys + args.heads * args.values;
    uint4 *__restrict__ kv = (uint4 *)args.kv + row * width;
    const uint4 *__restrict__ up = (const uint4 *)args.up + row * args.heads * up_size;
    const uint4 *__restrict__ shared = (const uint4 *)args.shared + row * args.shared_stride;
#pragma unroll LATENT_WORDS
    for (int i = blockIdx.y * LATENT_THREADS + threadIdx.x; i < width; i += gridDim.y * LATENT_THREADS) {
        bool is_key = i < keys;
        int at = is_key ? i : i - keys, size = is_key ? key_size : args.values, head = at / size, c = at - head * size;
        kv[i] = is_key && c >= args.own ? shared[c - args.own] : up[head * up_size + (is_key ? c : args.own + c)];
    }
}

// Grid (rows, parts of a row): each thread has some words of `up`.
static __global__ void latent_backward_words(struct latent_args args) {
    int64_t row = blockIdx.x;
    int up_size = args.own + args.values, key_size = args.own + args.shared_size, width = args.heads * up_size;
    const uint4 *__restrict__ kv = (const uint4 *)args.kv + row * args.heads * (key_size + args.values);
    uint4 *__restrict__ up = (uint4 *)args.up + row * width;
#pragma unroll LATENT_WORDS
    for (int i = blockIdx.y * LATENT_THREADS + threadIdx.x; i < width; i += gridDim.y * LATENT_THREADS) {
        int head = i / up_size;
        up[i] = kv[packed_column(args, head, i - head * up_size)];
    }
}

// A thread sums a word of a row's shared channels, head by head.
static __global__ void latent_sum_words(struct latent_args args) {
    typedef __nv_bfloat16 T;
    constexpr int EACH = sizeof(uint4) / sizeof(T);
    int64_t i = (int64_t)blockIdx.x * LATENT_THREADS + threadIdx.x, row = i / args.shared_size;
    int c = (int)(i % args.shared_size), key_size = args.own + args.shared_size;
    if (row >= args.rows)
        return;
    const uint4 *__restrict__ kv = (const uint4 *)args.kv + row * args.heads * (key_size + args.values) + args.own + c;
    float sum[EACH] = {};
#pragma unroll 8
    for (int head = 0; head < args.heads; head++) {
        uint4 word = kv[(int64_t)head * key_size];
        T values[EACH];
        memcpy(values, &word, sizeof word);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            sum[k] += to_float(values[k]);
    }
#pragma unroll
    for (int k = 0; k < EACH; k++)
        store((T *)args.shared + (row * args.shared_stride + c) * EACH + k, sum[k]);
}

static dim3 latent_grid(const struct latent_args &args, int width) {
    return dim3(grid_x(args.rows), grid_yz(divide_up(width, LATENT_THREADS * LATENT_WORDS)));
}

extern "C" void cuda_latent_forward(struct device *device, const struct op_latent_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct latent_args args = latent_args(op->kv, op->up, op->shared, op->heads, op->value_size);
    if (args.rows == 0)
        return;
    if (latent_in_words(&args, op->kv.dtype)) {
        int width = args.heads * (args.own + args.shared_size + args.values);
        LAUNCH(cuda, latent_forward_words, latent_grid(args, width), LATENT_THREADS, 0, args);
        return;
    }
    dim3 grid(grid_x(args.rows), grid_yz(args.heads));
    WITH_TYPE(op->kv.dtype, T, LAUNCH(cuda, latent_forward_kernel<T>, grid, LATENT_THREADS, 0, args));
}

extern "C" void cuda_latent_backward(struct device *device, const struct op_latent_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct latent_args args = latent_args(op->dkv, op->dup, op->dshared, op->heads, op->value_size);
    if (args.rows == 0)
        return;
    if (latent_in_words(&args, op->dkv.dtype)) {
        LAUNCH(cuda, latent_backward_words, latent_grid(args, args.heads * (args.own + args.values)), LATENT_THREADS, 0,
               args);
        dim3 sums(grid_x(divide_up(args.rows * args.shared_size, LATENT_THREADS)));
        LAUNCH(cuda, latent_sum_words, sums, LATENT_THREADS, 0, args);
        return;
    }
    dim3 grid(grid_x(args.rows), grid_yz(args.heads + 1));
    WITH_TYPE(op->dkv.dtype, T, LAUNCH(cuda, latent_backward_kernel<T>, grid, LATENT_THREADS, 0, args));
}
