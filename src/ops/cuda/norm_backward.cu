// LayerNorm and RMSNorm backward in one pass over the tensors. The sums down columns (dgain, dbias, ddelta_bias) are
// taken on the way: a block adds up its rows in registers, and column_finish adds up the blocks, whose number depends
// on shapes alone.
#include "ops/cuda/norm.cuh"

enum {
    PROCESSORS = 132,      // of an H100; a constant, so that sums are the same anywhere
    BACKWARD_TENSORS = 3,  // dy, x, dresidual
    QUANTITIES = 3,        // dgain, dbias, ddelta_bias
    MOST_QUEUE_BYTES = 160 << 10,
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
    float share;   // one by columns
    bool is_wide;  // rows are aligned to 16 bytes and their length is a multiple of 8
    bool is_rms;
    struct cuda_dropout dropout;
};

// The sums of V numbers (a power of two) over a warp, in half as many exchanges as one after the other: lane l gets that
// of number l / (32 / V).
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

// V sums over the threads (x) of a row of threads; every thread of the block calls it and gets them all. `shared` holds
// V numbers per warp of the block and must not be used by the call before or after.
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

// Mean and rstd of a row; 0 where there is none.
template <typename T> static __device__ __forceinline__ float2 stats_of(const backward_args<T> &args, int64_t row) {
    bool is_row = row < args.rows;
    return make_float2(is_row && !args.is_rms ? args.mean[row] : 0.0f, is_row ? args.rstd[row] : 0.0f);
}

// Eight elements of the input tensors of a row, where they are read from: global memory or the queue in shared memory,
// each thread's part behind the other's.
template <typename T> struct norm_source {
    const T *dy, *x, *dresidual;  // dresidual may be NULL
    int columns;                  // elements left from there on
    bool is_wide;
};

// The sums over a row of g = dy * gain and of g * n, n the normalised x; and down the columns of dy * n and of dy.
template <typename T, int SUMS>
static __device__ __forceinline__ void add_row(const norm_source<T> &from, const eight<T> &packed_gain, float2 stats,
                                               float *sum_g, float *sum_gn, float sums[SUMS][8]) {
    float dy[8], n[8], gain[8];
    load8(dy, from.dy, 0, from.columns, from.is_wide);
    load8(n, from.x, 0, from.columns, from.is_wide);
    unpack8(gain, packed_gain);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float product = dy[i] * gain[i];
        n[i] = (n[i] - stats.x) * stats.y;
        *sum_g += product;
        *sum_gn += product * n[i];
        sums[0][i] += dy[i] * n[i];
        if (SUMS > 1)
            sums[1 % SUMS][i] += dy[i];
    }
}

// dx = dresidual + rstd * (g - mean(g) - n * mean(g * n)), without mean(g) for RMS; and with it y and ddelta. A thread
// has read its elements of dy and dresidual before it writes the same ones of ddelta, y and dx, which may be the same
// memory. The bias of y is read for each row: it stays in the nearest cache, and registers are short.
template <typename T, int SUMS>
static __device__ __forceinline__ void write_part(const backward_args<T> &args, const norm_source<T> &from,
                                                  const eight<T> &packed_gain, float2 stats, float2 means, int64_t row,
                                                  int column, float sums[SUMS][8]) {
    int columns = (int)args.columns;
    float dx[8] = {0, 0, 0, 0, 0, 0, 0, 0}, n[8], dy[8], gain[8];
    float shift = -stats.y * means.x, slope = -stats.y * means.y;
    load8(dy, from.dy, 0, from.columns, from.is_wide);
    load8(n, from.x, 0, from.columns, from.is_wide);
    if (from.dresidual)
        load8(dx, from.dresidual, 0, from.columns, from.is_wide);
    unpack8(gain, packed_gain);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        n[i] = (n[i] - stats.x) * stats.y;
        dx[i] += shift + stats.y * (dy[i] * gain[i]) + slope * n[i];
    }
    store8(args.dx + row * columns, column, columns, from.is_wide, dx);
    if (args.y) {
        float y[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (args.bias)
            load8(y, args.bias, column, columns, from.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            y[i] += n[i] * gain[i];
        store8(args.y + row * columns, column, columns, from.is_wide, y);
    }
    if (!args.ddelta)
        return;
    dropout_apply(dx, args.dropout, row, column);
    dropout_apply(dx + 4, args.dropout, row, column + 4);
    if (args.ddelta != args.dx)
        store8(args.ddelta + row * columns, column, columns, from.is_wide, dx);
    if (SUMS > 1)
#pragma unroll
        for (int i = 0; i < 8; i++)
            sums[2 % SUMS][i] += dx[i];
}

// The rows of threads of a block, one after the other, add their sums in `totals` (SUMS, 8, threads of a row); the last
// one writes them. Only short rows share a block.
template <int GROUPS, int SUMS>
static __device__ __forceinline__ void write_sums(const float sums[GROUPS][SUMS][8], float *partial, float *totals,
                                                  int columns, bool is_wide) {
    for (unsigned turn = 0; turn < blockDim.y; turn++) {
        if (blockDim.y > 1)
            __syncthreads();
        if (threadIdx.y != turn)
            continue;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int q = 0; q < SUMS; q++) {
                int column = 8 * (int)(threadIdx.x + g * blockDim.x);
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

// ---- Aligned rows, through a queue in shared memory ----
//
// A round of a row of threads is ROWS rows, whose sums meet at one barrier. STAGES rounds have a place in the queue:
// while one is worked on the others are on their way. What a thread reads twice of a row it reads from the queue, so
// that registers hold little but the sums down the columns.

// What is kept of the threads of a block: (STAGES, ROWS, BACKWARD_TENSORS, GROUPS, threads) times eight elements.
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

// Sends for the rows from `first` on.
template <typename T, int GROUPS, int ROWS>
static __device__ __forceinline__ void queue_round(eight<T> *queue, int stage, const backward_args<T> &args,
                                                   int64_t first) {
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = 8 * (int)(threadIdx.x + g * blockDim.x);
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
static __device__ __forceinline__ norm_source<T> queue_source(eight<T> *queue, int stage, int row, int g,
                                                              const backward_args<T> &args) {
    norm_source<T> from;
    from.dy = (const T *)queue_place<T, GROUPS, ROWS>(queue, stage, row, 0, g);
    from.x = (const T *)queue_place<T, GROUPS, ROWS>(queue, stage, row, 1, g);
    from.dresidual = args.dresidual ? (const T *)queue_place<T, GROUPS, ROWS>(queue, stage, row, 2, g) : NULL;
    from.columns = 8;
    from.is_wide = true;
    return from;
}

// SUMS is QUANTITIES, or 1 where only dgain is asked for. BLOCKS is how many a multiprocessor should hold.
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
        int column = 8 * (int)(threadIdx.x + g * blockDim.x);
        gain[g] = column < columns ? fetch8(args.gain, column, columns, true) : eight<T>();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        next[r] = stats_of(args, first + r);
    for (; begin < args.rows; begin += step, first += step, parity ^= 1) {
        float value[2 * ROWS] = {};
        float2 stats[ROWS];
        async_wait<STAGES - 2>();
        queue_round<T, GROUPS, ROWS>(queue, (stage + STAGES - 1) % STAGES, args, first + (STAGES - 1) * step);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            stats[r] = next[r];
            next[r] = stats_of(args, first + step + r);
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
                if (first + r < args.rows && 8 * (int)(threadIdx.x + g * blockDim.x) < columns)
                    add_row<T, SUMS>(queue_source<T, GROUPS, ROWS>(queue, stage, r, g, args), gain[g], stats[r],
                                     &value[2 * r], &value[2 * r + 1], sums[g]);
        }
        row_sums<2 * ROWS>(value, shared[parity]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float2 means = make_float2(args.is_rms ? 0.0f : value[2 * r] * args.share, value[2 * r + 1] * args.share);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                int column = 8 * (int)(threadIdx.x + g * blockDim.x);
                if (first + r < args.rows && column < columns)
                    write_part<T, SUMS>(args, queue_source<T, GROUPS, ROWS>(queue, stage, r, g, args), gain[g],
                                        stats[r], means, first + r, column, sums[g]);
            }
        }
        stage = (stage + 1) % STAGES;
    }
    write_sums<GROUPS, SUMS>(sums, args.partial, (float *)memory, columns, true);
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

// ---- All other rows, from global memory ----

template <typename T>
static __device__ __forceinline__ norm_source<T> row_source(const backward_args<T> &args, int64_t offset, int column) {
    norm_source<T> from;
    from.dy = args.dy + offset + column;
    from.x = args.x + offset + column;
    from.dresidual = args.dresidual ? args.dresidual + offset + column : NULL;
    from.columns = (int)args.columns - column;
    from.is_wide = args.is_wide;
    return from;
}

template <typename T, int GROUPS>
static __global__ void __launch_bounds__(NORM_THREADS, 1) norm_backward_kernel(backward_args<T> args) {
    extern __shared__ uint4 memory[];
    __shared__ float shared[2][2 * NORM_THREADS / 32];
    float sums[GROUPS][QUANTITIES][8] = {};
    eight<T> gain[GROUPS];
    int columns = (int)args.columns, parity = 0;
    int64_t step = (int64_t)gridDim.x * blockDim.y, begin = (int64_t)blockIdx.x * blockDim.y;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int column = 8 * (int)(threadIdx.x + g * blockDim.x);
        gain[g] = column < columns ? fetch8(args.gain, column, columns, args.is_wide) : eight<T>();
    }
    for (; begin < args.rows; begin += step, parity ^= 1) {
        int64_t row = begin + threadIdx.y, offset = row * columns;
        float2 stats = stats_of(args, row);
        float value[2] = {};
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = 8 * (int)(threadIdx.x + g * blockDim.x);
            if (row < args.rows && column < columns)
                add_row<T, QUANTITIES>(row_source(args, offset, column), gain[g], stats, &value[0], &value[1], sums[g]);
        }
        row_sums<2>(value, shared[parity]);
        float2 means = make_float2(args.is_rms ? 0.0f : value[0] * args.share, value[1] * args.share);
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = 8 * (int)(threadIdx.x + g * blockDim.x);
            if (row < args.rows && column < columns)
                write_part<T, QUANTITIES>(args, row_source(args, offset, column), gain[g], stats, means, row, column,
                                          sums[g]);
        }
    }
    write_sums<GROUPS, QUANTITIES>(sums, args.partial, (float *)memory, columns, args.is_wide);
}

// ---- Which kernel ----

// fp32 has rows one by one in the queue: two would not have room in it.
template <typename T, int GROUPS, int THREADS, int BLOCKS, int ROWS_OF_16, int STAGES_OF_16>
static int64_t launch_queued(struct cuda_device *cuda, const backward_args<T> &args, int quantities) {
    enum { ROWS = sizeof(T) == 2 ? ROWS_OF_16 : 1, STAGES = STAGES_OF_16 + (ROWS < ROWS_OF_16) };
    unsigned threads = threads_of_row(args.columns, GROUPS), rows = max(1u, THREADS / threads);
    size_t bytes = (size_t)STAGES * ROWS * BACKWARD_TENSORS * GROUPS * threads * rows * sizeof(eight<T>);
    if (bytes > MOST_QUEUE_BYTES)
        return 0;
    int64_t blocks = min((int64_t)BLOCKS * PROCESSORS, SCRATCH_FLOATS / (QUANTITIES * args.columns));
    blocks = min(blocks, divide_up(args.rows, rows * ROWS));
    void (*kernel)(backward_args<T>) =
        quantities == 1 ? norm_backward_queued_kernel<T, GROUPS, THREADS, BLOCKS, ROWS, STAGES, 1>
                        : norm_backward_queued_kernel<T, GROUPS, THREADS, BLOCKS, ROWS, STAGES, QUANTITIES>;
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    LAUNCH(cuda, kernel, grid_x(blocks), dim3(threads, rows), bytes, args);
    return blocks;
}

// Returns the number of blocks, which is that of partial sums; 0 where the row has to be read from global memory. Each
// line is what was fastest on an H200 for such rows, of the threads, blocks, rows and stages that have room.
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
    int64_t blocks = min((int64_t)3 * PROCESSORS, SCRATCH_FLOATS / (QUANTITIES * args.columns));
    WITH_GROUPS(args.columns, GROUPS, {
        unsigned threads = threads_of_row(args.columns, GROUPS);
        unsigned rows = threads <= SHORT_THREADS / 2 ? SHORT_THREADS / threads : 1;
        blocks = min(blocks, divide_up(args.rows, rows));
        LAUNCH(cuda, (norm_backward_kernel<T, GROUPS>), grid_x(blocks), dim3(threads, rows),
               rows > 1 ? QUANTITIES * 8 * threads * sizeof(float) : 0, args);
    });
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
