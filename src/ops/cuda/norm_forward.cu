// LayerNorm and RMSNorm forward, with the residual addition and its dropout fused in: one pass over the tensors. The
// norm's input is the stored sum, rounded to its dtype, because backward has only that.
#include "ops/cuda/dropout.cuh"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/float8.cuh"
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/norm.cuh"

template <typename T> struct forward_args {
    T *y;         // (N, C), or NULL
    uint8_t *y8;  // (N, C) in E4M3 with its range, or NULL
    float *range;
    float *mean, *rstd;    // (N); mean NULL with RMS
    const T *x;            // (N, C)
    const T *gain, *bias;  // (C); bias may be NULL
    const T *delta;        // (N, C) or NULL
    const T *delta_bias;   // (C) or NULL
    T *sum;                // (N, C), with delta; may be x
    float gain_offset;     // see struct op_norm_forward
    float epsilon;
    int64_t rows, columns;
    bool is_rms;
    struct cuda_dropout dropout;
    int groups;  // per thread
};

template <typename A, typename B> static constexpr bool is_same = false;
template <typename A> static constexpr bool is_same<A, A> = true;

// The mean of a row, whose parts the threads hold, and the sum of squared distances from it: each warp computes those
// of its part, and the parts are combined after one barrier, which is as accurate as two passes over the row. With
// is_rms the mean is 0. `shared` holds one entry per warp of the block and must not be used by the call before or
// after. With IS_WIDE columns are a multiple of eight.
template <int GROUPS, bool IS_WIDE>
static __device__ __forceinline__ float2 row_moments(const float value[GROUPS][8], int groups, int columns, bool is_rms,
                                                     float3 *shared) {
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    float total = 0, squares = 0;
    int count = 0, first = threadIdx.x & ~31;  // columns of this warp
    float mean = 0;
    if (!is_rms) {
#pragma unroll
        for (int g = 0; g < groups; g++) {
            count += max(0, min(8 * 32, columns - 8 * (first + g * (int)blockDim.x)));
#pragma unroll
            for (int i = 0; i < 8; i++)
                total += value[g][i];
        }
        if (count > 0)
            mean = warp_sum(total) / (float)count;
    }
#pragma unroll
    for (int g = 0; g < groups; g++) {
        int column = group_column(g);
        if (IS_WIDE && column >= columns)
            break;
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (IS_WIDE || column + i < columns)
                squares += (value[g][i] - mean) * (value[g][i] - mean);
    }
    squares = warp_sum(squares);
    if (warps == 1)
        return make_float2(mean, squares);
    float3 *mine = shared + warps * threadIdx.y;
    if (lane == 0)
        mine[threadIdx.x >> 5] = make_float3((float)count, mean, squares);
    __syncthreads();
    float3 part = lane < warps ? mine[lane] : make_float3(0, 0, 0);
    mean = warp_sum(part.x * part.y) / (float)columns;
    return make_float2(mean, warp_sum(part.z + part.x * (part.y - mean) * (part.y - mean)));
}

// value = value + dropout(delta + delta_bias), rounded as stored.
template <bool IS_WIDE, typename T>
static __device__ __forceinline__ void add_delta(float value[8], const eight<T> &packed, const forward_args<T> &args,
                                                 int64_t row, int column) {
    int64_t columns = args.columns;
    float delta[8], bias[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    unpack8(delta, packed);
    if (args.delta_bias)
        load8(bias, args.delta_bias, column, columns, IS_WIDE);
#pragma unroll
    for (int i = 0; i < 8; i++)
        delta[i] += bias[i];
    dropout_apply<8>(delta, args.dropout, row, column);
#pragma unroll
    for (int i = 0; i < 8; i++)
        delta[i] += value[i];
    eight<T> sum;
    pack8(&sum, delta);
    unpack8(value, sum);
    T *to = args.sum + row * columns;
    if constexpr (IS_WIDE) {
#pragma unroll
        for (int i = 0; i < (int)sizeof sum / 16; i++)
            ((uint4 *)(to + column))[i] = sum.word[i];
    } else {
        store8(to, column, columns, false, value);
    }
}

// Eight elements of a row; those beyond it are zeros.
template <bool IS_WIDE, typename T>
static __device__ __forceinline__ eight<T> fetch_part(const T *row, int column, int columns, bool is_there) {
    return is_there && column < columns ? fetch8(row, column, columns, IS_WIDE) : eight<T>();
}

// Eight results of a row as E4M3; returns the larger of `seen` and their magnitudes.
template <typename T>
static __device__ __forceinline__ uint32_t store_float8(const forward_args<T> &args, int64_t row, int column,
                                                        const float value[8], float scale, uint32_t seen) {
    float stored[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        stored[i] = rounded<T>(value[i]);
        seen = max(seen, magnitude_bits(stored[i]));
    }
    *(uint2 *)(args.y8 + row * args.columns + column) =
        make_uint2(pack_float8(stored, scale, false), pack_float8(stored + 4, scale, false));
    return seen;
}

// Block (threads of a row, rows): thread x holds the columns 8 (x + blockDim.x * g) of its row, g < GROUPS. Up to 1024
// columns a row belongs to one warp, which needs no barrier.
template <typename T, int GROUPS, bool IS_WIDE>
static __global__ void __launch_bounds__(NORM_THREADS) norm_forward_kernel(forward_args<T> args) {
    // A thread's part of a row stays in registers, except for unaligned rows and long fp32 rows: they are rare, and
    // their loops are not unrolled.
    constexpr bool IS_RARE = GROUPS > 4 && !(IS_WIDE && sizeof(T) == 2);
    const int groups = IS_RARE ? args.groups : GROUPS;
    constexpr bool HAS_CODES = IS_WIDE && is_same<T, __nv_bfloat16>;
    __shared__ float3 shared[NORM_THREADS / 32];
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int columns = (int)args.columns;
    bool is_row = row < args.rows;
    uint32_t before = HAS_CODES && args.y8 ? range_seen(args.range) : 0;
    // All reads of a row are issued before the first is used, and before writes that may overwrite them.
    eight<T> x[GROUPS], delta[GROUPS];
#pragma unroll
    for (int g = 0; g < groups; g++) {
        int column = group_column(g);
        x[g] = fetch_part<IS_WIDE>(args.x + row * columns, column, columns, is_row);
        delta[g] = fetch_part<IS_WIDE>(args.delta + row * columns, column, columns, is_row && args.delta);
    }
    float value[GROUPS][8];
#pragma unroll
    for (int g = 0; g < groups; g++) {
        int column = group_column(g);
        unpack8(value[g], x[g]);
        if (args.delta && is_row && column < columns)
            add_delta<IS_WIDE>(value[g], delta[g], args, row, column);
    }
    float2 moments = row_moments<GROUPS, IS_WIDE>(value, groups, columns, args.is_rms, shared);
    float mean = moments.x, rstd = 1.0f / sqrtf(moments.y / (float)columns + args.epsilon);
    if (!is_row)
        return;
    if (threadIdx.x == 0) {
        if (!args.is_rms)
            args.mean[row] = mean;
        args.rstd[row] = rstd;
    }
    T *y = args.y + row * columns;
    uint32_t seen = 0;
    float scale = HAS_CODES && args.y8 ? args.range[RANGE_SCALE] : 0.0f;
#pragma unroll
    for (int g = 0; g < groups; g++) {
        int column = group_column(g);
        float gain[8], bias[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (column >= columns)
            break;
        load8(gain, args.gain, column, columns, IS_WIDE);
        if (args.bias)
            load8(bias, args.bias, column, columns, IS_WIDE);
#pragma unroll
        for (int i = 0; i < 8; i++)
            value[g][i] = (value[g][i] - mean) * rstd * (gain[i] + args.gain_offset) + bias[i];
        if (HAS_CODES && args.y8)
            seen = store_float8(args, row, column, value[g], scale, seen);
        else
            store8(y, column, columns, IS_WIDE, value[g]);
    }
    if (HAS_CODES && args.y8)
        range_see(args.range, before, seen);
}

template <typename T, int GROUPS, bool IS_WIDE>
static void launch(struct cuda_device *cuda, const forward_args<T> &args, unsigned threads) {
    unsigned rows = threads >= SHORT_THREADS ? 1 : SHORT_THREADS / threads;
    LAUNCH(cuda, (norm_forward_kernel<T, GROUPS, IS_WIDE>), grid_x(divide_up(args.rows, rows)), dim3(threads, rows), 0,
           args);
}

template <typename T> static void norm_forward(struct cuda_device *cuda, const struct op_norm_forward *op) {
    forward_args<T> args = {};
    args.rows = op->x.shape[0];
    args.columns = op->x.shape[1];
    args.is_rms = op->kind == NORM_RMS;
    bool is_float8 = dtype_is_float8(op->y.dtype);
    if (is_float8 && op->x.dtype != DTYPE_BF16)
        die("the CUDA backend stores norms of bf16 in fp8, not of %s", dtype_name(op->x.dtype));
    args.y = is_float8 ? NULL : (T *)op->y.data;
    args.y8 = is_float8 ? (uint8_t *)op->y.data : NULL;
    args.range = (float *)op->y_range.data;
    args.mean = (float *)op->mean.data;
    args.rstd = (float *)op->rstd.data;
    args.x = (const T *)op->x.data;
    args.gain = (const T *)op->gain.data;
    args.bias = (const T *)op->bias.data;
    args.delta = (const T *)op->delta.data;
    args.delta_bias = (const T *)op->delta_bias.data;
    args.sum = (T *)op->sum.data;
    args.gain_offset = op->gain_offset;
    args.epsilon = op->epsilon;
    args.dropout = cuda_dropout(&op->dropout);
    const struct tensor tensors[] = {op->y, op->x, op->gain, op->bias, op->delta, op->delta_bias, op->sum};
    bool is_wide = rows_are_wide(args.columns, tensors, sizeof tensors / sizeof tensors[0]);
    groups_of_row(args.columns);  // dies if a row is too long
    // Four groups per thread leave room for enough threads at once.
    unsigned threads = min(32 * (unsigned)divide_up(args.columns, 4 * 8 * 32), (unsigned)NORM_THREADS);
    int64_t groups = divide_up(args.columns, 8 * threads);
    args.groups = (int)groups;
    // A kernel with more groups than a row has gives the same results. Three are for rows of 768 and 1280 in 16 bits.
    constexpr int FEW = sizeof(T) == 2 ? 3 : 4;
    if (!is_wide)
        launch<T, MOST_GROUPS, false>(cuda, args, threads);
    else if (groups > 4)
        launch<T, MOST_GROUPS, true>(cuda, args, threads);
    else if (groups == FEW)
        launch<T, FEW, true>(cuda, args, threads);
    else
        launch<T, 4, true>(cuda, args, threads);
}

extern "C" void cuda_norm_forward(struct device *device, const struct op_norm_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->x) == 0)
        return;
    WITH_TYPE(op->x.dtype, T, norm_forward<T>(cuda, op));
}
