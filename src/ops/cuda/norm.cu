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
    SHORT_THREADS = 256,    // of a block where a row needs no more
    BACKWARD_BLOCKS = 396,  // three for each multiprocessor of an H100; a constant, so that sums are the same anywhere
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

// Two sums over the threads of a row; every thread of the block calls it. `shared` holds one pair per warp of the block
// and must not be used by the call before or after.
static __device__ __forceinline__ float2 row_sums(float a, float b, float2 *shared) {
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    float2 *mine = shared + warps * threadIdx.y;
    a = warp_sum(a);
    b = warp_sum(b);
    if (warps == 1)
        return make_float2(a, b);
    if (lane == 0)
        mine[threadIdx.x >> 5] = make_float2(a, b);
    __syncthreads();
    float2 sum = lane < warps ? mine[lane] : make_float2(0, 0);
    return make_float2(warp_sum(sum.x), warp_sum(sum.y));
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

// Mean and sum of squared distances from it, of a row of which the threads hold parts: each warp finds those of its part
// and one barrier puts the parts together, which rounds as little as two passes over the row. With is_rms the mean is 0.
template <int GROUPS>
static __device__ __forceinline__ float2 row_moments(const float value[GROUPS][8], int64_t columns, bool is_rms,
                                                     float3 *shared) {
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    float total = 0, count = 0, squares = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int64_t left = columns - 8 * ((int64_t)threadIdx.x + g * blockDim.x);
        count += (float)max((int64_t)0, min((int64_t)8, left));
#pragma unroll
        for (int i = 0; i < 8; i++)
            total += value[g][i];
    }
    count = warp_sum(count);
    float mean = is_rms || count == 0 ? 0.0f : warp_sum(total) / count;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (8 * ((int64_t)threadIdx.x + g * blockDim.x) + i < columns)
                squares += (value[g][i] - mean) * (value[g][i] - mean);
    squares = warp_sum(squares);
    if (warps == 1)
        return make_float2(mean, squares);
    float3 *mine = shared + warps * threadIdx.y;
    if (lane == 0)
        mine[threadIdx.x >> 5] = make_float3(count, mean, squares);
    __syncthreads();
    float3 part = lane < warps ? mine[lane] : make_float3(0, 0, 0);
    mean = warp_sum(part.x * part.y) / (float)columns;
    return make_float2(mean, warp_sum(part.z + part.x * (part.y - mean) * (part.y - mean)));
}

// Block (threads of a row, rows): thread x holds the columns 8 (x + blockDim.x * g) of its row, g < GROUPS.
template <typename T, int GROUPS>
static __global__ void __launch_bounds__(NORM_THREADS) norm_forward_kernel(norm_args<T> args) {
    __shared__ float3 shared[NORM_THREADS / 32];
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, columns = args.columns;
    bool is_row = row < args.rows;
    float value[GROUPS][8];
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
    }
    float2 moments = row_moments<GROUPS>(value, columns, args.is_rms, shared);
    float mean = moments.x, rstd = 1.0f / sqrtf(moments.y / (float)columns + args.epsilon);
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
template <typename T, int GROUPS> struct norm_row {
    eight<T> dy[GROUPS], x[GROUPS], residual[GROUPS];
    float mean, rstd;
};

template <typename T, int GROUPS, bool IS_WIDE>
static __device__ __forceinline__ void fetch_row(norm_row<T, GROUPS> *to, const norm_args<T> &args, int64_t row) {
    int columns = (int)args.columns;
    int64_t offset = row * columns;
    to->mean = row < args.rows && !args.is_rms ? args.mean[row] : 0.0f;
    to->rstd = row < args.rows ? args.rstd[row] : 0.0f;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int column = 8 * (int)(threadIdx.x + g * blockDim.x);
        bool is_there = row < args.rows && column < columns;
        to->dy[g] = is_there ? fetch8(args.dy + offset, column, columns, IS_WIDE) : eight<T>();
        to->x[g] = is_there ? fetch8(args.x + offset, column, columns, IS_WIDE) : eight<T>();
        to->residual[g] =
            is_there && args.dresidual ? fetch8(args.dresidual + offset, column, columns, IS_WIDE) : eight<T>();
    }
}

// dx = dresidual + rstd * (g - mean(g) - n * mean(g * n)) with g = dy * gain and n the normalised x; without mean(g)
// for RMS. The next row is on its way while this one is worked on. A thread has read its elements of dy and dresidual
// before it writes the same ones of ddelta and dx, which may be the same memory.
template <typename T, int GROUPS, int THREADS, bool IS_WIDE>
static __global__ void __launch_bounds__(THREADS, THREADS == SHORT_THREADS ? 3 : 1)
    norm_backward_kernel(norm_args<T> args) {
    __shared__ float2 shared[2][THREADS / 32];
    int columns = (int)args.columns;
    int64_t step = (int64_t)gridDim.x * blockDim.y;
    float sums[NORM_QUANTITIES][GROUPS][8] = {};
    norm_row<T, GROUPS> next;
    int parity = 0;
    fetch_row<T, GROUPS, IS_WIDE>(&next, args, (int64_t)blockIdx.x * blockDim.y + threadIdx.y);
    for (int64_t base = (int64_t)blockIdx.x * blockDim.y; base < args.rows; base += step, parity ^= 1) {
        int64_t row = base + threadIdx.y;
        bool is_row = row < args.rows;
        norm_row<T, GROUPS> now = next;
        fetch_row<T, GROUPS, IS_WIDE>(&next, args, row + step);
        float mean = now.mean, rstd = now.rstd;
        float sum_g = 0, sum_gn = 0, dy[8], x[8], gain[8];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = 8 * (int)(threadIdx.x + g * blockDim.x);
            unpack8(dy, now.dy[g]);
            unpack8(x, now.x[g]);
            if (column < columns)
                load8(gain, args.gain, column, columns, IS_WIDE);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float n = (x[i] - mean) * rstd, product = column < columns ? dy[i] * gain[i] : 0.0f;
                sum_g += product;
                sum_gn += product * n;
                sums[0][g][i] += dy[i] * n;
                sums[1][g][i] += dy[i];
            }
        }
        float2 totals = row_sums(sum_g, sum_gn, shared[parity]);
        float mean_g = args.is_rms ? 0.0f : totals.x / (float)columns, mean_gn = totals.y / (float)columns;
        if (!is_row)
            continue;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = 8 * (int)(threadIdx.x + g * blockDim.x);
            float residual[8], dx[8];
            if (column >= columns)
                break;
            unpack8(dy, now.dy[g]);
            unpack8(x, now.x[g]);
            unpack8(residual, now.residual[g]);
            load8(gain, args.gain, column, columns, IS_WIDE);
#pragma unroll
            for (int i = 0; i < 8; i++)
                dx[i] = residual[i] + rstd * (dy[i] * gain[i] - mean_g - (x[i] - mean) * rstd * mean_gn);
            store8(args.dx + row * columns, column, columns, IS_WIDE, dx);
            if (!args.ddelta)
                continue;
            dropout_apply(dx, args.dropout, row, column);
            dropout_apply(dx + 4, args.dropout, row, column + 4);
            if (args.ddelta != args.dx)
                store8(args.ddelta + row * columns, column, columns, IS_WIDE, dx);
#pragma unroll
            for (int i = 0; i < 8; i++)
                sums[2][g][i] += dx[i];
        }
    }
    // The rows of the block, one after the other, add theirs; the last one writes. Only short rows share a block.
    __shared__ float totals[NORM_QUANTITIES][8][SHORT_THREADS / 2];
    for (unsigned turn = 0; turn < blockDim.y; turn++) {
        if (turn > 0)
            __syncthreads();
        if (threadIdx.y != turn)
            continue;
#pragma unroll
        for (int q = 0; q < NORM_QUANTITIES; q++)
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                int column = 8 * (int)(threadIdx.x + g * blockDim.x);
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
        unsigned rows = threads >= SHORT_THREADS ? 1 : SHORT_THREADS / threads;
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
        unsigned threads = threads_of_row(args.columns, GROUPS);
        unsigned rows = threads <= SHORT_THREADS ? SHORT_THREADS / threads : 1;
        blocks = min(blocks, divide_up(args.rows, rows));
        dim3 block(threads, rows);
        if (!args.is_wide)
            LAUNCH(cuda, (norm_backward_kernel<T, GROUPS, NORM_THREADS, false>), grid_x(blocks), block, 0, args);
        else if (GROUPS > 1 || threads > SHORT_THREADS)
            LAUNCH(cuda, (norm_backward_kernel<T, GROUPS, NORM_THREADS, true>), grid_x(blocks), block, 0, args);
        else
            LAUNCH(cuda, (norm_backward_kernel<T, 1, SHORT_THREADS, true>), grid_x(blocks), block, 0, args);
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
