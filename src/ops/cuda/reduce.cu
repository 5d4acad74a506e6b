// Sums: down columns, over everything, and the clipping factor. All are two-stage: blocks write partial sums to scratch
// memory in a cut that depends on shapes alone, then one kernel adds the partial sums in a fixed order. Sums over
// everything are in double, which costs nothing: they are bound by memory.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
extern "C" {
#include "ops/formulas.h"
}

enum {
    COLUMN_BLOCKS = 4 * SUM_PROCESSORS,
    FEWEST_ROWS_PER_SPLIT = 64,
    ROWS_AHEAD = 8,                   // of a thread, in flight at once
    SUM_BLOCKS = 8 * SUM_PROCESSORS,  // partial sums of a flat range
    SUM_THREADS = 256,
    SUM_TILE = 8 * COLUMN_LANES,  // columns of a block
    SQUARES_AHEAD = 4,            // steps of a thread, in flight at once
    FINISH_LANES = 32,            // rows of threads that add up partial sums
};

struct column_split column_split(int64_t rows, int64_t columns, int quantities) {
    struct column_split split;
    split.splits = divide_up(rows, FEWEST_ROWS_PER_SPLIT);
    split.splits = min(split.splits, max((int64_t)1, COLUMN_BLOCKS / divide_up(columns, SUM_TILE)));
    int64_t room = SCRATCH_FLOATS / (quantities * columns);
    if (split.splits > room)
        split.splits = room;
    CHECK(split.splits >= 1);
    split.rows_per_split = divide_up(rows, split.splits);
    split.splits = divide_up(rows, split.rows_per_split);
    return split;
}

struct column_outputs {
    float *out[MOST_QUANTITIES];
};

// Block (32, 32) at (column tile, quantity): 32 columns, and every 32nd partial sum per row of threads.
static __global__ void column_finish_kernel(struct column_outputs outputs, const float *partial, int64_t splits,
                                            int64_t columns) {
    __shared__ float sums[FINISH_LANES][COLUMN_LANES + 1];
    int64_t column = (int64_t)blockIdx.x * COLUMN_LANES + threadIdx.x;
    float *out = outputs.out[blockIdx.y], sum = 0;
    if (!out)
        return;
    partial += blockIdx.y * splits * columns;
    if (column < columns)
#pragma unroll 8
        for (int64_t i = threadIdx.y; i < splits; i += FINISH_LANES)
            sum += partial[i * columns + column];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    // Each warp finishes one column.
    column = (int64_t)blockIdx.x * COLUMN_LANES + threadIdx.y;
    sum = warp_sum(sums[threadIdx.x][threadIdx.y]);
    if (threadIdx.x == 0 && column < columns)
        out[column] += sum;
}

void column_finish(struct cuda_device *cuda, float *const *out, int quantities, const float *partial, int64_t splits,
                   int64_t columns) {
    struct column_outputs outputs = {};
    CHECK(quantities <= MOST_QUANTITIES);
    for (int i = 0; i < quantities; i++)
        outputs.out[i] = out[i];
    dim3 grid(grid_x(divide_up(columns, COLUMN_LANES)), grid_yz(quantities));
    LAUNCH(cuda, column_finish_kernel, grid, dim3(COLUMN_LANES, FINISH_LANES), 0, outputs, partial, splits, columns);
}

template <typename T> static __device__ __forceinline__ void add8(float sum[8], const eight<T> &packed) {
    float value[8];
    unpack8(value, packed);
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum[i] += value[i];
}

// Block (32, 8) at (column tile, split): each thread sums eight columns of every eighth row of the split.
template <typename T, bool IS_WIDE>
static __global__ void __launch_bounds__(256)
    column_sum_kernel(float *partial, const T *x, struct column_split split, int64_t rows, int64_t columns) {
    __shared__ float sums[ROW_LANES][8][COLUMN_LANES];
    int64_t tile = (int64_t)blockIdx.x * SUM_TILE, column = tile + 8 * threadIdx.x;
    int64_t first = blockIdx.y * split.rows_per_split;
    int64_t last = min(first + split.rows_per_split, rows);
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int64_t row = first + threadIdx.y;
    x += column;
    if (column < columns) {
        for (; row + (ROWS_AHEAD - 1) * ROW_LANES < last; row += ROWS_AHEAD * ROW_LANES) {
            eight<T> packed[ROWS_AHEAD];  // all in flight before the first is used
#pragma unroll
            for (int j = 0; j < ROWS_AHEAD; j++)
                packed[j] = fetch8(x + (row + j * ROW_LANES) * columns, 0, columns - column, IS_WIDE);
#pragma unroll
            for (int j = 0; j < ROWS_AHEAD; j++)
                add8(sum, packed[j]);
        }
        for (; row < last; row += ROW_LANES)
            add8(sum, fetch8(x + row * columns, 0, columns - column, IS_WIDE));
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        sums[threadIdx.y][i][threadIdx.x] = sum[i];
    __syncthreads();
    // 256 threads, SUM_TILE sums.
    int thread = threadIdx.y * COLUMN_LANES + threadIdx.x;
    if (tile + thread < columns) {
        float total = 0;
        for (int i = 0; i < ROW_LANES; i++)
            total += sums[i][thread & 7][thread >> 3];
        partial[blockIdx.y * columns + tile + thread] = total;
    }
}

void column_sum(struct cuda_device *cuda, float *out, struct tensor x) {
    int64_t rows = x.shape[0], columns = x.shape[1];
    if (rows == 0 || columns == 0)
        return;
    struct column_split split = column_split(rows, columns, 1);
    dim3 grid(grid_x(divide_up(columns, SUM_TILE)), grid_yz(split.splits));
    WITH_TYPE(x.dtype, T, {
        void (*kernel)(float *, const T *, struct column_split, int64_t, int64_t) =
            rows_are_wide(columns, &x, 1) ? column_sum_kernel<T, true> : column_sum_kernel<T, false>;
        LAUNCH(cuda, kernel, grid, dim3(COLUMN_LANES, ROW_LANES), 0, cuda->scratch, (const T *)x.data, split, rows,
               columns);
    });
    column_finish(cuda, &out, 1, cuda->scratch, split.splits, columns);
}

extern "C" void cuda_column_sum(struct device *device, const struct op_column_sum *op) {
    column_sum(cuda_use(device), (float *)op->out.data, op->x);
}

// `fours` is the number of groups of four elements read by one access: all if both are aligned to 16 bytes, else 0.
static __global__ void dot_kernel(double *partial, const float *a, const float *b, int64_t count, int64_t fours) {
    __shared__ double shared[32];
    double sum = 0;
    int64_t step = (int64_t)SUM_BLOCKS * SUM_THREADS, first = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x;
#pragma unroll 4
    for (int64_t i = first; i < fours; i += step) {
        float4 x = ((const float4 *)a)[i], y = ((const float4 *)b)[i];
        sum += ((double)x.x * (double)y.x + (double)x.y * (double)y.y) +
               ((double)x.z * (double)y.z + (double)x.w * (double)y.w);
    }
    for (int64_t i = 4 * fours + first; i < count; i += step)
        sum += (double)a[i] * (double)b[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

// One block.
static __global__ void sum_finish_kernel(float *out, const double *partial, int count) {
    __shared__ double shared[32];
    double sum = 0;
#pragma unroll 8
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        sum += partial[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        *out = (float)((double)*out + sum);
}

void sum_finish(struct cuda_device *cuda, float *out, const double *partial, int count) {
    LAUNCH(cuda, sum_finish_kernel, 1, count > SUM_BLOCKS ? 1024 : (int)SUM_THREADS, 0, out, partial, count);
}

static __device__ __forceinline__ double squares_of(float4 x) {
    return ((double)x.x * (double)x.x + (double)x.y * (double)x.y) +
           ((double)x.z * (double)x.z + (double)x.w * (double)x.w);
}

static __global__ void __launch_bounds__(SUM_THREADS)
    sum_squares_kernel(double *partial, const float *x, int64_t count, int64_t fours) {
    __shared__ double shared[32];
    double sum = 0;
    int64_t step = (int64_t)SUM_BLOCKS * SUM_THREADS, first = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x,
            i = first;
    for (; i + (SQUARES_AHEAD - 1) * step < fours; i += SQUARES_AHEAD * step) {
        float4 ahead[SQUARES_AHEAD];
#pragma unroll
        for (int j = 0; j < SQUARES_AHEAD; j++)
            ahead[j] = ((const float4 *)x)[i + j * step];
#pragma unroll
        for (int j = 0; j < SQUARES_AHEAD; j++)
            sum += squares_of(ahead[j]);
    }
    for (; i < fours; i += step)
        sum += squares_of(((const float4 *)x)[i]);
    for (i = 4 * fours + first; i < count; i += step)
        sum += (double)x[i] * (double)x[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

extern "C" void cuda_dot(struct device *device, const struct op_dot *op) {
    struct cuda_device *cuda = cuda_use(device);
    double *partial = (double *)cuda->scratch;
    const float *a = (const float *)op->a.data, *b = (const float *)op->b.data;
    int64_t count = tensor_count(op->a), fours = ((uintptr_t)a | (uintptr_t)b) % 16 == 0 ? count / 4 : 0;
    LAUNCH(cuda, dot_kernel, SUM_BLOCKS, SUM_THREADS, 0, partial, a, b, count, fours);
    sum_finish(cuda, (float *)op->out.data, partial, SUM_BLOCKS);
}

extern "C" void cuda_sum_squares(struct device *device, const struct op_sum_squares *op) {
    struct cuda_device *cuda = cuda_use(device);
    double *partial = (double *)cuda->scratch;
    const float *x = (const float *)op->x.data;
    int64_t count = tensor_count(op->x), fours = (uintptr_t)x % 16 == 0 ? count / 4 : 0;
    LAUNCH(cuda, sum_squares_kernel, SUM_BLOCKS, SUM_THREADS, 0, partial, x, count, fours);
    sum_finish(cuda, (float *)op->out.data, partial, SUM_BLOCKS);
}

// A word of a tensor that is not aligned to eight bytes, or its last word.
static __device__ unsigned long long word_of_bytes(const unsigned char *bytes, int64_t count) {
    unsigned long long word = 0;
    for (int64_t i = 0; i < count && i < 8; i++)
        word |= (unsigned long long)bytes[i] << 8 * i;
    return word;
}

// `whole` is the number of words read by one access: all with eight bytes if the first is aligned, else 0. Integer sums
// do not depend on order, so blocks add theirs in any order.
static __global__ void __launch_bounds__(SUM_THREADS)
    digest_kernel(unsigned long long *out, const unsigned char *bytes, int64_t count, int64_t whole, uint64_t seed) {
    __shared__ unsigned long long shared[32];
    unsigned long long sum = 0;
    int64_t step = (int64_t)SUM_BLOCKS * SUM_THREADS, first = (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x;
#pragma unroll 4
    for (int64_t i = first; i < whole; i += step)
        sum += digest_word(((const unsigned long long *)bytes)[i], (uint64_t)i, seed);
    for (int64_t i = whole + first; 8 * i < count; i += step)
        sum += digest_word(word_of_bytes(bytes + 8 * i, count - 8 * i), (uint64_t)i, seed);
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        atomicAdd(out, sum);
}

extern "C" void cuda_digest(struct device *device, const struct op_digest *op) {
    const unsigned char *bytes = (const unsigned char *)op->x.data;
    int64_t count = (int64_t)tensor_bytes(op->x), whole = (uintptr_t)bytes % 8 == 0 ? count / 8 : 0;
    LAUNCH(cuda_use(device), digest_kernel, SUM_BLOCKS, SUM_THREADS, 0, (unsigned long long *)op->out.data, bytes,
           count, whole, op->seed);
}

// Changes the loss scale after a step; see ops.h.
static __device__ void move_loss_scale(float *state, bool is_good, const struct loss_scale_rule &rule) {
    state[LOSS_SCALE_STEPS] = is_good ? state[LOSS_SCALE_STEPS] + 1 : 0;
    if (!is_good) {
        state[LOSS_SCALE_TOLERANCE] -= 1;
        if (state[LOSS_SCALE_TOLERANCE] <= 0)
            state[LOSS_SCALE_FACTOR] = fmaxf(state[LOSS_SCALE_FACTOR] * 0.5f, rule.least);
    } else if (state[LOSS_SCALE_STEPS] == (float)rule.window) {
        state[LOSS_SCALE_FACTOR] *= 2;
        state[LOSS_SCALE_STEPS] = 0;
        state[LOSS_SCALE_TOLERANCE] = (float)rule.hysteresis;
    }
}

struct clip_args {
    float *scale, *norm;       // (1)
    const float *sum_squares;  // (1)
    float *loss_scale;         // (LOSS_SCALE_LENGTH) or NULL
    float max_norm;
    struct loss_scale_rule rule;
    float *rate, *skipped;  // (length) or NULL; (1)
    const float *rates;     // (rows, length)
    int64_t rows, length;
};

// Copies the row for the current number of skipped steps.
static __device__ void take_rate(const struct clip_args &args) {
    int64_t row = 0;
    while (row + 1 < args.rows && args.rates[row * args.length + RATE_SKIPPED] < *args.skipped)
        row++;
    for (int64_t i = 0; i < args.length; i++)
        args.rate[i] = args.rates[row * args.length + i];
}

static __global__ void clip_scale_kernel(struct clip_args args) {
    float loss_scale = args.loss_scale ? args.loss_scale[LOSS_SCALE_FACTOR] : 1;
    float root = sqrtf(*args.sum_squares) / loss_scale;
    float factor = args.max_norm / (root + 1e-6f);
    if (!isfinite(root))
        factor = NAN;  // tells the optimizer to skip the update
    else if (args.max_norm <= 0 || factor >= 1)
        factor = 1;
    *args.norm = root;
    *args.scale = factor / loss_scale;
    if (args.rate) {
        take_rate(args);
        *args.skipped += isfinite(root) ? 0.0f : 1.0f;
    }
    if (args.loss_scale && args.rule.window > 0)
        move_loss_scale(args.loss_scale, isfinite(root), args.rule);
}

extern "C" void cuda_clip_scale(struct device *device, const struct op_clip_scale *op) {
    struct clip_args args = {};
    args.scale = (float *)op->scale.data;
    args.norm = (float *)op->norm.data;
    args.sum_squares = (const float *)op->sum_squares.data;
    args.loss_scale = (float *)op->loss_scale.data;
    args.max_norm = op->max_norm;
    args.rule = op->rule;
    args.rate = (float *)op->rate.data;
    args.skipped = (float *)op->skipped.data;
    args.rates = (const float *)op->rates.data;
    args.rows = op->rate.data ? op->rates.shape[0] : 0;
    args.length = op->rate.data ? op->rates.shape[1] : 0;
    LAUNCH(cuda_use(device), clip_scale_kernel, 1, 1, 0, args);
}
