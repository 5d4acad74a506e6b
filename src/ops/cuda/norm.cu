// LayerNorm and RMSNorm forward and backward, with the residual addition and its dropout fused in. Each is one pass
// over its tensors: a row stays in the registers of a group of threads, eight neighbouring columns (16 bytes of bf16)
// at a time. A block has blockDim.y such groups, each at work on a row of its own; all meet at the same barriers.
//
// Backward also sums down columns (dgain, dbias, ddelta_bias): a block walks over many rows and adds up in registers,
// and column_finish adds up the blocks, whose number depends on shapes alone. What is normalised is the sum as it is
// stored, rounded to its dtype, because backward has only that.
#include "ops/cuda/cuda.cuh"

enum {
    NORM_THREADS = 512,     // most threads of a block
    FORWARD_THREADS = 256,  // of a forward block, where a row needs fewer
    BACKWARD_BLOCKS = 264,  // two for each multiprocessor of an H100; a constant, so that sums are the same anywhere
    NORM_QUANTITIES = 3,    // dgain, dbias, ddelta_bias
    MOST_NORM_COLUMNS = 8 * 8 * NORM_THREADS,
};

template <typename T> struct norm_args {
    T *y;                  // forward (N, C)
    float *mean, *rstd;    // (N); mean NULL with RMS
    const T *x;            // (N, C)
    const T *gain, *bias;  // (C)
    const T *delta;        // (N, C) or NULL
    const T *delta_bias;   // (C) or NULL
    T *sum;                // (N, C), with delta; may be x
    float epsilon;

    T *dx;               // backward (N, C); may be dresidual
    T *ddelta;           // (N, C) or NULL; may be dy
    const T *dy;         // (N, C)
    const T *dresidual;  // (N, C) or NULL
    float *partial;      // (NORM_QUANTITIES, blocks, C)

    int64_t rows, columns;
    bool is_wide;  // rows are aligned to 16 bytes and their length is a multiple of 8
    bool is_rms;
    struct cuda_dropout dropout;
};

// The sum over the threads of a row; every thread of the block calls it. `shared` holds 32 floats per row of the block
// and must not be used by the call before or after.
static __device__ __forceinline__ float row_sum(float value, float *shared) {
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    float *mine = shared + 32 * threadIdx.y;
    value = warp_sum(value);
    if (warps == 1)
        return value;
    if (lane == 0)
        mine[threadIdx.x >> 5] = value;
    __syncthreads();
    return warp_sum(lane < warps ? mine[lane] : 0.0f);
}

// value = x + dropout(delta + delta_bias), rounded as it is stored.
template <typename T>
static __device__ __forceinline__ void add_delta(float value[8], const norm_args<T> &args, int64_t row,
                                                 int64_t column) {
    float delta[8], bias[8];
    load8(delta, args.delta + row * args.columns, column, args.columns, args.is_wide);
    if (args.delta_bias) {
        load8(bias, args.delta_bias, column, args.columns, args.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            delta[i] += bias[i];
    }
    dropout_apply(delta, args.dropout, row, column);
    dropout_apply(delta + 4, args.dropout, row, column + 4);
#pragma unroll
    for (int i = 0; i < 8; i++)
        value[i] = rounded<T>(value[i] + delta[i]);
    store8(args.sum + row * args.columns, column, args.columns, args.is_wide, value);
}

// Block (threads of a row, rows): thread x holds the columns 8 (x + blockDim.x * g) of its row, g < GROUPS.
template <typename T, int GROUPS>
static __global__ void __launch_bounds__(NORM_THREADS) norm_forward_kernel(norm_args<T> args) {
    __shared__ float shared[2][NORM_THREADS];
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, columns = args.columns;
    bool is_row = row < args.rows;
    float value[GROUPS][8], total = 0, squares = 0, mean = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int64_t column = 8 * ((int64_t)threadIdx.x + g * blockDim.x);
#pragma unroll
        for (int i = 0; i < 8; i++)
            value[g][i] = 0;
        if (is_row && column < columns) {
            load8(value[g], args.x + row * columns, column, columns, args.is_wide);
            if (args.delta)
                add_delta(value[g], args, row, column);
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
            total += value[g][i];
    }
    if (!args.is_rms)
        mean = row_sum(total, shared[0]) / (float)columns;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (8 * ((int64_t)threadIdx.x + g * blockDim.x) + i < columns)
                squares += (value[g][i] - mean) * (value[g][i] - mean);
    float rstd = 1.0f / sqrtf(row_sum(squares, shared[1]) / (float)columns + args.epsilon);
    if (!is_row)
        return;
    if (threadIdx.x == 0) {
        if (!args.is_rms)
            args.mean[row] = mean;
        args.rstd[row] = rstd;
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int64_t column = 8 * ((int64_t)threadIdx.x + g * blockDim.x);
        float gain[8], bias[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (column >= columns)
            break;
        load8(gain, args.gain, column, columns, args.is_wide);
        if (args.bias)
            load8(bias, args.bias, column, columns, args.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            value[g][i] = (value[g][i] - mean) * rstd * gain[i] + bias[i];
        store8(args.y + row * columns, column, columns, args.is_wide, value[g]);
    }
}

// What a thread reads of a row in backward, as it lies in memory.
template <typename T, int GROUPS> struct norm_row { eight<T> dy[GROUPS], x[GROUPS], residual[GROUPS]; };

template <typename T, int GROUPS>
static __device__ __forceinline__ void fetch_row(norm_row<T, GROUPS> *to, const norm_args<T> &args, int64_t row) {
    int64_t columns = args.columns;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int64_t column = 8 * ((int64_t)threadIdx.x + g * blockDim.x);
        bool is_there = row < args.rows && column < columns;
        to->dy[g] = is_there ? fetch8(args.dy + row * columns, column, columns, args.is_wide) : eight<T>();
        to->x[g] = is_there ? fetch8(args.x + row * columns, column, columns, args.is_wide) : eight<T>();
        to->residual[g] = is_there && args.dresidual
                              ? fetch8(args.dresidual + row * columns, column, columns, args.is_wide)
                              : eight<T>();
    }
}

// dx = dresidual + rstd * (g - mean(g) - n * mean(g * n)) with g = dy * gain and n the normalised x; without mean(g)
// for RMS. The next row is on its way while this one is worked on. A thread has read its elements of dy and dresidual
// before it writes the same ones of ddelta and dx, which may be the same memory.
template <typename T, int GROUPS>
static __global__ void __launch_bounds__(NORM_THREADS) norm_backward_kernel(norm_args<T> args) {
    __shared__ float shared[2][2][NORM_THREADS];
    int64_t columns = args.columns, step = (int64_t)gridDim.x * blockDim.y;
    float sums[NORM_QUANTITIES][GROUPS][8] = {};
    norm_row<T, GROUPS> next;
    int parity = 0;
    fetch_row(&next, args, (int64_t)blockIdx.x * blockDim.y + threadIdx.y);
    for (int64_t base = (int64_t)blockIdx.x * blockDim.y; base < args.rows; base += step, parity ^= 1) {
        int64_t row = base + threadIdx.y;
        bool is_row = row < args.rows;
        norm_row<T, GROUPS> now = next;
        fetch_row(&next, args, row + step);
        float mean = is_row && !args.is_rms ? args.mean[row] : 0.0f, rstd = is_row ? args.rstd[row] : 0.0f;
        float sum_g = 0, sum_gn = 0, dy[8], x[8], gain[8];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int64_t column = 8 * ((int64_t)threadIdx.x + g * blockDim.x);
            unpack8(dy, now.dy[g]);
            unpack8(x, now.x[g]);
            if (column < columns)
                load8(gain, args.gain, column, columns, args.is_wide);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float n = (x[i] - mean) * rstd, product = column < columns ? dy[i] * gain[i] : 0.0f;
                sum_g += product;
                sum_gn += product * n;
                sums[0][g][i] += dy[i] * n;
                sums[1][g][i] += dy[i];
            }
        }
        float mean_g = row_sum(sum_g, shared[parity][0]) / (float)columns;
        float mean_gn = row_sum(sum_gn, shared[parity][1]) / (float)columns;
        if (args.is_rms)
            mean_g = 0;
        if (!is_row)
            continue;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int64_t column = 8 * ((int64_t)threadIdx.x + g * blockDim.x);
            float residual[8], dx[8];
            if (column >= columns)
                break;
            unpack8(dy, now.dy[g]);
            unpack8(x, now.x[g]);
            unpack8(residual, now.residual[g]);
            load8(gain, args.gain, column, columns, args.is_wide);
#pragma unroll
            for (int i = 0; i < 8; i++)
                dx[i] = residual[i] + rstd * (dy[i] * gain[i] - mean_g - (x[i] - mean) * rstd * mean_gn);
            store8(args.dx + row * columns, column, columns, args.is_wide, dx);
            if (!args.ddelta)
                continue;
            dropout_apply(dx, args.dropout, row, column);
            dropout_apply(dx + 4, args.dropout, row, column + 4);
            if (args.ddelta != args.dx)
                store8(args.ddelta + row * columns, column, columns, args.is_wide, dx);
#pragma unroll
            for (int i = 0; i < 8; i++)
                sums[2][g][i] += dx[i];
        }
    }
    // The rows of the block, one after the other, add theirs; the last one writes. Only short rows share a block.
    __shared__ float totals[NORM_QUANTITIES][8][NORM_THREADS / 2];
    for (unsigned turn = 0; turn < blockDim.y; turn++) {
        if (turn > 0)
            __syncthreads();
        if (threadIdx.y != turn)
            continue;
#pragma unroll
        for (int q = 0; q < NORM_QUANTITIES; q++)
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                int64_t column = 8 * ((int64_t)threadIdx.x + g * blockDim.x);
                float *place = args.partial + ((int64_t)q * gridDim.x + blockIdx.x) * columns + column;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float total = sums[q][g][i];
                    if (turn > 0)
                        total += totals[q][i][threadIdx.x];
                    if (turn + 1 < blockDim.y)
                        totals[q][i][threadIdx.x] = total;
                    else if (column + i < columns)
                        place[i] = total;
                }
            }
    }
}

// Threads (x) of a row with so many groups of eight columns each.
static unsigned threads_of_row(int64_t columns, int groups) {
    return (unsigned)(divide_up(divide_up(columns, 8 * groups), 32) * 32);
}

static int groups_of_row(int64_t columns) {
    if (columns > MOST_NORM_COLUMNS)
        die("norm: %lld columns are beyond the %d of the CUDA backend", (long long)columns, (int)MOST_NORM_COLUMNS);
    return columns <= 8 * NORM_THREADS ? 1 : columns <= 16 * NORM_THREADS ? 2 : 8;
}

#define WITH_GROUPS(columns, GROUPS, ...)                                                                              \
    do {                                                                                                               \
        switch (groups_of_row(columns)) {                                                                              \
        case 1: {                                                                                                      \
            enum { GROUPS = 1 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        case 2: {                                                                                                      \
            enum { GROUPS = 2 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        default: {                                                                                                     \
            enum { GROUPS = 8 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        }                                                                                                              \
    } while (0)

template <typename T> static void norm_forward(struct cuda_device *cuda, const struct op_norm_forward *op) {
    norm_args<T> args = {};
    args.rows = op->x.shape[0];
    args.columns = op->x.shape[1];
    args.is_rms = op->kind == NORM_RMS;
    args.y = (T *)op->y.data;
    args.mean = (float *)op->mean.data;
    args.rstd = (float *)op->rstd.data;
    args.x = (const T *)op->x.data;
    args.gain = (const T *)op->gain.data;
    args.bias = (const T *)op->bias.data;
    args.delta = (const T *)op->delta.data;
    args.delta_bias = (const T *)op->delta_bias.data;
    args.sum = (T *)op->sum.data;
    args.epsilon = op->epsilon;
    args.dropout = cuda_dropout(&op->dropout);
    const struct tensor tensors[] = {op->y, op->x, op->gain, op->bias, op->delta, op->delta_bias, op->sum};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    WITH_GROUPS(args.columns, GROUPS, {
        unsigned threads = threads_of_row(args.columns, GROUPS);
        unsigned rows = threads >= FORWARD_THREADS ? 1 : FORWARD_THREADS / threads;
        LAUNCH(cuda, (norm_forward_kernel<T, GROUPS>), grid_x(divide_up(args.rows, rows)), dim3(threads, rows), 0,
               args);
    });
}

extern "C" void cuda_norm_forward(struct device *device, const struct op_norm_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    WITH_TYPE(op->x.dtype, T, norm_forward<T>(cuda, op));
}

template <typename T> static void norm_backward(struct cuda_device *cuda, const struct op_norm_backward *op) {
    norm_args<T> args = {};
    args.rows = op->x.shape[0];
    args.columns = op->x.shape[1];
    args.is_rms = op->kind == NORM_RMS;
    args.dx = (T *)op->dx.data;
    args.ddelta = (T *)op->ddelta.data;
    args.dy = (const T *)op->dy.data;
    args.x = (const T *)op->x.data;
    args.gain = (const T *)op->gain.data;
    args.mean = (float *)op->mean.data;
    args.rstd = (float *)op->rstd.data;
    args.dresidual = (const T *)op->dresidual.data;
    args.partial = cuda->scratch;
    args.dropout = cuda_dropout(&op->dropout);
    const struct tensor tensors[] = {op->dx, op->ddelta, op->dy, op->x, op->gain, op->dresidual};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    int64_t blocks = min((int64_t)BACKWARD_BLOCKS, SCRATCH_FLOATS / (NORM_QUANTITIES * args.columns));
    WITH_GROUPS(args.columns, GROUPS, {
        unsigned threads = threads_of_row(args.columns, GROUPS), rows = GROUPS == 1 ? NORM_THREADS / threads : 1;
        blocks = min(blocks, divide_up(args.rows, rows));
        LAUNCH(cuda, (norm_backward_kernel<T, GROUPS>), grid_x(blocks), dim3(threads, rows), 0, args);
    });
    float *out[NORM_QUANTITIES] = {(float *)op->dgain.data, (float *)op->dbias.data, (float *)op->ddelta_bias.data};
    column_finish(cuda, out, NORM_QUANTITIES, args.partial, blocks, args.columns);
}

extern "C" void cuda_norm_backward(struct device *device, const struct op_norm_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    WITH_TYPE(op->x.dtype, T, norm_backward<T>(cuda, op));
}
