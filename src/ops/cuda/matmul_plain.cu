// Matmuls without an algorithm of cuBLASLt (odd shapes; which ones depends on its version), in a plain tiled kernel;
// and bias and activation as separate kernels on a matmul's result, which in bf16 rounds once more than a fused
// epilogue.
#include "ops/cuda/activation.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/matmul.cuh"

enum { EPILOGUE_THREADS = 256, EPILOGUE_BLOCKS = 4096, PLAIN_TILE = 16 };

struct plain_args {
    int64_t rows, columns, inner;                         // M, N, K
    int64_t a_row, a_inner, b_inner, b_column, d_stride;  // steps in elements; a transpose swaps two of them
    float alpha, beta;
};

// Block (16, 16): one tile of d, over tiles of a and b in shared memory.
template <typename T, typename D>
static __global__ void plain_kernel(D *d, const T *a, const T *b, struct plain_args args) {
    __shared__ float a_tile[PLAIN_TILE][PLAIN_TILE + 1], b_tile[PLAIN_TILE][PLAIN_TILE + 1];
    int x = threadIdx.x, y = threadIdx.y;
    int64_t row = (int64_t)blockIdx.x * PLAIN_TILE + y, column = (int64_t)blockIdx.y * PLAIN_TILE + x;
    float sum = 0;
    for (int64_t first = 0; first < args.inner; first += PLAIN_TILE) {
        int64_t k = first + x;
        a_tile[y][x] = row < args.rows && k < args.inner ? to_float(a[row * args.a_row + k * args.a_inner]) : 0.0f;
        k = first + y;
        b_tile[y][x] =
            column < args.columns && k < args.inner ? to_float(b[k * args.b_inner + column * args.b_column]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < PLAIN_TILE; i++)
            sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    if (row < args.rows && column < args.columns) {
        D *place = d + row * args.d_stride + column;
        store(place, args.alpha * sum + (args.beta != 0 ? args.beta * to_float(*place) : 0.0f));
    }
}

void matmul_run_plain(struct cuda_device *cuda, const struct op_matmul *op, const struct matmul_key *key) {
    if (dtype_is_scaled(op->a.dtype)) {
        matmul_run_restored(cuda, op, key);
        return;
    }
    struct plain_args args = {};
    args.rows = key->n;
    args.columns = key->m;
    args.inner = key->k;
    args.a_row = op->transpose_a ? 1 : key->a_stride;
    args.a_inner = op->transpose_a ? key->a_stride : 1;
    args.b_inner = op->transpose_b ? 1 : key->b_stride;
    args.b_column = op->transpose_b ? key->b_stride : 1;
    args.d_stride = key->d_stride;
    args.alpha = op->alpha;
    args.beta = op->beta;
    dim3 grid(grid_x(divide_up(args.rows, PLAIN_TILE)), grid_yz(divide_up(args.columns, PLAIN_TILE)));
    dim3 block(PLAIN_TILE, PLAIN_TILE);
    WITH_TYPE(op->a.dtype, T, {
        const T *a = (const T *)op->a.data, *b = (const T *)op->b.data;
        WITH_TYPE(op->d.dtype, D, LAUNCH(cuda, (plain_kernel<T, D>), grid, block, 0, (D *)op->d.data, a, b, args));
    });
}

// ---- Epilogues ----

// A is the dtype of the operands, of bias and of aux.
template <typename A> struct epilogue_args {
    enum epilogue epilogue;
    int64_t rows, columns, d_stride;
    const A *bias;  // (N) or NULL
    A *aux;         // (M, N) or NULL
};

// One element: value is the matmul's; returns the element of d and sets `stored` to that of aux.
template <typename A>
static __device__ __forceinline__ float epilogue_of(float value, float bias, float aux, enum epilogue epilogue,
                                                    float *stored) {
    if (epilogue == EPILOGUE_ACTIVATION_GRADIENT)
        return value * activation_at<A>(ACTIVATION_GELU_TANH, aux).y;
    value += bias;
    if (epilogue == EPILOGUE_BIAS_ACTIVATION) {
        // Backward sees the stored aux, so forward activates the stored value.
        *stored = rounded<A>(value);
        return activation_at<A>(ACTIVATION_GELU_TANH, *stored).x;
    }
    return value;
}

// Replaces the matmul's result in d by that of the epilogue. Threads walk over groups of four neighbouring columns.
template <typename A, typename D> static __global__ void epilogue_kernel(D *d, epilogue_args<A> args) {
    int64_t groups = (args.columns + 3) / 4, count = args.rows * groups;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        int64_t row = i / groups, column = 4 * (i % groups);
        float value[4], bias[4] = {0, 0, 0, 0}, aux[4] = {0, 0, 0, 0}, stored[4] = {0, 0, 0, 0};
        load4(value, d + row * args.d_stride, column, args.columns);
        if (args.bias)
            load4(bias, args.bias, column, args.columns);
        if (args.epilogue == EPILOGUE_ACTIVATION_GRADIENT)
            load4(aux, args.aux + row * args.columns, column, args.columns);
#pragma unroll
        for (int j = 0; j < 4; j++)
            value[j] = epilogue_of<A>(value[j], bias[j], aux[j], args.epilogue, &stored[j]);
        store4(d + row * args.d_stride, column, args.columns, value);
        if (args.epilogue == EPILOGUE_BIAS_ACTIVATION && args.aux)
            store4(args.aux + row * args.columns, column, args.columns, stored);
    }
}

template <typename A, typename D> static void run_epilogue(struct cuda_device *cuda, const struct op_matmul *op) {
    bool has_bias = op->epilogue == EPILOGUE_BIAS || op->epilogue == EPILOGUE_BIAS_ACTIVATION;
    epilogue_args<A> args = {};
    args.epilogue = op->epilogue;
    args.rows = op->d.shape[0];
    args.columns = op->d.shape[1];
    args.d_stride = op->d.stride[0];
    args.bias = has_bias ? (const A *)op->bias.data : NULL;
    args.aux = (A *)op->aux.data;
    int64_t blocks = min(divide_up(args.rows * divide_up(args.columns, 4), EPILOGUE_THREADS), (int64_t)EPILOGUE_BLOCKS);
    LAUNCH(cuda, (epilogue_kernel<A, D>), grid_x(blocks), EPILOGUE_THREADS, 0, (D *)op->d.data, args);
}

void matmul_run_epilogue(struct cuda_device *cuda, const struct op_matmul *op) {
    CHECK(op->activation == ACTIVATION_GELU_TANH || op->epilogue == EPILOGUE_BIAS);
    enum dtype dtype = dtype_is_scaled(op->a.dtype) ? op->d.dtype : op->a.dtype;
    WITH_TYPE(dtype, A, WITH_TYPE(op->d.dtype, D, (run_epilogue<A, D>(cuda, op))));
}
