// Positions in attention: rotary angles on queries and keys, and T5's table of biases by distance.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/lanes.cuh"
extern "C" {
#include "ops/formulas.h"
}

enum { ROPE_THREADS = 256, MOST_PAIRS = MOST_HEAD_SIZE / 2 };

struct rope_args {
    void *x;
    int64_t batch, time, head;  // strides, in elements
    const int32_t *positions;
    int64_t rows, tokens;
    int heads, pairs;
    bool is_interleaved, is_inverse;
    float factor;
    double turns[MOST_PAIRS];  // whole turns from one position to the next
};

// The sines and cosines of a row's pairs, computed once for all heads. Ends with a barrier.
static __device__ __forceinline__ void turn_angles(const struct rope_args &args, int64_t row, float *sine,
                                                   float *cosine) {
    for (int pair = threadIdx.x; pair < args.pairs; pair += blockDim.x) {
        double turns = (double)args.positions[row] * args.turns[pair];
        sincospif((float)(2 * (turns - rint(turns))), &sine[pair], &cosine[pair]);
        sine[pair] *= args.is_inverse ? -args.factor : args.factor;
        cosine[pair] *= args.factor;
    }
    __syncthreads();
}

// A block per row: every thread rotates pairs of single channels.
template <typename T> static __global__ void rope_kernel(struct rope_args args) {
    __shared__ float sine[MOST_PAIRS], cosine[MOST_PAIRS];
    int64_t row = blockIdx.x;
    T *x = (T *)args.x + row / args.tokens * args.batch + row % args.tokens * args.time;
    turn_angles(args, row, sine, cosine);
    for (int i = threadIdx.x; i < args.heads * args.pairs; i += blockDim.x) {
        int pair = i % args.pairs;
        int first = args.is_interleaved ? 2 * pair : pair, second = args.is_interleaved ? first + 1 : pair + args.pairs;
        T *at = x + i / args.pairs * args.head;
        float a = to_float(at[first]), b = to_float(at[second]);
        store(at + first, a * cosine[pair] - b * sine[pair]);
        store(at + second, b * cosine[pair] + a * sine[pair]);
    }
}

// Eight neighbouring pairs of a head, whose halves are aligned to 16 bytes.
template <typename T> struct rope_part {
    T *at;
    eight<T> low, high;
    int pair;
};

// Starts the reads of the part with this number; does nothing if there is none.
template <typename T>
static __device__ __forceinline__ void rope_fetch(rope_part<T> *part, const struct rope_args &args, T *x, int number) {
    int groups = args.pairs / 8, head = number / groups;
    if (head >= args.heads)
        return;
    part->pair = 8 * (number % groups);
    part->at = x + head * args.head + part->pair;
    part->low = fetch8(part->at, 0, 8, true);
    part->high = fetch8(part->at + args.pairs, 0, 8, true);
}

template <typename T>
static __device__ __forceinline__ void rope_turn(const rope_part<T> &part, int pairs, const float *sine,
                                                 const float *cosine) {
    float a[8], b[8], s[8], c[8], low[8], high[8];
    unpack8(a, part.low);
    unpack8(b, part.high);
    load8(s, sine, part.pair, pairs, true);
    load8(c, cosine, part.pair, pairs, true);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        low[i] = a[i] * c[i] - b[i] * s[i];
        high[i] = b[i] * c[i] + a[i] * s[i];
    }
    store8(part.at, 0, 8, true, low);
    store8(part.at + pairs, 0, 8, true, high);
}

// A block per row. A thread's first part, often its only one, is being read while the angles are computed.
template <typename T> static __global__ void __launch_bounds__(ROPE_THREADS) rope_wide_kernel(struct rope_args args) {
    __shared__ __align__(16) float sine[MOST_PAIRS], cosine[MOST_PAIRS];
    int64_t row = blockIdx.x;
    int count = args.heads * (args.pairs / 8);
    T *x = (T *)args.x + row / args.tokens * args.batch + row % args.tokens * args.time;
    rope_part<T> part;
    rope_fetch(&part, args, x, threadIdx.x);
    turn_angles(args, row, sine, cosine);
    for (int number = threadIdx.x; number < count; number += blockDim.x) {
        rope_turn(part, args.pairs, sine, cosine);
        rope_fetch(&part, args, x, number + blockDim.x);
    }
}

extern "C" void cuda_rope(struct device *device, const struct op_rope *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct rope_args args = {};
    args.x = op->x.data;
    args.batch = op->x.stride[0];
    args.time = op->x.stride[1];
    args.head = op->x.stride[2];
    args.positions = (const int32_t *)op->positions.data;
    args.rows = op->x.shape[0] * op->x.shape[1];
    args.tokens = op->x.shape[1];
    args.heads = (int)op->x.shape[2];
    args.pairs = (int)op->pairs;
    args.is_interleaved = op->is_interleaved;
    args.is_inverse = op->is_inverse;
    args.factor = op->factor == 0.0f ? 1.0f : op->factor;
    if (args.pairs > MOST_PAIRS)
        die("rotary positions: %d pairs of channels are beyond the %d of the CUDA backend", args.pairs,
            (int)MOST_PAIRS);
    for (int i = 0; i < args.pairs; i++)
        args.turns[i] = op->frequencies[i] / (2 * 3.14159265358979323846);
    if (args.rows == 0 || args.heads == 0)
        return;
    bool is_wide = !args.is_interleaved && args.pairs % 8 == 0 && (uintptr_t)args.x % 16 == 0 && args.batch % 8 == 0 &&
                   args.time % 8 == 0 && args.head % 8 == 0;
    int64_t items = (int64_t)args.heads * (is_wide ? args.pairs / 8 : args.pairs);
    unsigned threads = (unsigned)min((int64_t)ROPE_THREADS, divide_up(max(items, (int64_t)args.pairs), 32) * 32);
    WITH_TYPE(op->x.dtype, T, {
        if (is_wide)
            LAUNCH(cuda, rope_wide_kernel<T>, grid_x(args.rows), threads, 0, args);
        else
            LAUNCH(cuda, rope_kernel<T>, grid_x(args.rows), threads, 0, args);
    });
}

struct relative_args {
    float *bias;         // forward: (H, W)
    const void *table;   // forward: (buckets, H)
    float *dtable;       // backward: (buckets, H)
    const float *dbias;  // backward: (B, H, W)
    int64_t batches, heads, width;
    struct relative_rule rule;
    struct relative_borders borders;
};

static __device__ int64_t bucket_of(const struct relative_args &args, int64_t distance) {
    bool is_after = distance > 0, both = args.rule.is_bidirectional;
    int64_t far = is_after ? (both ? distance : 0) : -distance, bucket = 0;
    while (bucket + 1 < args.borders.side && far >= args.borders.first[bucket + 1])
        bucket++;
    return bucket + (both && is_after ? args.borders.side : 0);
}

// Grid (columns, heads).
template <typename T> static __global__ void relative_forward_kernel(struct relative_args args) {
    int64_t w = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y;
    if (w >= args.width)
        return;
    int64_t bucket = bucket_of(args, args.rule.first_distance + w);
    args.bias[head * args.width + w] = to_float(((const T *)args.table)[bucket * args.heads + head]);
}

// A block per (bucket, head) adds up the columns that fall into its bucket, always in the same order.
static __global__ void relative_backward_kernel(struct relative_args args) {
    __shared__ float shared[32];
    int64_t bucket = blockIdx.x, head = blockIdx.y;
    float sum = 0;
    for (int64_t w = threadIdx.x; w < args.width; w += blockDim.x) {
        if (bucket_of(args, args.rule.first_distance + w) != bucket)
            continue;
        for (int64_t b = 0; b < args.batches; b++)
            sum += args.dbias[(b * args.heads + head) * args.width + w];
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        args.dtable[bucket * args.heads + head] += sum;
}

extern "C" void cuda_relative_bias_forward(struct device *device, const struct op_relative_bias_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct relative_args args = {};
    args.bias = (float *)op->bias.data;
    args.table = op->table.data;
    args.heads = op->bias.shape[0];
    args.width = op->bias.shape[1];
    args.rule = op->rule;
    relative_borders(&args.borders, &op->rule);
    dim3 grid(grid_x(divide_up(args.width, 256)), grid_yz(args.heads));
    WITH_TYPE(op->table.dtype, T, LAUNCH(cuda, relative_forward_kernel<T>, grid, 256, 0, args));
}

extern "C" void cuda_relative_bias_backward(struct device *device, const struct op_relative_bias_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct relative_args args = {};
    args.dtable = (float *)op->dtable.data;
    args.dbias = (const float *)op->dbias.data;
    args.batches = op->dbias.shape[0];
    args.heads = op->dbias.shape[1];
    args.width = op->dbias.shape[2];
    args.rule = op->rule;
    relative_borders(&args.borders, &op->rule);
    dim3 grid(grid_x(op->rule.buckets), grid_yz(args.heads));
    LAUNCH(cuda, relative_backward_kernel, grid, 128, 0, args);
}

struct alibi_args {
    float *bias;  // (H, W)
    int64_t width, heads, first_head, first_distance;
    float scale;
};

// Grid (columns, heads).
static __global__ void alibi_kernel(struct alibi_args args) {
    int64_t w = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y;
    if (w >= args.width)
        return;
    int64_t distance = args.first_distance + w;
    float slope = args.scale * alibi_slope(args.first_head + head, args.heads);
    args.bias[head * args.width + w] = -slope * (float)(distance < 0 ? -distance : distance);
}

extern "C" void cuda_alibi(struct device *device, const struct op_alibi *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct alibi_args args = {};
    args.bias = (float *)op->bias.data;
    args.width = op->bias.shape[1];
    args.heads = op->heads;
    args.first_head = op->first_head;
    args.first_distance = op->first_distance;
    args.scale = op->scale;
    dim3 grid(grid_x(divide_up(args.width, 256)), grid_yz(op->bias.shape[0]));
    LAUNCH(cuda, alibi_kernel, grid, 256, 0, args);
}
