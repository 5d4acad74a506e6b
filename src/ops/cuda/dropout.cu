// Dropout with the additions around it, forward and backward. A row of threads per row, eight columns per thread and
// step. A thread reads each element before it writes it, so outputs may alias inputs.
#include "ops/cuda/dropout.cuh"
#include "ops/cuda/elements.cuh"

template <typename T> struct dropout_args {
    T *out;             // (N, C); may be x or residual
    const T *x;         // (N, C)
    const T *residual;  // (N, C) or NULL
    const T *bias;      // (C) or NULL
    int64_t rows, columns;
    bool is_wide;
    struct cuda_dropout dropout;
    float factor;
};

// out = residual + factor * dropout(x + bias)
template <typename T> static __global__ void dropout_kernel(dropout_args<T> args) {
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, columns = args.columns, offset = row * columns;
    if (row >= args.rows)
        return;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float x[8], bias[8] = {0, 0, 0, 0, 0, 0, 0, 0}, residual[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        load8(x, args.x + offset, column, columns, args.is_wide);
        if (args.bias)
            load8(bias, args.bias, column, columns, args.is_wide);
        if (args.residual)
            load8(residual, args.residual + offset, column, columns, args.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] += bias[i];
        dropout_apply<8>(x, args.dropout, row, column);
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = args.factor == 1.0f ? x[i] + residual[i] : x[i] * args.factor + residual[i];
        store8(args.out + offset, column, columns, args.is_wide, x);
    }
}

static void dropout_run(struct cuda_device *cuda, const struct op_dropout_add *op) {
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    if (rows == 0 || columns == 0)
        return;
    WITH_TYPE(op->x.dtype, T, {
        dropout_args<T> args = {};
        args.out = (T *)op->out.data;
        args.x = (const T *)op->x.data;
        args.residual = (const T *)op->residual.data;
        args.bias = (const T *)op->bias.data;
        args.rows = rows;
        args.columns = columns;
        const struct tensor tensors[] = {op->out, op->x, op->residual, op->bias};
        args.is_wide = rows_are_wide(columns, tensors, sizeof tensors / sizeof tensors[0]);
        args.dropout = cuda_dropout(&op->dropout);
        args.factor = op->factor == 0 ? 1.0f : op->factor;
        unsigned threads = (unsigned)min(divide_up(columns, 8 * 32) * 32, (int64_t)256), height = 256 / threads;
        LAUNCH(cuda, dropout_kernel<T>, grid_x(divide_up(rows, height)), dim3(threads, height), 0, args);
    });
}

extern "C" void cuda_dropout_add(struct device *device, const struct op_dropout_add *op) {
    dropout_run(cuda_use(device), op);
}

// The gradient passes through the same mask: the forward kernel without bias and residual.
extern "C" void cuda_dropout_backward(struct device *device, const struct op_dropout_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct op_dropout_add forward = {};
    forward.out = op->dx;
    forward.x = op->dy;
    forward.dropout = op->dropout;
    forward.factor = op->factor;
    bool is_scaled = op->factor != 0 && op->factor != 1;
    if (op->dropout.rate > 0 || is_scaled || op->dx.data != op->dy.data)
        dropout_run(cuda, &forward);
    if (op->dbias.data)
        column_sum(cuda, (float *)op->dbias.data, op->dx);
}

template <typename T> struct jitter_args {
    T *out;             // (N, C); may be x or residual
    const T *x;         // (N, C)
    const T *residual;  // (N, C) or NULL
    int64_t rows, columns;
    bool is_wide;
    struct cuda_dropout draw;  // its seed, site and row_ids
    float epsilon;
};

static __device__ __forceinline__ float jitter_factor(uint32_t half, float epsilon) {
    return 1.0f + epsilon * (((float)half - 32767.5f) / 32768.0f);
}

template <typename T> static __global__ void jitter_kernel(jitter_args<T> args) {
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, columns = args.columns, offset = row * columns;
    if (row >= args.rows)
        return;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float x[8], residual[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        load8(x, args.x + offset, column, columns, args.is_wide);
        if (args.residual)
            load8(residual, args.residual + offset, column, columns, args.is_wide);
        uint4 drawn = dropout_words(args.draw, args.draw.site, args.draw.row_ids[row], column);
        const uint32_t words[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] =
                x[i] * jitter_factor(i % 2 ? words[i / 2] >> 16 : words[i / 2] & 0xFFFFu, args.epsilon) + residual[i];
        store8(args.out + offset, column, columns, args.is_wide, x);
    }
}

static void jitter_run(struct cuda_device *cuda, const struct op_jitter *op) {
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    WITH_TYPE(op->x.dtype, T, {
        jitter_args<T> args = {};
        args.out = (T *)op->out.data;
        args.x = (const T *)op->x.data;
        args.residual = (const T *)op->residual.data;
        args.rows = rows;
        args.columns = columns;
        const struct tensor tensors[] = {op->out, op->x, op->residual};
        args.is_wide = rows_are_wide(columns, tensors, sizeof tensors / sizeof tensors[0]);
        args.draw.seed = op->seed;
        args.draw.site = op->site;
        args.draw.row_ids = (const int64_t *)op->row_ids.data;
        args.epsilon = op->epsilon;
        unsigned threads = (unsigned)min(divide_up(columns, 8 * 32) * 32, (int64_t)256), height = 256 / threads;
        LAUNCH(cuda, jitter_kernel<T>, grid_x(divide_up(rows, height)), dim3(threads, height), 0, args);
    });
}

extern "C" void cuda_jitter(struct device *device, const struct op_jitter *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    if (op->epsilon != 0) {
        jitter_run(cuda, op);
        return;
    }
    struct op_dropout_add add = {};
    add.out = op->out;
    add.x = op->x;
    add.residual = op->residual;
    dropout_run(cuda, &add);
}
