// LayerNorm and RMSNorm backward in one pass over the tensors. The column sums (dgain, dbias, ddelta_bias) are taken in
// the same pass: a block adds up its rows in registers, and column_finish adds up the blocks, whose number depends on
// shapes alone.
#include "ops/cuda/dropout.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/norm.cuh"

// ---- one part of a row, and the sums along rows and down columns ----

enum {
    BACKWARD_TENSORS = 3,          // dy, x, dresidual
    QUANTITIES = 3,                // dgain, dbias, ddelta_bias
    MOST_QUEUE_BYTES = 160 << 10,  // of shared memory; only data-center GPUs have as much
    SUMS_BYTES = 2 << 10,          // lower bound of a block's other shared memory
};

template <typename T> struct backward_args {
    T *dx;               // (N, C); may be dresidual
    T *ddelta;           // (N, C) or NULL; may be dy, and dx if the dropout is off
    T *y;                // (N, C) or NULL: the norm's output, recomputed; may be dy
    const T *dy, *x;     // (N, C)
    const T *dresidual;  // (N, C) or NULL
    const T *gain;       // (C)
    float gain_offset;   // see struct op_norm_forward
    const T *bias;       // (C) or NULL
    const float *mean;   // (N); NULL with RMS
    const float *rstd;   // (N)
    float *partial;      // (QUANTITIES, blocks, C)
    int64_t rows, columns;
    float share;   // one by columns
    bool is_wide;  // rows are aligned to 16 bytes and their length is a multiple of 8
    bool is_rms;
    struct cuda_dropout dropout;
};

// The sums of V numbers (a power of two) over a warp, in few exchanges: in each of the first ones, a lane passes half
// of its numbers to another lane. Lane l gets the sum of number l / (32 / V).
template <int V> static __device__ __forceinline__ float warp_sums(float value[V]) {
    int lane = threadIdx.x & 31, offset = 16;
#pragma unroll
    for (int half = V / 2; half > 0; half /= 2, offset /= 2)
#pragma unroll
        for (int i = 0; i < half; i++) {
            bool is_upper = lane & offset;
            float given = is_upper ? value[i] : value[i + half];
            value[i] = (is_upper ? value[i + half] : value[i]) + __shfl_xor_sync(0xFFFFFFFFu, given, offset);
        }
#pragma unroll
    for (offset = 16 / V; offset > 0; offset /= 2)
        value[0] += __shfl_xor_sync(0xFFFFFFFFu, value[0], offset);
    return value[0];
}

// V sums over the threads (x) of a row of threads; every thread of the block calls it and gets them all. shared holds V
// numbers per warp of the block and must not be used by the call before or after.
template <int V> static __device__ __forceinline__ void row_sums(float value[V], float *shared) {
    enum { SHARE = 32 / V, TURNS = (NORM_THREADS / 32 + SHARE - 1) / SHARE };
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5, number = lane / SHARE;
    float *mine = shared + V * warps * threadIdx.y;
    float sum = warp_sums<V>(value);
    if (warps > 1) {
        if (lane % SHARE == 0)
            mine[V * (threadIdx.x >> 5) + number] = sum;
        __syncthreads();
        sum = 0;
#pragma unroll
        for (int i = 0; i < TURNS; i++) {
            int warp = lane % SHARE + i * SHARE;
            sum += warp < warps ? mine[V * warp + number] : 0.0f;
        }
#pragma unroll
        for (int offset = SHARE / 2; offset > 0; offset /= 2)
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    }
#pragma unroll
    for (int i = 0; i < V; i++)
        value[i] = __shfl_sync(0xFFFFFFFFu, sum, i * SHARE);
}

// Mean and rstd of a row; 0 if there is none.
template <typename T> static __device__ __forceinline__ float2 stats_of(const backward_args<T> &args, int64_t row) {
    bool is_row = row < args.rows;
    return make_float2(is_row && !args.is_rms ? args.mean[row] : 0.0f, is_row ? args.rstd[row] : 0.0f);
}

// Eight neighbouring elements of a row. The inputs are read from global memory or from the queue in shared memory.
template <typename T> struct norm_part {
    const T *dy, *x, *dresidual;  // dresidual may be NULL
    eight<T> gain;
    float2 stats;  // mean and rstd
    int64_t row;
    int column, left;  // left: elements of the row from there on
    bool is_wide;
};

// Adds to sum: over the row, g = dy * gain and g * n, n the normalised x; and to sums: down the columns, dy * n and dy.
template <typename T, int SUMS>
static __device__ __forceinline__ void add_part(const backward_args<T> &args, float sum[2], float sums[SUMS][8],
                                                const norm_part<T> &part) {
    float dy[8], n[8], gain[8];
    load8(dy, part.dy, 0, part.left, part.is_wide);
    load8(n, part.x, 0, part.left, part.is_wide);
    unpack8(gain, part.gain);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float product = dy[i] * (gain[i] + args.gain_offset);
        n[i] = (n[i] - part.stats.x) * part.stats.y;
        sum[0] += product;
        sum[1] += product * n[i];
        sums[0][i] += dy[i] * n[i];
        if (SUMS > 1)
            sums[1 % SUMS][i] += dy[i];
    }
}

// dx = dresidual + rstd * (g - mean(g) - n * mean(g * n)), without mean(g) for RMS, from the sums of g and g * n; and
// also y and ddelta. A thread reads its elements of dy and dresidual before it writes the same ones of ddelta, y and
// dx, which may alias them. The bias of y is read for each row: it stays in the L1 cache, and registers are scarce.
template <typename T, int SUMS>
static __device__ __forceinline__ void write_part(const backward_args<T> &args, float sums[SUMS][8],
                                                  const norm_part<T> &part, const float sum[2]) {
    int columns = (int)args.columns, column = part.column;
    int64_t offset = part.row * columns;
    float dx[8] = {0, 0, 0, 0, 0, 0, 0, 0}, n[8], dy[8], gain[8], rstd = part.stats.y;
    float shift = args.is_rms ? 0.0f : -rstd * (sum[0] * args.share), slope = -rstd * (sum[1] * args.share);
    load8(dy, part.dy, 0, part.left, part.is_wide);
    load8(n, part.x, 0, part.left, part.is_wide);
    if (part.dresidual)
        load8(dx, part.dresidual, 0, part.left, part.is_wide);
    unpack8(gain, part.gain);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        n[i] = (n[i] - part.stats.x) * rstd;
        dx[i] += shift + rstd * (dy[i] * (gain[i] + args.gain_offset)) + slope * n[i];
    }
    store8(args.dx + offset, column, columns, part.is_wide, dx);
    if (args.y) {
        float y[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (args.bias)
            load8(y, args.bias, column, columns, part.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            y[i] += n[i] * (gain[i] + args.gain_offset);
        store8(args.y + offset, column, columns, part.is_wide, y);
    }
    if (!args.ddelta)
        return;
    dropout_apply<8>(dx, args.dropout, part.row, column);
    if (args.ddelta != args.dx)
        store8(args.ddelta + offset, column, columns, part.is_wide, dx);
    if (SUMS > 1)
#pragma unroll
        for (int i = 0; i < 8; i++)
            sums[2 % SUMS][i] += dx[i];
}

// The rows of threads of a block, one after the other, add their sums in `totals` (SUMS, 8, threads of a row); the last
// one writes them. Only short rows share a block. The sums are those of the thread's groups from `first` on.
template <int GROUPS, int SUMS>
static __device__ __forceinline__ void write_sums(const float sums[GROUPS][SUMS][8], int first, float *partial,
                                                  float *totals, int columns, bool is_wide) {
    for (unsigned turn = 0; turn < blockDim.y; turn++) {
        if (blockDim.y > 1)
            __syncthreads();
        if (threadIdx.y != turn)
            continue;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int q = 0; q < SUMS; q++) {
                int column = group_column(first + g);
                float total[8];
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float *place = totals + (8 * q + i) * blockDim.x + threadIdx.x;
                    total[i] = sums[g][q][i] + (turn > 0 ? *place : 0.0f);
                    if (turn + 1 < blockDim.y)
                        *place = total[i];
                }
                if (turn + 1 == blockDim.y && column < columns)
                    store8(partial + ((int64_t)q * gridDim.x + blockIdx.x) * columns, column, columns, is_wide, total);
            }
    }
}

// ---- kernels ----

// ---- Aligned rows, through a queue in shared memory ----
//
// A round of a row of threads is ROWS rows, whose sums share one barrier. The queue holds STAGES rounds: while one is
// processed the others are copied. Data that is read twice is read from the queue, so that registers hold little but
// the column sums.

// The queue of a block: (STAGES, ROWS, BACKWARD_TENSORS, GROUPS, threads) times eight elements.
template <typename T, int GROUPS, int ROWS>
static __device__ __forceinline__ eight<T> *queue_place(eight<T> *queue, int stage, int row, int tensor, int g) {
    int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    return queue + (((stage * ROWS + row) * BACKWARD_TENSORS + tensor) * GROUPS + g) * threads + thread;
}

template <typename T> static __device__ __forceinline__ void queue_fetch(eight<T> *place, const T *from) {
#pragma unroll
    for (int i = 0; i < (int)sizeof(eight<T>) / 16; i++)
        async_copy16(&place->word[i], (const uint4 *)from + i);
}

// Starts the copies of the rows from `first` on.
template <typename T, int GROUPS, int ROWS>
static __device__ __forceinline__ void queue_round(eight<T> *queue, int stage, const backward_args<T> &args,
                                                   int64_t first) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = group_column(g);
            int64_t offset = (first + r) * args.columns + column;
            if (first + r >= args.rows || column >= args.columns)
                continue;
            queue_fetch(queue_place<T, GROUPS, ROWS>(queue, stage, r, 0, g), args.dy + offset);
            queue_fetch(queue_place<T, GROUPS, ROWS>(queue, stage, r, 1, g), args.x + offset);
            if (args.dresidual)
                queue_fetch(queue_place<T, GROUPS, ROWS>(queue, stage, r, 2, g), args.dresidual + offset);
        }
    async_commit();
}

template <typename T, int GROUPS, int ROWS>
static __device__ __forceinline__ norm_part<T> queue_part(eight<T> *queue, int stage, int row, int g) {
    norm_part<T> part;
    part.dy = (const T *)queue_place<T, GROUPS, ROWS>(queue, stage, row, 0, g);
    part.x = (const T *)queue_place<T, GROUPS, ROWS>(queue, stage, row, 1, g);
    part.dresidual = (const T *)queue_place<T, GROUPS, ROWS>(queue, stage, row, 2, g);
    part.column = group_column(g);
    part.left = 8;
    part.is_wide = true;
    return part;
}

// SUMS is QUANTITIES, or 1 if only dgain is wanted. BLOCKS is the number of blocks per multiprocessor.
template <typename T, int GROUPS, int THREADS, int BLOCKS, int ROWS, int STAGES, int SUMS>
static __global__ void __launch_bounds__(THREADS, BLOCKS) norm_backward_queued_kernel(backward_args<T> args) {
    extern __shared__ uint4 memory[];
    __shared__ float shared[2][2 * ROWS * THREADS / 32];
    eight<T> *queue = (eight<T> *)memory, gain[GROUPS];
    float sums[GROUPS][SUMS][8] = {};
    float2 next[ROWS];
    int columns = (int)args.columns, parity = 0, stage = 0;
    int64_t step = (int64_t)gridDim.x * blockDim.y * ROWS, begin = (int64_t)blockIdx.x * blockDim.y * ROWS;
    int64_t first = begin + (int64_t)threadIdx.y * ROWS;
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++)
        queue_round<T, GROUPS, ROWS>(queue, i, args, first + i * step);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int column = group_column(g);
        gain[g] = column < columns ? fetch8(args.gain, column, columns, true) : eight<T>();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        next[r] = stats_of(args, first + r);
    for (; begin < args.rows; begin += step, first += step, parity ^= 1) {
        float sum[2 * ROWS] = {};  // of row r: two numbers from 2 r on
        float2 stats[ROWS];
        async_wait<STAGES - 2>();
        queue_round<T, GROUPS, ROWS>(queue, (stage + STAGES - 1) % STAGES, args, first + (STAGES - 1) * step);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            stats[r] = next[r];
            next[r] = stats_of(args, first + step + r);
        }
#pragma unroll
        for (int turn = 0; turn < 2; turn++) {
            if (turn == 1)
                row_sums<2 * ROWS>(sum, shared[parity]);
#pragma unroll
            for (int i = 0; i < ROWS * GROUPS; i++) {
                int r = i / GROUPS, g = i % GROUPS;
                norm_part<T> part = queue_part<T, GROUPS, ROWS>(queue, stage, r, g);
                part.row = first + r;
                part.stats = stats[r];
                part.gain = gain[g];
                part.dresidual = args.dresidual ? part.dresidual : NULL;
                if (part.row >= args.rows || part.column >= columns)
                    continue;
                if (turn == 0)
                    add_part<T, SUMS>(args, &sum[2 * r], sums[g], part);
                else
                    write_part<T, SUMS>(args, sums[g], part, &sum[2 * r]);
            }
        }
        stage = (stage + 1) % STAGES;
    }
    write_sums<GROUPS, SUMS>(sums, 0, args.partial, (float *)memory, columns, true);
}

// ---- All other rows, from global memory ----
//
// These are rare: rows of fp32, rows that are not aligned, and rows that are too long for the queue. One kernel serves
// any number of groups, whose sums are in local memory.

template <typename T>
static __global__ void __launch_bounds__(NORM_THREADS, 1) norm_backward_kernel(backward_args<T> args, int groups) {
    extern __shared__ uint4 memory[];
    __shared__ float shared[2][2 * NORM_THREADS / 32];
    float sums[MOST_GROUPS][QUANTITIES][8] = {};
    int columns = (int)args.columns, parity = 0;
    int64_t step = (int64_t)gridDim.x * blockDim.y, begin = (int64_t)blockIdx.x * blockDim.y;
    for (; begin < args.rows; begin += step, parity ^= 1) {
        float sum[2] = {};
        norm_part<T> part;
        part.row = begin + threadIdx.y;
        part.stats = stats_of(args, part.row);
        part.is_wide = args.is_wide;
#pragma unroll
        for (int turn = 0; turn < 2; turn++) {
            if (turn == 1)
                row_sums<2>(sum, shared[parity]);
#pragma unroll 1
            for (int g = 0; g < groups; g++) {
                part.column = group_column(g);
                int64_t offset = part.row * columns + part.column;
                part.left = columns - part.column;
                part.dy = args.dy + offset;
                part.x = args.x + offset;
                part.dresidual = args.dresidual ? args.dresidual + offset : NULL;
                if (part.row >= args.rows || part.left <= 0)
                    continue;
                part.gain = fetch8(args.gain, part.column, columns, args.is_wide);
                if (turn == 0)
                    add_part<T, QUANTITIES>(args, sum, sums[g], part);
                else
                    write_part<T, QUANTITIES>(args, sums[g], part, sum);
            }
        }
    }
#pragma unroll 1
    for (int g = 0; g < groups; g++)
        write_sums<1, QUANTITIES>(sums + g, g, args.partial, (float *)memory, columns, args.is_wide);
}

template <typename T>
static void launch_plain(struct cuda_device *cuda, const backward_args<T> &args, int groups, dim3 threads,
                         int64_t blocks) {
    LAUNCH(cuda, norm_backward_kernel<T>, grid_x(blocks), threads,
           threads.y > 1 ? QUANTITIES * 8 * threads.x * sizeof(float) : 0, args, groups);
}

// ---- Which kernel ----

// fp32 has the threads, blocks and rows of a queue with one row per round, so that its sums keep their order, but reads
// global memory: kernels of its own are not worth their compile time. For the same reason blocks of 224 threads use the
// kernel of 384: two of the latter leave a thread as many registers as three of the former need.
template <typename T, int GROUPS, int THREADS, int BLOCKS, int ROWS_OF_16, int STAGES_OF_16>
static int64_t launch_queued(struct cuda_device *cuda, const backward_args<T> &args, int quantities) {
    enum { ROWS = sizeof(T) == 2 ? ROWS_OF_16 : 1, STAGES = STAGES_OF_16 + (ROWS < ROWS_OF_16) };
    enum { MOST_THREADS = THREADS == 224 ? 384 : THREADS, LEAST_BLOCKS = THREADS == 224 ? 2 : BLOCKS };
    unsigned threads = threads_of_row(args.columns, GROUPS), rows = max(1u, THREADS / threads);
    size_t bytes = (size_t)STAGES * ROWS * BACKWARD_TENSORS * GROUPS * threads * rows * sizeof(eight<T>);
    int most = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->index));
    if (bytes + SUMS_BYTES > (size_t)min(most, (int)MOST_QUEUE_BYTES))
        return 0;
    int64_t blocks = min((int64_t)BLOCKS * SUM_PROCESSORS, SCRATCH_FLOATS / (QUANTITIES * args.columns));
    blocks = min(blocks, divide_up(args.rows, rows * ROWS));
    if constexpr (sizeof(T) == 2) {
        void (*kernel)(backward_args<T>) =
            quantities == 1
                ? norm_backward_queued_kernel<T, GROUPS, MOST_THREADS, LEAST_BLOCKS, ROWS, STAGES, 1>
                : norm_backward_queued_kernel<T, GROUPS, MOST_THREADS, LEAST_BLOCKS, ROWS, STAGES, QUANTITIES>;
        CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
        LAUNCH(cuda, kernel, grid_x(blocks), dim3(threads, rows), bytes, args);
    } else {
        launch_plain(cuda, args, GROUPS, dim3(threads, rows), blocks);
    }
    return blocks;
}

// Returns the number of blocks, which is that of partial sums; 0 if the row must be read from global memory. Each line
// has the threads, blocks, rows and stages that were fastest on an H200 for such rows, among those that fit.
template <typename T>
static int64_t norm_backward_queued(struct cuda_device *cuda, const backward_args<T> &args, int quantities) {
    int64_t threads = divide_up(args.columns, 8);
    if (threads <= 224)
        return launch_queued<T, 1, 224, 3, 2, 2>(cuda, args, quantities);
    if (threads <= 256)
        return launch_queued<T, 1, 256, 3, 1, 3>(cuda, args, quantities);
    if (threads <= 384)
        return launch_queued<T, 1, 384, 2, 2, 2>(cuda, args, quantities);
    if (threads <= 512)
        return launch_queued<T, 1, 512, 1, 2, 2>(cuda, args, quantities);
    if (threads <= 2 * 512)
        return launch_queued<T, 2, 512, 1, 1, 2>(cuda, args, quantities);
    if (threads <= 3 * 512)
        return launch_queued<T, 3, 512, 1, 1, 2>(cuda, args, quantities);
    return 0;
}

template <typename T> static int64_t norm_backward_plain(struct cuda_device *cuda, const backward_args<T> &args) {
    int64_t blocks = min((int64_t)3 * SUM_PROCESSORS, SCRATCH_FLOATS / (QUANTITIES * args.columns));
    int groups = groups_of_row(args.columns);
    unsigned threads = threads_of_row(args.columns, groups);
    unsigned rows = threads <= SHORT_THREADS / 2 ? SHORT_THREADS / threads : 1;
    blocks = min(blocks, divide_up(args.rows, rows));
    launch_plain(cuda, args, groups, dim3(threads, rows), blocks);
    return blocks;
}

template <typename T> static void norm_backward(struct cuda_device *cuda, const struct op_norm_backward *op) {
    backward_args<T> args = {};
    args.rows = op->x.shape[0];
    args.columns = op->x.shape[1];
    args.share = 1.0f / (float)args.columns;
    args.is_rms = op->kind == NORM_RMS;
    args.dx = (T *)op->dx.data;
    args.ddelta = (T *)op->ddelta.data;
    args.dy = (const T *)op->dy.data;
    args.x = (const T *)op->x.data;
    args.gain = (const T *)op->gain.data;
    args.gain_offset = op->gain_offset;
    args.y = (T *)op->y.data;
    args.bias = (const T *)op->bias.data;
    args.mean = (const float *)op->mean.data;
    args.rstd = (const float *)op->rstd.data;
    args.dresidual = (const T *)op->dresidual.data;
    args.partial = cuda->scratch;
    args.dropout = cuda_dropout(&op->dropout);
    const struct tensor tensors[] = {op->dx, op->ddelta, op->dy, op->x, op->gain, op->dresidual, op->y, op->bias};
    args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    float *out[QUANTITIES] = {(float *)op->dgain.data, (float *)op->dbias.data, (float *)op->ddelta_bias.data};
    int quantities = out[1] || out[2] ? QUANTITIES : 1;
    int64_t blocks = args.is_wide ? norm_backward_queued(cuda, args, quantities) : 0;
    if (blocks == 0)
        blocks = norm_backward_plain(cuda, args);
    column_finish(cuda, out, quantities, args.partial, blocks, args.columns);
}

extern "C" void cuda_norm_backward(struct device *device, const struct op_norm_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    WITH_TYPE(op->x.dtype, T, norm_backward<T>(cuda, op));
}
