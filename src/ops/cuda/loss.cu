// Softmax cross entropy in its two halves. One block per row of logits; the second sweep over a row of the first half
// finds it in the L2 cache.
#include "ops/cuda/cuda.cuh"

template <typename T> struct loss_args {
    float *row_max, *row_sum, *row_target, *losses;  // (N)
    T *logits;                                       // (N, V)
    const int32_t *labels;                           // (N)
    const float *weights;                            // (N) or NULL
    int64_t columns, vocabulary_start;
};

template <typename T> static __global__ void softmax_stats_kernel(loss_args<T> args) {
    __shared__ float shared[32];
    int64_t row = blockIdx.x, columns = args.columns;
    const T *logits = args.logits + row * columns;
    int64_t first = 4 * threadIdx.x, step = 4 * blockDim.x;
    float largest = -INFINITY, total = 0, value[4];
    for (int64_t column = first; column < columns; column += step) {
        load4(value, logits, column, columns);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (column + i < columns)
                largest = fmaxf(largest, value[i]);
    }
    largest = block_max(largest, shared);
    for (int64_t column = first; column < columns; column += step) {
        load4(value, logits, column, columns);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (column + i < columns)
                total += expf(value[i] - largest);
    }
    total = block_sum(total, shared);
    if (threadIdx.x == 0) {
        int64_t label = args.labels[row] - args.vocabulary_start;
        args.row_max[row] = largest;
        args.row_sum[row] = total;
        args.row_target[row] = label >= 0 && label < columns ? to_float(logits[label]) : 0.0f;
    }
}

// The loss, and where there are weights the gradient in place of the logits.
template <typename T> static __global__ void cross_entropy_kernel(loss_args<T> args) {
    int64_t row = blockIdx.x, columns = args.columns;
    float largest = args.row_max[row], sum = args.row_sum[row];
    if (threadIdx.x == 0)
        args.losses[row] = logf(sum) + largest - args.row_target[row];
    if (!args.weights)
        return;
    T *logits = args.logits + row * columns;
    float weight = args.weights[row], factor = weight / sum;
    int64_t label = args.labels[row] - args.vocabulary_start;
    for (int64_t column = 4 * threadIdx.x; column < columns; column += 4 * blockDim.x) {
        float value[4] = {0, 0, 0, 0};
        if (weight != 0) {
            load4(value, logits, column, columns);
#pragma unroll
            for (int i = 0; i < 4; i++)
                value[i] = expf(value[i] - largest) * factor - (column + i == label ? weight : 0.0f);
        }
        store4(logits, column, columns, value);
    }
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
        LAUNCH(cuda, softmax_stats_kernel<T>, grid_x(op->logits.shape[0]), row_threads(args.columns), 0, args);
    });
}

extern "C" void cuda_cross_entropy(struct device *device, const struct op_cross_entropy *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->logits) == 0)
        return;
    WITH_TYPE(op->logits.dtype, T, {
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
        LAUNCH(cuda, cross_entropy_kernel<T>, grid_x(op->logits.shape[0]), row_threads(args.columns), 0, args);
    });
}
