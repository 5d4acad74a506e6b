// Embedding lookup and its gradient. Forward is one block per token.
//
// Backward adds the rows of dout that belong to one row of the table, in the same order in every run and without
// atomics. The tokens are sorted: a key holds (table row, token number), so keys are unique and any correct sort gives
// the same order; a bitonic sort needs no memory but the keys and O(N log^2 N) work, about 20 small launches for 65536
// tokens. Then each run of equal rows is added up by warps, each over a share of the columns; a run longer than
// SHORT_RUN is added up by blocks instead. A text with one token repeated N times still works, with N / ROW_LANES
// sequential steps.
#include "ops/cuda/dropout.cuh"
#include "ops/cuda/elements.cuh"

enum {
    SORT_TILE = 2048,     // keys that one block sorts in shared memory
    SORT_THREADS = 1024,  // one pair each
    MOST_KEYS = SCRATCH_BYTES / 8,
    MOST_SHARES = 8,      // blocks that share the columns of a run
    SCATTER_PLACES = 16,  // sorted places of a block
    SHORT_RUN = 128,      // equal rows that one warp adds up
    RUN_WARPS = 8,        // of a block
    RUN_LOADS = 4,        // rows in flight at once
};
static const uint64_t NO_KEY = UINT64_MAX;  // sorts after all others

template <typename T> struct embedding_forward_args {
    T *out;                    // (N, C)
    const int32_t *tokens;     // (N)
    const T *table;            // (V, C)
    const int32_t *positions;  // (N) or NULL
    const T *position_table;   // (P, C)
    int64_t vocabulary_start, vocabulary, position_count, columns;
    bool is_wide;
    struct cuda_dropout dropout;
};

template <typename T> static __global__ void embedding_forward_kernel(embedding_forward_args<T> args) {
    int64_t row = blockIdx.x, columns = args.columns;
    int64_t token = args.tokens[row] - args.vocabulary_start;
    int64_t position = args.positions ? args.positions[row] : 0;
    bool is_here = token >= 0 && token < args.vocabulary;
    // A position beyond the table is a bug of the caller: stop rather than read other memory.
    if (args.positions && (position < 0 || position >= args.position_count))
        __trap();
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float value[8] = {0, 0, 0, 0, 0, 0, 0, 0}, place[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (is_here)
            load8(value, args.table + token * columns, column, columns, args.is_wide);
        if (args.positions)
            load8(place, args.position_table + position * columns, column, columns, args.is_wide);
#pragma unroll
        for (int i = 0; i < 8; i++)
            value[i] += place[i];
        dropout_apply<8>(value, args.dropout, row, column);
        store8(args.out + row * columns, column, columns, args.is_wide, value);
    }
}

extern "C" void cuda_embedding_forward(struct device *device, const struct op_embedding_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->out) == 0)
        return;
    WITH_TYPE(op->out.dtype, T, {
        embedding_forward_args<T> args = {};
        args.out = (T *)op->out.data;
        args.tokens = (const int32_t *)op->tokens.data;
        args.table = (const T *)op->table.data;
        args.positions = (const int32_t *)op->positions.data;
        args.position_table = (const T *)op->position_table.data;
        args.vocabulary_start = op->vocabulary_start;
        args.vocabulary = op->table.shape[0];
        args.position_count = op->position_table.data ? op->position_table.shape[0] : 0;
        args.columns = op->out.shape[1];
        args.dropout = cuda_dropout(&op->dropout);
        const struct tensor tensors[] = {op->out, op->table, op->position_table};
        args.is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
        unsigned threads = (unsigned)min(divide_up(args.columns, 8 * 32) * 32, (int64_t)256);
        LAUNCH(cuda, embedding_forward_kernel<T>, grid_x(op->out.shape[0]), threads, 0, args);
    });
}

// ---- Sorting ----

// Keys [count, padded) and those of rows that are not in this table become NO_KEY.
static __global__ void make_keys_kernel(uint64_t *keys, const int32_t *ids, int64_t count, int64_t padded,
                                        int64_t first_row, int64_t table_rows) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= padded)
        return;
    int64_t row = i < count ? ids[i] - first_row : -1;
    keys[i] = row >= 0 && row < table_rows ? (uint64_t)row << 32 | (uint64_t)i : NO_KEY;
}

// The lower of the two places that pair number `pair` compares at distance `distance` (a power of two).
static __device__ __forceinline__ int64_t lower_place(int64_t pair, int64_t distance) {
    int64_t low = pair & (distance - 1);
    return ((pair - low) << 1) + low;
}

// Puts two keys into the order of a bitonic merge of runs of `run` keys at global place `place`.
static __device__ __forceinline__ void order(uint64_t *lower, uint64_t *upper, int64_t place, int64_t run) {
    bool is_ascending = (place & run) == 0;
    uint64_t a = *lower, b = *upper;
    if ((a > b) == is_ascending) {
        *lower = b;
        *upper = a;
    }
}

// Each block takes SORT_TILE keys through all steps at distances below SORT_TILE of the merges to runs
// first_run, 2 * first_run … last_run.
static __global__ void sort_tile_kernel(uint64_t *keys, int64_t first_run, int64_t last_run) {
    __shared__ uint64_t tile[SORT_TILE];
    int64_t start = (int64_t)blockIdx.x * SORT_TILE;
    for (int i = threadIdx.x; i < SORT_TILE; i += SORT_THREADS)
        tile[i] = keys[start + i];
    for (int64_t run = first_run; run <= last_run; run *= 2)
        for (int64_t distance = min(run, (int64_t)SORT_TILE) / 2; distance > 0; distance /= 2) {
            __syncthreads();
            int64_t place = lower_place(threadIdx.x, distance);
            order(&tile[place], &tile[place + distance], start + place, run);
        }
    __syncthreads();
    for (int i = threadIdx.x; i < SORT_TILE; i += SORT_THREADS)
        keys[start + i] = tile[i];
}

// One step of a merge to runs of `run` keys at a distance of SORT_TILE or more.
static __global__ void sort_step_kernel(uint64_t *keys, int64_t run, int64_t distance) {
    int64_t place = lower_place((int64_t)blockIdx.x * SORT_THREADS + threadIdx.x, distance);
    order(&keys[place], &keys[place + distance], place, run);
}

// padded is a power of two and at least SORT_TILE.
static void sort_keys(struct cuda_device *cuda, uint64_t *keys, int64_t padded) {
    unsigned blocks = grid_x(padded / SORT_TILE);
    LAUNCH(cuda, sort_tile_kernel, blocks, SORT_THREADS, 0, keys, 2, SORT_TILE);
    for (int64_t run = 2 * SORT_TILE; run <= padded; run *= 2) {
        for (int64_t distance = run / 2; distance >= SORT_TILE; distance /= 2)
            LAUNCH(cuda, sort_step_kernel, blocks, SORT_THREADS, 0, keys, run, distance);
        LAUNCH(cuda, sort_tile_kernel, blocks, SORT_THREADS, 0, keys, run, run);
    }
}

// ---- Adding up ----

template <typename T> struct scatter_args {
    float *dtable;         // (rows of the table, C)
    const T *dout;         // (count, C)
    const uint64_t *keys;  // (count), sorted
    int64_t count, columns;
    bool is_wide;
    struct cuda_dropout dropout;
};

// The table row of the key at a sorted place; -1 if there is none.
template <typename T> static __device__ __forceinline__ int64_t row_at(const scatter_args<T> &args, int64_t place) {
    uint64_t key = place >= 0 && place < args.count ? args.keys[place] : NO_KEY;
    return key == NO_KEY ? -1 : (int64_t)(key >> 32);
}

// Whether scatter_kernel handles the run that begins here.
template <typename T> static __device__ __forceinline__ bool is_long(const scatter_args<T> &args, int64_t begin) {
    return row_at(args, begin + SHORT_RUN) == row_at(args, begin);
}

// Block (32, RUN_WARPS) at (RUN_WARPS sorted places, 256 columns): a warp whose place begins a short run adds it up in
// order, eight columns a thread.
template <typename T> static __global__ void scatter_short_kernel(scatter_args<T> args) {
    int64_t begin = (int64_t)blockIdx.x * RUN_WARPS + threadIdx.y, columns = args.columns;
    int64_t column = 8 * ((int64_t)blockIdx.y * 32 + threadIdx.x), table_row = row_at(args, begin);
    if (table_row < 0 || table_row == row_at(args, begin - 1) || is_long(args, begin) || column >= columns)
        return;
    float *out = args.dtable + table_row * columns, sum[8];
    load8(sum, out, column, columns, args.is_wide);
    for (int64_t first = begin; row_at(args, first) == table_row; first += RUN_LOADS) {
        eight<T> packed[RUN_LOADS];
#pragma unroll
        for (int i = 0; i < RUN_LOADS; i++)
            if (row_at(args, first + i) == table_row)
                packed[i] = fetch8(args.dout + (int64_t)(uint32_t)args.keys[first + i] * columns, column, columns,
                                   args.is_wide);
#pragma unroll
        for (int i = 0; i < RUN_LOADS; i++) {
            if (row_at(args, first + i) != table_row)
                break;
            int64_t row = (int64_t)(uint32_t)args.keys[first + i];
            float value[8];
            unpack8(value, packed[i]);
            dropout_apply<8>(value, args.dropout, row, column);
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum[j] += value[j];
        }
    }
    store8(out, column, columns, args.is_wide, sum);
}

// Adds up the run of equal rows that begins at sorted place `begin`, over this block's share of the columns.
template <typename T>
static __device__ void scatter_run(const scatter_args<T> &args, int64_t begin, float sums[ROW_LANES][COLUMN_TILE]) {
    int64_t columns = args.columns;
    uint64_t table_row = args.keys[begin] >> 32;
    int thread = threadIdx.y * COLUMN_LANES + threadIdx.x;
    for (int64_t tile = (int64_t)blockIdx.y * COLUMN_TILE; tile < columns; tile += (int64_t)gridDim.y * COLUMN_TILE) {
        int64_t column = tile + 4 * threadIdx.x;
        float sum[4] = {0, 0, 0, 0};
        for (int64_t i = begin + threadIdx.y; i < args.count && args.keys[i] >> 32 == table_row; i += ROW_LANES) {
            int64_t row = (int64_t)(args.keys[i] & 0xFFFFFFFFu);
            float value[4] = {0, 0, 0, 0};
            if (column < columns)
                load4(value, args.dout + row * columns, column, columns);
            dropout_apply<4>(value, args.dropout, row, column);
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[j] += value[j];
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            sums[threadIdx.y][4 * threadIdx.x + j] = sum[j];
        __syncthreads();
        if (thread < COLUMN_TILE && tile + thread < columns) {
            float total = 0;
            for (int j = 0; j < ROW_LANES; j++)
                total += sums[j][thread];
            args.dtable[(int64_t)table_row * columns + tile + thread] += total;
        }
        __syncthreads();
    }
}

// Block (32, 8) at (SCATTER_PLACES sorted places, share of the columns): takes the long runs that begin in its places.
template <typename T> static __global__ void scatter_kernel(scatter_args<T> args) {
    __shared__ float sums[ROW_LANES][COLUMN_TILE];
    __shared__ uint64_t keys[SCATTER_PLACES + 1];  // the one before its places comes first
    int64_t first = (int64_t)blockIdx.x * SCATTER_PLACES;
    int thread = threadIdx.y * COLUMN_LANES + threadIdx.x;
    if (thread <= SCATTER_PLACES) {
        int64_t place = first + thread - 1;
        keys[thread] = place >= 0 && place < args.count ? args.keys[place] : NO_KEY;
    }
    __syncthreads();
    for (int i = 0; i < SCATTER_PLACES; i++)
        if (keys[i + 1] != NO_KEY && (first + i == 0 || keys[i] >> 32 != keys[i + 1] >> 32) && is_long(args, first + i))
            scatter_run<T>(args, first + i, sums);
}

// dtable[ids[n] - first_row] += dout[n] through the dropout, at most MOST_KEYS tokens at a time.
template <typename T>
static void scatter(struct cuda_device *cuda, const struct op_embedding_backward *op, struct tensor dtable,
                    const int32_t *ids, int64_t first_row) {
    uint64_t *keys = (uint64_t *)cuda->scratch;
    int64_t rows = op->dout.shape[0], columns = op->dout.shape[1];
    unsigned shares = grid_yz(min(divide_up(columns, COLUMN_TILE), (int64_t)MOST_SHARES));
    for (int64_t first = 0; first < rows; first += MOST_KEYS) {
        int64_t count = min(rows - first, (int64_t)MOST_KEYS), padded = SORT_TILE;
        while (padded < count)
            padded *= 2;
        LAUNCH(cuda, make_keys_kernel, grid_x(divide_up(padded, 256)), 256, 0, keys, ids + first, count, padded,
               first_row, dtable.shape[0]);
        sort_keys(cuda, keys, padded);
        scatter_args<T> args = {};
        args.dtable = (float *)dtable.data;
        args.dout = (const T *)op->dout.data + first * columns;
        args.keys = keys;
        args.count = count;
        args.columns = columns;
        args.dropout = cuda_dropout(&op->dropout);
        if (args.dropout.is_on)
            args.dropout.row_ids += first;
        const struct tensor tensors[] = {dtable, op->dout};
        args.is_wide = rows_are_wide(columns, tensors, sizeof tensors / sizeof tensors[0]);
        LAUNCH(cuda, scatter_short_kernel<T>,
               dim3(grid_x(divide_up(count, RUN_WARPS)), grid_yz(divide_up(columns, 8 * 32))), dim3(32, RUN_WARPS), 0,
               args);
        LAUNCH(cuda, scatter_kernel<T>, dim3(grid_x(divide_up(count, SCATTER_PLACES)), shares),
               dim3(COLUMN_LANES, ROW_LANES), 0, args);
    }
}

extern "C" void cuda_embedding_backward(struct device *device, const struct op_embedding_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->dout) == 0)
        return;
    WITH_TYPE(op->dout.dtype, T, {
        scatter<T>(cuda, op, op->dtable, (const int32_t *)op->tokens.data, op->vocabulary_start);
        if (op->dposition_table.data)
            scatter<T>(cuda, op, op->dposition_table, (const int32_t *)op->positions.data, 0);
    });
}
