// LayerNorm and RMSNorm forward, with the residual addition and its dropout fused in: one pass over the tensors. What
// is normalised is the sum as it is stored, rounded to its dtype, because backward has only that.
#include "ops/cuda/norm.cuh"

enum { FORWARD_TENSORS = 2, FORWARD_BLOCKS = 1056 };  // x and delta; eight blocks for each processor of an H100

template <typename T> struct forward_args {
    T *y;                  // (N, C)
    float *mean, *rstd;    // (N); mean NULL with RMS
    const T *x;            // (N, C)
    const T *gain, *bias;  // (C); bias NULL with RMS
    const T *delta;        // (N, C) or NULL
    const T *delta_bias;   // (C) or NULL
    T *sum;                // (N, C), with delta; may be x
    float epsilon;
    int64_t rows, columns;
    bool is_wide;  // rows are aligned to 16 bytes and their length is a multiple of 8
    bool is_rms;
    struct cuda_dropout dropout;
};

// Mean and sum of squared distances from it, of a row of which the threads hold parts: each warp finds those of its
// part and one barrier puts the parts together, which rounds as little as two passes over the row. With is_rms the
// mean is 0. `shared` holds one entry per warp of the block and must not be used by the call before or after.
template <int GROUPS>
static __device__ __forceinline__ float2 row_moments(const float value[GROUPS][8], int columns, bool is_rms,
                                                     float3 *shared) {
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    float total = 0, count = 0, squares = 0;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        count += (float)max(0, min(8, columns - 8 * (int)(threadIdx.x + g * blockDim.x)));
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
            if (8 * (int)(threadIdx.x + g * blockDim.x) + i < columns)
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

// value = value + dropout(delta + delta_bias), rounded as it is stored.
template <typename T>
static __device__ __forceinline__ void add_delta(float value[8], const eight<T> &packed, const eight<T> &packed_bias,
                                                 const forward_args<T> &args, int64_t row, int column) {
    float delta[8], bias[8];
    unpack8(delta, packed);
    unpack8(bias, packed_bias);
#pragma unroll
    for (int i = 0; i < 8; i++)
        delta[i] += bias[i];
    dropout_apply(delta, args.dropout, row, column);
    dropout_apply(delta + 4, args.dropout, row, column + 4);
#pragma unroll
    for (int i = 0; i < 8; i++)
        value[i] = rounded<T>(value[i] + delta[i]);
    store8(args.sum + row * args.columns, column, args.columns, args.is_wide, value);
}

template <typename T>
static __device__ __forceinline__ eight<T> fetch_vector(const T *vector, int column, const forward_args<T> &args) {
    return vector && column < args.columns ? fetch8(vector, column, args.columns, args.is_wide) : eight<T>();
}

template <typename T>
static __device__ __forceinline__ void queue_row(eight<T> *queue, int stage, const forward_args<T> &args, int64_t row) {
    int column = 8 * threadIdx.x;
    int64_t offset = row * args.columns + column;
    if (row < args.rows && column < args.columns) {
        queue_fetch(queue_place<T, FORWARD_TENSORS>(queue, stage, 0), args.x + offset);
        if (args.delta)
            queue_fetch(queue_place<T, FORWARD_TENSORS>(queue, stage, 1), args.delta + offset);
    }
    async_commit();
}

// Block (threads of a row, rows): thread x holds the columns 8 (x + blockDim.x * g) of its row, g < GROUPS. What
// belongs to columns alone stays in registers.
template <typename T, int GROUPS, bool IS_QUEUED>
static __global__ void __launch_bounds__(NORM_THREADS) norm_forward_kernel(forward_args<T> args) {
    extern __shared__ uint4 memory[];
    __shared__ float3 shared[2][NORM_THREADS / 32];
    eight<T> *queue = (eight<T> *)memory;
    int columns = (int)args.columns, parity = 0, stage = 0;
    int64_t step = (int64_t)gridDim.x * blockDim.y, first = (int64_t)blockIdx.x * blockDim.y;
    eight<T> gain[GROUPS], bias[GROUPS], delta_bias[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int column = 8 * (int)(threadIdx.x + g * blockDim.x);
        gain[g] = fetch_vector(args.gain, column, args);
        bias[g] = fetch_vector(args.bias, column, args);
        delta_bias[g] = fetch_vector(args.delta_bias, column, args);
    }
    if (IS_QUEUED)
        for (int i = 0; i < NORM_STAGES - 1; i++)
            queue_row(queue, i, args, first + i * step + threadIdx.y);
    for (int64_t base = first; base < args.rows; base += step, parity ^= 1) {
        int64_t row = base + threadIdx.y;
        float value[GROUPS][8];
        if (IS_QUEUED)
            async_wait<NORM_STAGES - 2>();
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = 8 * (int)(threadIdx.x + g * blockDim.x);
            bool is_there = row < args.rows && column < columns;
#pragma unroll
            for (int i = 0; i < 8; i++)
                value[g][i] = 0;
            if (!is_there)
                continue;
            if (IS_QUEUED)
                unpack8(value[g], *queue_place<T, FORWARD_TENSORS>(queue, stage, 0));
            else
                load8(value[g], args.x + row * columns, column, columns, args.is_wide);
            if (args.delta)
                add_delta(value[g],
                          IS_QUEUED ? *queue_place<T, FORWARD_TENSORS>(queue, stage, 1)
                                    : fetch8(args.delta + row * columns, column, columns, args.is_wide),
                          delta_bias[g], args, row, column);
        }
        if (IS_QUEUED) {
            queue_row(queue, (stage + NORM_STAGES - 1) % NORM_STAGES, args, row + (NORM_STAGES - 1) * step);
            stage = (stage + 1) % NORM_STAGES;
        }
        float2 moments = row_moments<GROUPS>(value, columns, args.is_rms, shared[parity]);
        float mean = moments.x, rstd = 1.0f / sqrtf(moments.y / (float)columns + args.epsilon);
        if (row < args.rows && threadIdx.x == 0) {
            if (!args.is_rms)
                args.mean[row] = mean;
            args.rstd[row] = rstd;
        }
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int column = 8 * (int)(threadIdx.x + g * blockDim.x);
            float factor[8], shift[8];
            if (row >= args.rows || column >= columns)
                continue;
            unpack8(factor, gain[g]);
            unpack8(shift, bias[g]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                value[g][i] = (value[g][i] - mean) * rstd * factor[i] + shift[i];
            store8(args.y + row * columns, column, columns, args.is_wide, value[g]);
        }
    }
}

// Rows do not meet, so the number of blocks changes no result.
template <typename T> static void norm_forward(struct cuda_device *cuda, const struct op_norm_forward *op) {
    forward_args<T> args = {};
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
        unsigned blocks = grid_x(min(divide_up(args.rows, rows), (int64_t)FORWARD_BLOCKS));
        if (GROUPS == 1 && args.is_wide) {
            size_t bytes = (size_t)NORM_STAGES * FORWARD_TENSORS * threads * rows * sizeof(eight<T>);
            norm_take_shared(norm_forward_kernel<T, 1, true>, bytes);
            LAUNCH(cuda, (norm_forward_kernel<T, 1, true>), blocks, dim3(threads, rows), bytes, args);
        } else {
            LAUNCH(cuda, (norm_forward_kernel<T, GROUPS, false>), blocks, dim3(threads, rows), 0, args);
        }
    });
}

extern "C" void cuda_norm_forward(struct device *device, const struct op_norm_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    WITH_TYPE(op->x.dtype, T, norm_forward<T>(cuda, op));
}
