// Softmax cross entropy in its two halves, and both at once where all of the vocabulary is here: then a row of logits
// waits in shared memory between the two, and is read once and written once. One block per row.
#include "ops/cuda/cuda.cuh"

// Two blocks of this many threads, with a row of 50,000 in shared memory each, fit a multiprocessor of an H100.
enum { LOSS_THREADS = 512, LOADS = 4 };

template <typename T> struct loss_args {
    float *row_max, *row_sum, *row_target, *losses;  // (N)
    T *logits;                                       // (N, V)
    const int32_t *labels;                           // (N)
    const float *weights;                            // (N) or NULL
    int64_t columns, vocabulary_start;
    bool is_wide;
};

template <typename T> static __device__ __forceinline__ float exponential(float x) {
    return expf(x);
}

// Off by some 1e-6, far below what bf16 holds.
template <> __device__ __forceinline__ float exponential<__nv_bfloat16>(float x) {
    return __expf(x);
}

// The largest value so far and the sum of exponentials relative to it.
struct running_sum {
    float largest, total;
};

// With nothing but -infinity so far, 0 is subtracted instead. NaN does not count as large, and makes the sum NaN.
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

// The running sums of all threads of a block put together; every thread gets the result.
static __device__ __forceinline__ struct running_sum running_finish(struct running_sum mine, float *shared) {
    struct running_sum all;
    all.largest = block_max(mine.largest, shared);
    all.total = block_sum(mine.total * expf(base_of(mine.largest) - base_of(all.largest)), shared);
    return all;
}

// Statistics of a row. With `kept`, the row is also left there.
template <typename T>
static __device__ __forceinline__ struct running_sum row_stats(const loss_args<T> &args, int64_t row, T *kept,
                                                               float *shared) {
    int64_t columns = args.columns;
    const T *logits = args.logits + row * columns;
    struct running_sum sum = {-INFINITY, 0};
    int64_t step = 8 * blockDim.x;
    for (int64_t first = 8 * threadIdx.x; first < columns; first += LOADS * step) {
        eight<T> packed[LOADS];  // all on their way before the first is used
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (first + j * step < columns)
                packed[j] = fetch8(logits, first + j * step, columns, args.is_wide);
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            int64_t column = first + j * step;
            if (column >= columns)
                break;
            float value[8];
            if (kept)
                *(eight<T> *)(kept + column) = packed[j];
            unpack8(value, packed[j]);
            running_add<T>(&sum, value, column, columns);
        }
    }
    return running_finish(sum, shared);
}

template <typename T> static __global__ void __launch_bounds__(LOSS_THREADS) softmax_stats_kernel(loss_args<T> args) {
    __shared__ float shared[32];
    int64_t row = blockIdx.x;
    struct running_sum sum = row_stats<T>(args, row, NULL, shared);
    if (threadIdx.x == 0) {
        int64_t label = args.labels[row] - args.vocabulary_start;
        bool is_here = label >= 0 && label < args.columns;
        args.row_max[row] = sum.largest;
        args.row_sum[row] = sum.total;
        args.row_target[row] = is_here ? to_float(args.logits[row * args.columns + label]) : 0.0f;
    }
}

// The gradient in place of the logits, which are read from `from`.
template <typename T>
static __device__ __forceinline__ void write_gradient(const loss_args<T> &args, int64_t row, struct running_sum sum,
                                                      const T *from, bool from_is_wide) {
    int64_t columns = args.columns, label = args.labels[row] - args.vocabulary_start;
    float weight = args.weights[row], factor = weight / sum.total;
    for (int64_t column = 8 * threadIdx.x; column < columns; column += 8 * blockDim.x) {
        float value[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (weight != 0) {
            load8(value, from, column, columns, from_is_wide);
#pragma unroll
            for (int i = 0; i < 8; i++)
                value[i] = exponential<T>(value[i] - sum.largest) * factor - (column + i == label ? weight : 0.0f);
        }
        store8(args.logits + row * columns, column, columns, args.is_wide, value);
    }
}

// The second half: the loss, and where there are weights the gradient.
template <typename T> static __global__ void __launch_bounds__(LOSS_THREADS) cross_entropy_kernel(loss_args<T> args) {
    int64_t row = blockIdx.x;
    struct running_sum sum = {args.row_max[row], args.row_sum[row]};
    if (threadIdx.x == 0)
        args.losses[row] = logf(sum.total) + sum.largest - args.row_target[row];
    if (args.weights)
        write_gradient<T>(args, row, sum, args.logits + row * args.columns, args.is_wide);
}

// Both halves. The label's logit is read before a barrier, and written after it.
template <typename T> static __global__ void __launch_bounds__(LOSS_THREADS, 2) whole_loss_kernel(loss_args<T> args) {
    extern __shared__ uint4 memory[];
    __shared__ float shared[32];
    T *kept = (T *)memory;
    int64_t row = blockIdx.x, label = args.labels[row] - args.vocabulary_start;
    float target = label >= 0 && label < args.columns ? to_float(args.logits[row * args.columns + label]) : 0.0f;
    struct running_sum sum = row_stats<T>(args, row, kept, shared);
    if (threadIdx.x == 0) {
        args.row_max[row] = sum.largest;
        args.row_sum[row] = sum.total;
        args.row_target[row] = target;
        args.losses[row] = logf(sum.total) + sum.largest - target;
    }
    if (args.weights)
        write_gradient<T>(args, row, sum, kept, true);
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
    args.columns = op->logits.shape[1];
    args.vocabulary_start = op->vocabulary_start;
    args.is_wide = rows_are_wide(args.columns, &op->logits, 1);
    unsigned rows = grid_x(op->logits.shape[0]), threads = loss_threads(args.columns);
    if (!op->makes_stats) {
        LAUNCH(cuda, cross_entropy_kernel<T>, rows, threads, 0, args);
        return;
    }
    size_t kept_bytes = (size_t)divide_up(args.columns, 8) * sizeof(eight<T>);
    int most = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->index));
    if (kept_bytes + 256 <= (size_t)most) {
        CHECK_CUDA(
            cudaFuncSetAttribute(whole_loss_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kept_bytes));
        LAUNCH(cuda, whole_loss_kernel<T>, rows, threads, kept_bytes, args);
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
