// LayerNorm forward and backward, with the residual addition and its dropout fused in. One block per row makes y and
// dx; the sums down columns (dgain, dbias) are a separate pass over (column tile, block of rows), see reduce.cu. What
// is normalised is the sum as it is stored, rounded to its dtype, because backward has only that.
#include "ops/cuda/cuda.cuh"

template <typename T> struct norm_forward_args {
    T *y;                  // (N, C)
    float *mean, *rstd;    // (N)
    const T *x;            // (N, C)
    const T *gain, *bias;  // (C)
    const T *delta;        // (N, C) or NULL
    const T *delta_bias;   // (C) or NULL
    T *sum;                // (N, C), with delta; may be x
    int64_t columns;
    float epsilon;
    struct cuda_dropout dropout;
};

// sum = x + dropout(delta + delta_bias) for four columns of a row; they are left in `value` as they were stored.
template <typename T>
static __device__ __forceinline__ void add_delta(float value[4], const norm_forward_args<T> &args, int64_t row,
                                                 int64_t column) {
    int64_t columns = args.columns;
    float delta[4], bias[4] = {0, 0, 0, 0};
    load4(delta, args.delta + row * columns, column, columns);
    if (args.delta_bias)
        load4(bias, args.delta_bias, column, columns);
#pragma unroll
    for (int i = 0; i < 4; i++)
        delta[i] += bias[i];
    dropout_apply(delta, args.dropout, row, column);
#pragma unroll
    for (int i = 0; i < 4; i++)
        value[i] = rounded<T>(value[i] + delta[i]);
    store4(args.sum + row * columns, column, columns, value);
}

// A thread reads back only elements of `sum` that it has written itself, so the passes need no barrier for them.
template <typename T> static __global__ void norm_forward_kernel(norm_forward_args<T> args) {
    __shared__ float shared[32];
    int64_t row = blockIdx.x, columns = args.columns;
    const T *source = (args.delta ? args.sum : args.x) + row * columns;
    int64_t first = 4 * threadIdx.x, step = 4 * blockDim.x;
    float total = 0, value[4];
    for (int64_t column = first; column < columns; column += step) {
        load4(value, args.x + row * columns, column, columns);
        if (args.delta)
            add_delta(value, args, row, column);
        total += (value[0] + value[1]) + (value[2] + value[3]);
    }
    float mean = block_sum(total, shared) / (float)columns;
    float squares = 0;
    for (int64_t column = first; column < columns; column += step) {
        load4(value, source, column, columns);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (column + i < columns)
                squares += (value[i] - mean) * (value[i] - mean);
    }
    float rstd = 1.0f / sqrtf(block_sum(squares, shared) / (float)columns + args.epsilon);
    if (threadIdx.x == 0) {
        args.mean[row] = mean;
        args.rstd[row] = rstd;
    }
    for (int64_t column = first; column < columns; column += step) {
        float gain[4], bias[4];
        load4(value, source, column, columns);
        load4(gain, args.gain, column, columns);
        load4(bias, args.bias, column, columns);
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[i] = (value[i] - mean) * rstd * gain[i] + bias[i];
        store4(args.y + row * columns, column, columns, value);
    }
}

template <typename T> static void norm_forward(struct cuda_device *cuda, const struct op_norm_forward *op) {
    norm_forward_args<T> args = {};
    args.y = (T *)op->y.data;
    args.mean = (float *)op->mean.data;
    args.rstd = (float *)op->rstd.data;
    args.x = (const T *)op->x.data;
    args.gain = (const T *)op->gain.data;
    args.bias = (const T *)op->bias.data;
    args.delta = (const T *)op->delta.data;
    args.delta_bias = (const T *)op->delta_bias.data;
    args.sum = (T *)op->sum.data;
    args.columns = op->x.shape[1];
    args.epsilon = op->epsilon;
    args.dropout = cuda_dropout(&op->dropout);
    LAUNCH(cuda, norm_forward_kernel<T>, grid_x(op->x.shape[0]), row_threads(args.columns), 0, args);
}

extern "C" void cuda_norm_forward(struct device *device, const struct op_norm_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    WITH_TYPE(op->x.dtype, T, norm_forward<T>(cuda, op));
}

template <typename T> struct norm_backward_args {
    T *dx;                               // (N, C); may be dresidual
    T *ddelta;                           // (N, C) or NULL; may be dy, or dx where the dropout is off
    float *partial_gain, *partial_bias;  // (splits, C)
    const T *dy, *x;                     // (N, C)
    const T *gain;                       // (C)
    const float *mean, *rstd;            // (N)
    const T *dresidual;                  // (N, C) or NULL
    int64_t rows, columns;
    struct column_split split;
    struct cuda_dropout dropout;
};

// Block (32, 8) at (column tile, split): partial sums of dy * normalised x and of dy.
template <typename T> static __global__ void norm_columns_kernel(norm_backward_args<T> args) {
    __shared__ float sums[2][ROW_LANES][COLUMN_TILE];
    int64_t columns = args.columns, tile = (int64_t)blockIdx.x * COLUMN_TILE, column = tile + 4 * threadIdx.x;
    int64_t first = blockIdx.y * args.split.rows_per_split;
    int64_t last = min(first + args.split.rows_per_split, args.rows);
    float gain[4] = {0, 0, 0, 0}, bias[4] = {0, 0, 0, 0};
    if (column < columns)
        for (int64_t row = first + threadIdx.y; row < last; row += ROW_LANES) {
            float dy[4], x[4], mean = args.mean[row], rstd = args.rstd[row];
            load4(dy, args.dy + row * columns, column, columns);
            load4(x, args.x + row * columns, column, columns);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                gain[i] += dy[i] * (x[i] - mean) * rstd;
                bias[i] += dy[i];
            }
        }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sums[0][threadIdx.y][4 * threadIdx.x + i] = gain[i];
        sums[1][threadIdx.y][4 * threadIdx.x + i] = bias[i];
    }
    __syncthreads();
    // 256 threads, 2 * COLUMN_TILE sums.
    int thread = threadIdx.y * COLUMN_LANES + threadIdx.x;
    int quantity = thread / COLUMN_TILE, place = thread % COLUMN_TILE;
    if (tile + place < columns) {
        float total = 0;
        for (int i = 0; i < ROW_LANES; i++)
            total += sums[quantity][i][place];
        (quantity == 0 ? args.partial_gain : args.partial_bias)[blockIdx.y * columns + tile + place] = total;
    }
}

// dx = dresidual + rstd * (g - mean(g) - n * mean(g * n)) with g = dy * gain and n the normalised x. Each thread reads
// its elements of dy and dresidual before it writes the same ones of ddelta and dx, which may be the same memory.
template <typename T> static __global__ void norm_rows_kernel(norm_backward_args<T> args) {
    __shared__ float shared[32];
    int64_t row = blockIdx.x, columns = args.columns, offset = row * columns;
    int64_t first = 4 * threadIdx.x, step = 4 * blockDim.x;
    float mean = args.mean[row], rstd = args.rstd[row];
    float sum_g = 0, sum_gn = 0, dy[4], x[4], gain[4];
    for (int64_t column = first; column < columns; column += step) {
        load4(dy, args.dy + offset, column, columns);
        load4(x, args.x + offset, column, columns);
        load4(gain, args.gain, column, columns);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float g = dy[i] * gain[i];
            sum_g += g;
            sum_gn += g * (x[i] - mean) * rstd;
        }
    }
    float mean_g = block_sum(sum_g, shared) / (float)columns;
    float mean_gn = block_sum(sum_gn, shared) / (float)columns;
    for (int64_t column = first; column < columns; column += step) {
        float residual[4] = {0, 0, 0, 0}, dx[4];
        load4(dy, args.dy + offset, column, columns);
        load4(x, args.x + offset, column, columns);
        load4(gain, args.gain, column, columns);
        if (args.dresidual)
            load4(residual, args.dresidual + offset, column, columns);
#pragma unroll
        for (int i = 0; i < 4; i++)
            dx[i] = residual[i] + rstd * (dy[i] * gain[i] - mean_g - (x[i] - mean) * rstd * mean_gn);
        store4(args.dx + offset, column, columns, dx);
        if (args.ddelta) {
            dropout_apply(dx, args.dropout, row, column);
            store4(args.ddelta + offset, column, columns, dx);
        }
    }
}

// The columns come first: ddelta may take the place of dy.
template <typename T> static void norm_backward(struct cuda_device *cuda, const struct op_norm_backward *op) {
    norm_backward_args<T> args = {};
    args.rows = op->x.shape[0];
    args.columns = op->x.shape[1];
    args.split = column_split(args.rows, args.columns, 2);
    args.dx = (T *)op->dx.data;
    args.ddelta = (T *)op->ddelta.data;
    args.partial_gain = cuda->scratch;
    args.partial_bias = cuda->scratch + args.split.splits * args.columns;
    args.dy = (const T *)op->dy.data;
    args.x = (const T *)op->x.data;
    args.gain = (const T *)op->gain.data;
    args.mean = (const float *)op->mean.data;
    args.rstd = (const float *)op->rstd.data;
    args.dresidual = (const T *)op->dresidual.data;
    args.dropout = cuda_dropout(&op->dropout);
    dim3 grid(grid_x(divide_up(args.columns, COLUMN_TILE)), grid_yz(args.split.splits));
    LAUNCH(cuda, norm_columns_kernel<T>, grid, dim3(COLUMN_LANES, ROW_LANES), 0, args);
    column_finish(cuda, (float *)op->dgain.data, args.partial_gain, args.split.splits, args.columns);
    column_finish(cuda, (float *)op->dbias.data, args.partial_bias, args.split.splits, args.columns);
    LAUNCH(cuda, norm_rows_kernel<T>, grid_x(args.rows), row_threads(args.columns), 0, args);
}

extern "C" void cuda_norm_backward(struct device *device, const struct op_norm_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    WITH_TYPE(op->x.dtype, T, norm_backward<T>(cuda, op));
    if (op->ddelta_bias.data)
        column_sum(cuda, (float *)op->ddelta_bias.data, op->ddelta);
}
