// Softmax cross entropy in its two halves, and both at once if this rank has the whole vocabulary: then a row of logits
// stays in shared memory between the halves, and is read once and written once.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"

enum {
    LOSS_THREADS = 512,  // of a block that has one row
    ROW_THREADS = 1024,  // of one that keeps rows in shared memory
    LOADS_AHEAD = 4,     // reads of a thread in flight at once
    SUMS_BYTES = 256,    // lower bound of such a block's other shared memory
};

template <typename T> struct loss_args {
    float *row_max, *row_sum, *row_target, *losses;  // (N)
    T *logits;                                       // (N, V)
    const int32_t *labels;                           // (N)
    const float *weights;                            // (N) or NULL
    int64_t rows, columns, vocabulary_start;
    float cap;  // of the logits, 0 for none
    float z;    // coefficient of the z-loss
    bool is_wide;
};

template <typename T> static __device__ __forceinline__ float exponential(float x) {
    return expf(x);
}

// The error is about 1e-6, far below bf16's precision.
template <> __device__ __forceinline__ float exponential<__nv_bfloat16>(float x) {
    return __expf(x);
}

template <> __device__ __forceinline__ float exponential<__half>(float x) {
    return __expf(x);
}

// The largest value so far and the sum of exponentials relative to it.
struct running_sum {
    float largest, total;
};

// If all values so far are -infinity, 0 is subtracted instead. NaN does not count as largest, but makes the sum NaN.
static __device__ __forceinline__ float base_of(float largest) {
    return largest == -INFINITY ? 0.0f : largest;
}

template <typename T>
static __device__ __forceinline__ void running_add(struct running_sum *sum, const float value[8], int64_t column,
                                                   int64_t columns) {
    float largest = sum->largest;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (column + i < columns)
            largest = fmaxf(largest, value[i]);
    float base = base_of(largest), total = sum->total;
    if (largest > sum->largest)
        total *= exponential<T>(sum->largest - base);
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (column + i < columns)
            total += exponential<T>(value[i] - base);
    sum->largest = largest;
    sum->total = total;
}

// Combines the running sums of all threads of a block; every thread gets the result.
static __device__ __forceinline__ struct running_sum running_finish(struct running_sum mine, float *shared) {
    struct running_sum all;
    all.largest = block_max(mine.largest, shared);
    // A thread without columns has a total of 0, whatever the exponential of its distance.
    float part = mine.total == 0 ? 0.0f : mine.total * expf(base_of(mine.largest) - base_of(all.largest));
    all.total = block_sum(part, shared);
    return all;
}

// Statistics of a row.
template <typename T>
static __device__ __forceinline__ struct running_sum row_stats(const loss_args<T> &args, int64_t row, float *shared) {
    int64_t columns = args.columns;
    const T *logits = args.logits + row * columns;
    struct running_sum sum = {-INFINITY, 0};
    int64_t step = 8 * blockDim.x;
    for (int64_t first = 8 * threadIdx.x; first < columns; first += LOADS_AHEAD * step) {
        eight<T> packed[LOADS_AHEAD];  // all in flight before the first is used
#pragma unroll
        for (int j = 0; j < LOADS_AHEAD; j++)
            if (first + j * step < columns)
                packed[j] = fetch8(logits, first + j * step, columns, args.is_wide);
#pragma unroll
        for (int j = 0; j < LOADS_AHEAD; j++) {
            int64_t column = first + j * step;
            if (column >= columns)
                break;
            float value[8];
            unpack8(value, packed[j]);
            running_add<T>(&sum, value, column, columns);
        }
    }
    return running_finish(sum, shared);
}

template <typename T> static __global__ void __launch_bounds__(LOSS_THREADS) softmax_stats_kernel(loss_args<T> args) {
    __shared__ float shared[32];
    int64_t row = blockIdx.x;
    struct running_sum sum = row_stats<T>(args, row, shared);
    if (threadIdx.x == 0) {
        int64_t label = args.labels[row] - args.vocabulary_start;
        bool is_here = label >= 0 && label < args.columns;
        args.row_max[row] = sum.largest;
        args.row_sum[row] = sum.total;
        args.row_target[row] = is_here ? to_float(args.logits[row * args.columns + label]) : 0.0f;
    }
}

// Overwrites the logits by the gradient; `all` is the logarithm of the softmax's denominator.
template <typename T>
static __device__ __forceinline__ void write_gradient(const loss_args<T> &args, int64_t row, struct running_sum sum,
                                                      float all) {
    int64_t columns = args.columns, label = args.labels[row] - args.vocabulary_start;
    float weight = args.weights[row];
    float factor = (args.z > 0 ? weight * (1.0f + 2.0f * args.z * all) : weight) / sum.total;
    T *logits = args.logits + row * columns;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float value[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (weight != 0) {
            load8(value, logits, column, columns, args.is_wide);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float t = args.cap > 0 ? value[i] / args.cap : 0.0f;
                value[i] = exponential<T>(value[i] - sum.largest) * factor - (column + i == label ? weight : 0.0f);
                value[i] *= 1.0f - t * t;
            }
        }
        store8(logits, column, columns, args.is_wide, value);
    }
}

// The second half: the loss and, if there are weights, the gradient.
template <typename T> static __global__ void __launch_bounds__(LOSS_THREADS) cross_entropy_kernel(loss_args<T> args) {
    int64_t row = blockIdx.x;
    struct running_sum sum = {args.row_max[row], args.row_sum[row]};
    float all = logf(sum.total) + sum.largest;
    if (threadIdx.x == 0)
        args.losses[row] = all - args.row_target[row] + (args.z > 0 ? args.z * all * all : 0.0f);
    if (args.weights)
        write_gradient<T>(args, row, sum, all);
}

// Starts the copy of a row to shared memory: every thread copies the columns that it will read itself.
template <typename T>
static __device__ __forceinline__ void fetch_logits(T *kept, const loss_args<T> &args, int64_t row) {
    const T *logits = args.logits + row * args.columns;
    if (row < args.rows)
        for (int column = 8 * threadIdx.x; column < args.columns; column += 8 * blockDim.x)
#pragma unroll
            for (int i = 0; i < (int)sizeof(T) / 2; i++)
                async_copy16((uint4 *)(kept + column) + i, (const uint4 *)(logits + column) + i);
    async_commit();
}

static const float LOG2_E = 1.44269504089f;

// 2^x with a relative error of about 1e-7; 0 instead of subnormals.
static __device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Eight gradients of a row in shared memory: weight * softmax is one power of two and a sign.
template <typename T>
static __device__ __forceinline__ void gradient8(float value[8], const T *kept, float shift, float sign) {
    load8(value, kept, 0, 8, true);
#pragma unroll
    for (int i = 0; i < 8; i++)
        value[i] = sign * power_of_two(fmaf(value[i], LOG2_E, shift));
}

// Writes the gradient of a row in shared memory, then the label's column again, by the thread that has it.
template <typename T>
static __device__ __forceinline__ void write_row(const loss_args<T> &args, int64_t row, struct running_sum sum,
                                                 const T *kept) {
    int columns = (int)args.columns;
    int64_t label = args.labels[row] - args.vocabulary_start;
    float weight = args.weights[row], value[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    float shift = log2f(fabsf(weight) / sum.total) - sum.largest * LOG2_E;
    T *out = args.logits + row * args.columns;
    if (weight > 0)
        for (int column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
            gradient8(value, kept + column, shift, 1.0f);
            store8(out + column, 0, 8, true, value);
        }
    else
        for (int column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
            if (weight != 0)
                gradient8(value, kept + column, shift, -1.0f);
            store8(out + column, 0, 8, true, value);
        }
    if (label < 0 || label >= columns || label / 8 % blockDim.x != threadIdx.x || weight == 0)
        return;
    gradient8(value, kept + label / 8 * 8, shift, weight < 0 ? -1.0f : 1.0f);
#pragma unroll
    for (int i = 0; i < 8; i++)
        value[i] -= i == label % 8 ? weight : 0.0f;
    store8(out + label / 8 * 8, 0, 8, true, value);
}

static __device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b, __nv_bfloat16) {
    __nv_bfloat162 pair = __hmax2(*(const __nv_bfloat162 *)&a, *(const __nv_bfloat162 *)&b);
    return *(const uint32_t *)&pair;
}

static __device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b, __half) {
    __half2 pair = __hmax2(*(const __half2 *)&a, *(const __half2 *)&b);
    return *(const uint32_t *)&pair;
}

// There is no kernel for whole rows of fp32.
static __device__ __forceinline__ uint32_t larger_pair(uint32_t a, uint32_t b, float) {
    return a > b ? a : b;
}

// The largest of a thread's columns of a row in shared memory, compared two at a time without unpacking.
template <typename T> static __device__ __forceinline__ float largest_of(const T *kept, int columns) {
    eight<T> largest;
    float value[8] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    pack8(&largest, value);
    uint4 *a = &largest.word[0];
    for (int column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        uint4 b = *(const uint4 *)(kept + column);
        *a = make_uint4(larger_pair(a->x, b.x, T()), larger_pair(a->y, b.y, T()), larger_pair(a->z, b.z, T()),
                        larger_pair(a->w, b.w, T()));
    }
    unpack8(value, largest);
#pragma unroll
    for (int i = 1; i < 8; i++)
        value[0] = fmaxf(value[0], value[i]);
    return value[0];
}

// Both halves for aligned rows of 16-bit logits of which two fit in shared memory: the next row is copied while this
// one is processed. A block takes every gridDim.x-th row. Only the label's logit is read by a thread that did not copy
// it, after a barrier.
template <typename T> static __global__ void __launch_bounds__(ROW_THREADS, 1) whole_rows_kernel(loss_args<T> args) {
    extern __shared__ uint4 memory[];
    __shared__ float shared[32];
    int columns = (int)args.columns, turn = 0;
    T *rows = (T *)memory;  // (2, columns)
    fetch_logits(rows, args, blockIdx.x);
    fetch_logits(rows + columns, args, (int64_t)blockIdx.x + gridDim.x);
    for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x, turn ^= 1) {
        struct running_sum sum = {-INFINITY, 0};
        T *kept = rows + turn * columns;
        async_wait<1>();
        sum.largest = block_max(largest_of(kept, columns), shared);
        int64_t label = args.labels[row] - args.vocabulary_start;
        bool is_here = label >= 0 && label < columns;
        float target = threadIdx.x == 0 && is_here ? to_float(kept[label]) : 0.0f;
        float shift = -base_of(sum.largest) * LOG2_E;
        for (int column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
            float value[8];
            load8(value, kept, column, columns, true);
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum.total += power_of_two(fmaf(value[i], LOG2_E, shift));
        }
        sum.total = block_sum(sum.total, shared);
        if (threadIdx.x == 0) {
            args.row_max[row] = sum.largest;
            args.row_sum[row] = sum.total;
            args.row_target[row] = target;
            args.losses[row] = logf(sum.total) + sum.largest - target;
        }
        if (args.weights)
            write_row(args, row, sum, kept);
        fetch_logits(kept, args, row + 2 * (int64_t)gridDim.x);
    }
}

struct top_args {
    float *hits;            // (count)
    const float *logits;    // (N, V)
    const int32_t *labels;  // (N)
    int64_t columns;
    int64_t tops[OPS_MOST_TOPS];
    int count;
};

// A block has one row. Hits are whole numbers, whose sum does not depend on the order.
static __global__ void __launch_bounds__(LOSS_THREADS) top_hits_kernel(top_args args) {
    __shared__ float shared[32];
    const float *logits = args.logits + (int64_t)blockIdx.x * args.columns;
    int64_t label = args.labels[blockIdx.x], larger = 0;
    float own = logits[label];
    for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x)
        larger += logits[c] > own || (logits[c] == own && c < label);
    float rank = block_sum((float)larger, shared);  // exact up to 2^24 columns
    if (threadIdx.x != 0 || isnan(own))
        return;
    for (int i = 0; i < args.count; i++)
        if (rank < (float)args.tops[i])
            atomicAdd(&args.hits[i], 1.0f);
}

static unsigned loss_threads(int64_t columns) {
    int64_t threads = divide_up(divide_up(columns, 8), 32) * 32;
    return (unsigned)min(threads, (int64_t)LOSS_THREADS);
}

extern "C" void cuda_softmax_stats(struct device *device, const struct op_softmax_stats *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->logits) == 0)
        return;
    WITH_TYPE(op->logits.dtype, T, {
        loss_args<T> args = {};
        args.row_max = (float *)op->row_max.data;
        args.row_sum = (float *)op->row_sum.data;
        args.row_target = (float *)op->row_target.data;
        args.logits = (T *)op->logits.data;
        args.labels = (const int32_t *)op->labels.data;
        args.rows = op->logits.shape[0];
        args.columns = op->logits.shape[1];
        args.vocabulary_start = op->vocabulary_start;
        args.is_wide = rows_are_wide(args.columns, &op->logits, 1);
        LAUNCH(cuda, softmax_stats_kernel<T>, grid_x(op->logits.shape[0]), loss_threads(args.columns), 0, args);
    });
}

template <typename T> static void cross_entropy(struct cuda_device *cuda, const struct op_cross_entropy *op) {
    loss_args<T> args = {};
    args.row_max = (float *)op->row_max.data;
    args.row_sum = (float *)op->row_sum.data;
    args.row_target = (float *)op->row_target.data;
    args.losses = (float *)op->losses.data;
    args.logits = (T *)op->logits.data;
    args.labels = (const int32_t *)op->labels.data;
    args.weights = (const float *)op->weights.data;
    args.rows = op->logits.shape[0];
    args.columns = op->logits.shape[1];
    args.vocabulary_start = op->vocabulary_start;
    args.cap = op->cap;
    args.z = op->z;
    args.is_wide = rows_are_wide(args.columns, &op->logits, 1);
    unsigned rows = grid_x(op->logits.shape[0]), threads = loss_threads(args.columns);
    if (!op->makes_stats) {
        LAUNCH(cuda, cross_entropy_kernel<T>, rows, threads, 0, args);
        return;
    }
    int most = 0, processors = 0;
    size_t kept_bytes = 2 * (size_t)args.columns * sizeof(T);
    CHECK_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->index));
    CHECK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, cuda->index));
    if (sizeof(T) == 2 && args.is_wide && args.cap == 0 && args.z == 0 && kept_bytes + SUMS_BYTES <= (size_t)most) {
        CHECK_CUDA(
            cudaFuncSetAttribute(whole_rows_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kept_bytes));
        // Rows are independent, so their split over blocks may follow the number of processors.
        unsigned blocks = (unsigned)min(args.rows, (int64_t)processors);
        LAUNCH(cuda, whole_rows_kernel<T>, blocks, ROW_THREADS, kept_bytes, args);
    } else {
        LAUNCH(cuda, softmax_stats_kernel<T>, rows, threads, 0, args);
        LAUNCH(cuda, cross_entropy_kernel<T>, rows, threads, 0, args);
    }
}

extern "C" void cuda_cross_entropy(struct device *device, const struct op_cross_entropy *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->logits) == 0)
        return;
    WITH_TYPE(op->logits.dtype, T, cross_entropy<T>(cuda, op));
}

template <typename T>
static __global__ void __launch_bounds__(LOSS_THREADS) softcap_kernel(T *x, int64_t count, float cap) {
    int64_t i = (int64_t)blockIdx.x * LOSS_THREADS + threadIdx.x;
    if (i < count)
        store(x + i, cap * tanhf(to_float(x[i]) / cap));
}

extern "C" void cuda_softcap(struct device *device, const struct op_softcap *op) {
    struct cuda_device *cuda = cuda_use(device);
    int64_t count = tensor_count(op->x);
    if (count == 0)
        return;
    WITH_TYPE(op->x.dtype, T,
              LAUNCH(cuda, softcap_kernel<T>, grid_x(divide_up(count, LOSS_THREADS)), LOSS_THREADS, 0, (T *)op->x.data,
                     count, op->cap));
}

extern "C" void cuda_top_hits(struct device *device, const struct op_top_hits *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->logits) == 0)
        return;
    top_args args = {};
    args.hits = (float *)op->hits.data;
    args.logits = (const float *)op->logits.data;
    args.labels = (const int32_t *)op->labels.data;
    args.columns = op->logits.shape[1];
    args.count = op->count;
    for (int i = 0; i < op->count; i++)
        args.tops[i] = op->tops[i];
    LAUNCH(cuda, top_hits_kernel, grid_x(op->logits.shape[0]), loss_threads(args.columns), 0, args);
}
