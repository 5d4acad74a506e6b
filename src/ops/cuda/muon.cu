// The passes of Muon over flat ranges, see ops_updates.h; the last one, along the direction, is in adam.cu with the
// other updates of masters.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/updates.cuh"
#include "ops/cuda/lanes.cuh"

struct momentum_args {
    double *squares;     // (blocks): sums of squares of y, or NULL
    float *m;            // (count)
    const float *grad;   // (count)
    const float *scale;  // (1)
    int64_t count;
    float momentum;
    bool is_nesterov;
};

template <typename T> static __global__ void momentum_kernel(T *to, struct momentum_args args) {
    float scale = *args.scale, momentum = args.momentum, rest = 1.0f - momentum;
    float again = args.is_nesterov ? momentum : 1.0f, once = args.is_nesterov ? rest : 0.0f;
    bool is_made = isfinite(scale);
    __shared__ double shared[32];
    double sum = 0;
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < args.count; i += step) {
        float grad[4], m[4], y[4];
        load4(grad, args.grad, i, args.count);
        load4(m, args.m, i, args.count);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            float g = grad[n] * scale;
            m[n] = is_made ? momentum * m[n] + rest * g : m[n];
            y[n] = is_made && i + n < args.count ? again * m[n] + once * g : 0.0f;
            sum += (double)y[n] * (double)y[n];
        }
        store4(args.m, i, args.count, m);
        store4(to, i, args.count, y);
    }
    if (!args.squares)
        return;
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        args.squares[blockIdx.x] = sum;
}

extern "C" void cuda_momentum(struct device *device, const struct op_momentum *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct momentum_args args = {};
    args.m = (float *)op->m.data;
    args.grad = (const float *)op->grad.data;
    args.scale = (const float *)op->scale.data;
    args.count = tensor_count(op->m);
    args.momentum = op->momentum;
    args.is_nesterov = op->is_nesterov;
    if (args.count == 0)
        return;
    unsigned blocks = min(flat_blocks(divide_up(args.count, 4)), (unsigned)(SCRATCH_BYTES / sizeof(double)));
    args.squares = op->sum_squares.data ? (double *)cuda->scratch : NULL;
    WITH_TYPE(op->y.dtype, T, { LAUNCH(cuda, momentum_kernel<T>, blocks, FLAT_THREADS, 0, (T *)op->y.data, args); });
    if (args.squares)
        sum_finish(cuda, (float *)op->sum_squares.data, args.squares, (int)blocks);
}

// x may be y.
template <typename T, typename X>
static __global__ void normalize_kernel(T *y, const X *x, struct norm_factor by, int64_t count) {
    float factor = factor_of(by, 0);
    int64_t step = 4 * (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = 4 * ((int64_t)blockIdx.x * blockDim.x + threadIdx.x); i < count; i += step) {
        float values[4];
        load4(values, x, i, count);
#pragma unroll
        for (int n = 0; n < 4; n++)
            values[n] *= factor;
        store4(y, i, count, values);
    }
}

extern "C" void cuda_normalize(struct device *device, const struct op_normalize *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t count = tensor_count(op->x);
    if (count == 0)
        return;
    struct norm_factor by = {(const float *)op->sum_squares.data, op->least, op->is_twice};
    unsigned blocks = flat_blocks(divide_up(count, 4));
    WITH_TYPE(op->y.dtype, T, {
        if (op->x.dtype == DTYPE_F32)
            LAUNCH(cuda, (normalize_kernel<T, float>), blocks, FLAT_THREADS, 0, (T *)op->y.data,
                   (const float *)op->x.data, by, count);
        else
            LAUNCH(cuda, (normalize_kernel<T, T>), blocks, FLAT_THREADS, 0, (T *)op->y.data, (const T *)op->x.data, by,
                   count);
    });
}

template <typename T> static __global__ void add_diagonal_kernel(T *x, int64_t side, int64_t count, float value) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
        T *at = x + i / side * side * side + i % side * (side + 1);
        store(at, to_float(*at) + value);
    }
}

extern "C" void cuda_add_diagonal(struct device *device, const struct op_add_diagonal *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t side = op->x.shape[1], count = op->x.shape[0] * side;
    if (count == 0)
        return;
    WITH_TYPE(op->x.dtype, T, {
        LAUNCH(cuda, add_diagonal_kernel<T>, flat_blocks(count), FLAT_THREADS, 0, (T *)op->x.data, side, count,
               op->value);
    });
}

// A block per row. Sums are in fp32, as in other kernels of norms.
static __global__ void row_squares_kernel(float *y, const float *x, int64_t columns, int64_t length, int64_t stride) {
    __shared__ float shared[32];
    const float *row = x + (int64_t)blockIdx.x * stride;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < length; i += blockDim.x)
        sum += row[i] * row[i];
    float mean = block_sum(sum, shared) / (float)length;
    for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
        y[(int64_t)blockIdx.x * columns + i] = mean;
}

// A thread per column.
static __global__ void column_squares_kernel(float *y, const float *x, int64_t rows, int64_t columns, int64_t length,
                                             int64_t stride) {
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns)
        return;
    float sum = 0;
    for (int64_t i = 0; i < length; i++)
        sum += x[i * stride + column] * x[i * stride + column];
    for (int64_t i = 0; i < rows; i++)
        y[i * columns + column] = sum / (float)length;
}

extern "C" void cuda_mean_squares(struct device *device, const struct op_mean_squares *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t M = op->y.shape[0], N = op->y.shape[1], stride = op->x.stride[0];
    float *y = (float *)op->y.data;
    const float *x = (const float *)op->x.data;
    if (M == 0 || N == 0)
        return;
    if (op->is_by_columns)
        LAUNCH(cuda, column_squares_kernel, (unsigned)divide_up(N, FLAT_THREADS), FLAT_THREADS, 0, y, x, M, N,
               op->x.shape[0], stride);
    else
        LAUNCH(cuda, row_squares_kernel, (unsigned)M, FLAT_THREADS, 0, y, x, N, op->x.shape[1], stride);
}

struct adapt_args {
    float *x, *v;          // (count)
    const float *squares;  // (count) or NULL
    const float *scale;    // (1)
    int64_t count;
    float beta2, epsilon;
    bool is_bounded;
};

static __global__ void adapt_kernel(struct adapt_args args) {
    if (!isfinite(*args.scale))
        return;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < args.count; i += step) {
        float x = args.x[i], square = args.squares ? args.squares[i] : x * x;
        float v = args.beta2 * args.v[i] + (1 - args.beta2) * square;
        args.v[i] = v;
        args.x[i] = x / (args.is_bounded ? sqrtf(fmaxf(v, args.epsilon)) : sqrtf(v) + args.epsilon);
    }
}

extern "C" void cuda_adapt(struct device *device, const struct op_adapt *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct adapt_args args = {};
    args.x = (float *)op->x.data;
    args.v = (float *)op->v.data;
    args.squares = (const float *)op->squares.data;
    args.scale = (const float *)op->scale.data;
    args.count = tensor_count(op->x);
    args.beta2 = op->beta2;
    args.epsilon = op->epsilon;
    args.is_bounded = op->is_bounded;
    if (args.count > 0)
        LAUNCH(cuda, adapt_kernel, flat_blocks(args.count), FLAT_THREADS, 0, args);
}
