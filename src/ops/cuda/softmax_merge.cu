// Merges the statistics of parts of the vocabulary, held by several ranks. See op_softmax_merge.
#include "ops/cuda/cuda.cuh"

struct merge_args {
    float *row_max, *row_sum, *row_target;
    const float *parts;
    int64_t rows, count;
};

static __global__ void softmax_merge_kernel(struct merge_args args) {
    int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= args.rows)
        return;
    float max = -INFINITY, sum = 0, target = 0;
    for (int64_t p = 0; p < args.count; p++)
        max = fmaxf(max, args.parts[3 * p * args.rows + n]);
    for (int64_t p = 0; p < args.count; p++) {
        const float *part = args.parts + 3 * p * args.rows + n;
        sum += part[args.rows] * expf(part[0] - (max > -INFINITY ? max : 0));
        target += part[2 * args.rows];
    }
    args.row_max[n] = max;
    args.row_sum[n] = sum;
    args.row_target[n] = target;
}

extern "C" void cuda_softmax_merge(struct device *device, const struct op_softmax_merge *op) {
    struct cuda_device *cuda = cuda_use(device);
    enum { THREADS = 256 };
    struct merge_args args = {(float *)op->row_max.data,     (float *)op->row_sum.data, (float *)op->row_target.data,
                              (const float *)op->parts.data, op->row_max.shape[0],      op->parts.shape[0]};
    if (args.rows == 0)
        return;
    LAUNCH(cuda, softmax_merge_kernel, (unsigned)((args.rows + THREADS - 1) / THREADS), THREADS, 0, args);
}
