// LayerNorm and RMSNorm backward in one pass over the tensors. The sums down columns (dgain, dbias, ddelta_bias) are
// taken on the way: a block adds up its rows in registers, and column_finish adds up the blocks, whose number depends
// on shapes alone.
#include "ops/cuda/norm.cuh"

enum {
    // Three for each multiprocessor of an H100, of long rows two, as many as it holds at once; constants, so that sums
    // are the same anywhere.
    BACKWARD_BLOCKS = 396,
    LONG_BACKWARD_BLOCKS = 264,
    BACKWARD_TENSORS = 3,  // dy, x, dresidual
    QUANTITIES = 3,        // dgain, dbias, ddelta_bias
    NORM_STAGES = 3,       // rows in a queue
};

template <typename T> struct backward_args {
    T *dx;               // (N, C); may be dresidual
    T *ddelta;           // (N, C) or NULL; may be dy, and dx where the dropout is off
    T *y;                // (N, C) or NULL: the norm's output once more; may be dy
    const T *dy, *x;     // (N, C)
    const T *dresidual;  // (N, C) or NULL
    const T *gain;       // (C)
    const T *bias;       // (C) or NULL
    const float *mean;   // (N); NULL with RMS
    const float *rstd;   // (N)
    float *partial;      // (QUANTITIES, blocks, C)
    int64_t rows, columns;
    bool is_wide;  // rows are aligned to 16 bytes and their length is a multiple of 8
    bool is_rms;
    struct cuda_dropout dropout;
};

// Two sums over the threads of a row; every thread of the block calls it. `shared` holds one pair per warp of the
// block and must not be used by the call before or after.
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

// A place of the queue: `tensor` of so many tensors, for this thread.
template <typename T, int TENSORS>
static __device__ __forceinline__ eight<T> *queue_place(eight<T> *queue, int stage, int tensor) {
    int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    return queue + (stage * TENSORS + tensor) * threads + thread;
}

template <typename T> static __device__ __forceinline__ void queue_fetch(eight<T> *place, const T *from) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(eight<T>) / 16; i++)
        async_copy16(&place->word[i], (const uint4 *)from + i);
}

// Lets a kernel have that much shared memory.
template <typename Kernel> static void norm_take_shared(Kernel kernel, size_t bytes) {
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
}

// What a thread reads of a row, as it lies in memory.
template <typename T, int GROUPS> struct norm_row { eight<T> dy[GROUPS], x[GROUPS], residual[GROUPS]; };

template <typename T, int GROUPS>
static __device__ __forceinline__ void fetch_row(norm_row<T, GROUPS> *to, const backward_args<T> &args, int64_t row) {
    int columns = (int)args.columns;
    int64_t offset = row * columns;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int column = 8 * (int)(threadIdx.x + g * blockDim.x);
        bool is_there = row < args.rows && column < columns, has_residual = is_there && args.dresidual;
        to->dy[g] = is_there ? fetch8(args.dy + offset, column, columns, args.is_wide) : eight<T>();
        to->x[g] = is_there ? fetch8(args.x + offset, column, columns, args.is_wide) : eight<T>();
        to->residual[g] = has_residual ? fetch8(args.dresidual + offset, column, columns, args.is_wide) : eight<T>();
    }
}

// Mean and rstd of a row; 0 where there is none.
template <typename T> static __device__ __forceinline__ float2 stats_of(const backward_args<T> &args, int64_t row) {
    bool is_row = row < args.rows;
    return make_float2(is_row && !args.is_rms ? args.mean[row] : 0.0f, is_row ? args.rstd[row] : 0.0f);
}

template <typename T>
static __device__ __forceinline__ void queue_row(eight<T> *queue, int stage, const backward_args<T> &args,
                                                 int64_t row) {
    int column = 8 * threadIdx.x;
    int64_t offset = row * args.columns + column;
    if (row < args.rows && column < args.columns) {
        queue_fetch(queue_place<T, BACKWARD_TENSORS>(queue, stage, 0), args.dy + offset);
        queue_fetch(queue_place<T, BACKWARD_TENSORS>(queue, stage, 1), args.x + offset);
        if (args.dresidual)
            queue_fetch(queue_place<T, BACKWARD_TENSORS>(queue, stage, 2), args.dresidual + offset);
    }
    async_commit();
}

// The row at the head of the queue.
template <typename T>
static __device__ __forceinline__ void dequeue_row(norm_row<T, 1> *to, eight<T> *queue, int stage,
                                                   const backward_args<T> &args, int64_t row) {
    bool is_there = row < args.rows && 8 * (int)threadIdx.x < (int)args.columns;
    bool has_residual = is_there && args.dresidual;
    to->dy[0] = is_there ? *queue_place<T, BACKWARD_TENSORS>(queue, stage, 0) : eight<T>();
    to->x[0] = is_there ? *queue_place<T, BACKWARD_TENSORS>(queue, stage, 1) : eight<T>();
    to->residual[0] = has_residual ? *queue_place<T, BACKWARD_TENSORS>(queue, stage, 2) : eight<T>();
}

// The rows of a block, one after the other, add their sums; the last one writes them. Only short rows share a block.
template <int GROUPS, int SUMS>
static __device__ __forceinline__ void write_sums(const float sums[SUMS][GROUPS][8], float *partial, int columns) {
    __shared__ float totals[SUMS][8][SHORT_THREADS / 2];
    for (unsigned turn = 0; turn < blockDim.y; turn++) {
        if (turn > 0)
            __syncthreads();
        if (threadIdx.y != turn)
            continue;
#pragma unroll
        for (int q = 0; q < SUMS; q++)
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                int column = 8 * (int)(threadIdx.x + g * blockDim.x);
                float *place = partial + ((int64_t)q * gridDim.x + blockIdx.x) * columns + column;
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

// dx = dresidual + rstd * (g - mean(g) - n * mean(g * n)) with g = dy * gain and n the normalised x; without mean(g)
// for RMS. A thread has read its elements of dy and dresidual before it writes the same ones of ddelta, y and dx, which
// may be the same memory. The bias of y is read for each row: it stays in the nearest cache, and registers are short.
//
// SUMS is QUANTITIES, or 1 where only dgain is asked for.
template <typename T, int GROUPS, int THREADS, bool IS_QUEUED, int SUMS>
static __global__ void __launch_bounds__(THREADS, THREADS == SHORT_THREADS ? 3
                                                  : IS_QUEUED              ? 2
                                                              : 1) norm_backward_kernel(backward_args<T> args) {
    extern __shared__ uint4 memory[];
    __shared__ float2 shared[2][THREADS / 32];
    eight<T> *queue = (eight<T> *)memory;
    bool is_wide = IS_QUEUED || args.is_wide;
    int columns = (int)args.columns, parity = 0, stage = 0;
    int64_t step = (int64_t)gridDim.x * blockDim.y, first = (int64_t)blockIdx.x * blockDim.y;
    float sums[SUMS][GROUPS][8] = {};
    eight<T> packed_gain[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int column = 8 * (int)(threadIdx.x + g * blockDim.x);
        packed_gain[g] = column < columns ? fetch8(args.gain, column, columns, is_wide) : eight<T>();
    }
    if constexpr (IS_QUEUED)
        for (int i = 0; i < NORM_STAGES - 1; i++)
            queue_row(queue, i, args, first + i * step + threadIdx.y);
    float2 next = stats_of(args, first + threadIdx.y);
    for (int64_t base = first; base < args.rows; base += step, parity ^= 1) {
        int64_t row = base + threadIdx.y;
        float mean = next.x, rstd = next.y;
        next = stats_of(args, row + step);
        norm_row<T, GROUPS> now;
        if constexpr (IS_QUEUED) {
            async_wait<NORM_STAGES - 2>();
            dequeue_row(&now, queue, stage, args, row);
            queue_row(queue, (stage + NORM_STAGES - 1) % NORM_STAGES, args, row + (NORM_STAGES - 1) * step);
            stage = (stage + 1) % NORM_STAGES;
        } else {
            fetch_row(&now, args, row);
        }
        float sum_g = 0, sum_gn = 0, gain[8];
        float product[GROUPS][8], n[GROUPS][8];  // dy * gain, and the normalised x
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            float dy[8];
            unpack8(dy, now.dy[g]);
            unpack8(n[g], now.x[g]);
            unpack8(gain, packed_gain[g]);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                n[g][i] = (n[g][i] - mean) * rstd;
                product[g][i] = dy[i] * gain[i];
                sum_g += product[g][i];
                sum_gn += product[g][i] * n[g][i];
                sums[0][g][i] += dy[i] * n[g][i];
                if (SUMS > 1)
                    sums[1 % SUMS][g][i] += dy[i];
            }
        }
        float2 totals = row_sums(sum_g, sum_gn, shared[parity]);
        float mean_g = args.is_rms ? 0.0f : totals.x / (float)columns, mean_gn = totals.y / (float)columns;
        float shift = -rstd * mean_g, slope = -rstd * mean_gn;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = 8 * (int)(threadIdx.x + g * blockDim.x);
            float dx[8];
            if (row >= args.rows || column >= columns)
                continue;
            unpack8(dx, now.residual[g]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                dx[i] += shift + rstd * product[g][i] + slope * n[g][i];
            store8(args.dx + row * columns, column, columns, is_wide, dx);
            if (args.y) {
                float bias[8] = {0, 0, 0, 0, 0, 0, 0, 0};
                if (args.bias)
                    load8(bias, args.bias, column, columns, is_wide);
                unpack8(gain, packed_gain[g]);
#pragma unroll
                for (int i = 0; i < 8; i++)
                    bias[i] += n[g][i] * gain[i];
                store8(args.y + row * columns, column, columns, is_wide, bias);
            }
            if (!args.ddelta)
                continue;
            dropout_apply(dx, args.dropout, row, column);
            dropout_apply(dx + 4, args.dropout, row, column + 4);
            if (args.ddelta != args.dx)
                store8(args.ddelta + row * columns, column, columns, is_wide, dx);
            if (SUMS > 1)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    sums[2 % SUMS][g][i] += dx[i];
        }
    }
    write_sums<GROUPS, SUMS>(sums, args.partial, columns);
}

// Runs the statement with GROUPS standing for the groups of a row that is too long, or not aligned, for the queue.
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
        case 3: {                                                                                                      \
            enum { GROUPS = 3 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        case 4: {                                                                                                      \
            enum { GROUPS = 4 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        } break;                                                                                                       \
        default: {                                                                                                     \
            enum { GROUPS = 8 };                                                                                       \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        }                                                                                                              \
    } while (0)

template <typename T, int THREADS, int SUMS>
static void launch_queued(struct cuda_device *cuda, const backward_args<T> &args, unsigned blocks, dim3 block) {
    size_t bytes = (size_t)NORM_STAGES * BACKWARD_TENSORS * block.x * block.y * sizeof(eight<T>);
    norm_take_shared(norm_backward_kernel<T, 1, THREADS, true, SUMS>, bytes);
    LAUNCH(cuda, (norm_backward_kernel<T, 1, THREADS, true, SUMS>), blocks, block, bytes, args);
}

template <typename T> static void norm_backward(struct cuda_device *cuda, const struct op_norm_backward *op) {
    backward_args<T> args = {};
    args.rows = op->x.shape[0];
    args.columns = op->x.shape[1];
    args.is_rms = op->kind == NORM_RMS;
    args.dx = (T *)op->dx.data;
    args.ddelta = (T *)op->ddelta.data;
    args.dy = (const T *)op->dy.data;
    args.x = (const T *)op->x.data;
    args.gain = (const T *)op->gain.data;
    args.y = (T *)op->y.data;
    args.bias = (const T *)op->bias.data;
    args.mean = (const float *)op->mean.data;
    args.rstd = (const float *)op->rstd.data;
    args.dresidual = (const T *)op->dresidual.data;
    args.partial = cuda->scratch;
    args.dropout = cuda_dropout(&op->dropout);
    const struct tensor tensors[] = {op->dx, op->ddelta, op->dy, op->x, op->gain, op->dresidual, op->y, op->bias};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    static void (*const launches[2][2])(struct cuda_device *, const backward_args<T> &, unsigned, dim3) = {
        {launch_queued<T, SHORT_THREADS, 1>, launch_queued<T, SHORT_THREADS, QUANTITIES>},
        {launch_queued<T, NORM_THREADS, 1>, launch_queued<T, NORM_THREADS, QUANTITIES>}};
    float *out[QUANTITIES] = {(float *)op->dgain.data, (float *)op->dbias.data, (float *)op->ddelta_bias.data};
    int quantities = out[1] || out[2] ? QUANTITIES : 1;
    int64_t blocks = min((int64_t)BACKWARD_BLOCKS, SCRATCH_FLOATS / (QUANTITIES * args.columns));
    WITH_GROUPS(args.columns, GROUPS, {
        unsigned threads = threads_of_row(args.columns, GROUPS);
        unsigned rows = GROUPS == 1 && threads <= SHORT_THREADS ? SHORT_THREADS / threads : 1;
        if (threads > SHORT_THREADS)
            blocks = min(blocks, (int64_t)LONG_BACKWARD_BLOCKS);
        blocks = min(blocks, divide_up(args.rows, rows));
        if (GROUPS > 1 || !args.is_wide)
            LAUNCH(cuda, (norm_backward_kernel<T, GROUPS, NORM_THREADS, false, QUANTITIES>), grid_x(blocks),
                   dim3(threads, rows), 0, args);
        else
            launches[threads > SHORT_THREADS][quantities > 1](cuda, args, grid_x(blocks), dim3(threads, rows));
    });
    column_finish(cuda, out, quantities, args.partial, blocks, args.columns);
}

extern "C" void cuda_norm_backward(struct device *device, const struct op_norm_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    WITH_TYPE(op->x.dtype, T, norm_backward<T>(cuda, op));
}
