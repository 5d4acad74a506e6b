// Balancing of experts. A warp per row of logits; a block adds up the rows of one piece of a sequence, and a second
// kernel the pieces, in an order that follows from shapes alone.
#include "ops/cuda/router.cuh"

enum { BALANCE_WARPS = 8, PIECE_ROWS = 64, FINISH_ROWS = 32, BIAS_THREADS = 256 };

struct balance_args {
    float *sums, *counts, *z;  // partial: (pieces, E), (pieces, E), (pieces); backward: unused
    float *dlogits;            // (N, E)
    const float *logits, *slopes, *by;
    int64_t rows, length;        // length: rows of a sequence
    int64_t pieces, piece_rows;  // of a sequence
    int experts, chosen;         // chosen: 0 if nothing is counted
    enum router_score score;
    float z_factor;
};

// Adds up the warps' sums, in order, into a row of partial sums.
template <int ITEMS>
static __device__ __forceinline__ void add_warps(float *out, const float x[ITEMS], float (*shared)[32 * ITEMS],
                                                 int experts) {
    int lane = threadIdx.x, warp = threadIdx.y;
    __syncthreads();
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        shared[warp][lane + 32 * i] = x[i];
    __syncthreads();
    for (int e = warp * 32 + lane; e < experts; e += 32 * BALANCE_WARPS) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < BALANCE_WARPS; i++)
            sum += shared[i][e];
        out[e] = sum;
    }
}

// Block (32, BALANCE_WARPS) at a piece.
template <int ITEMS> static __global__ void balance_forward_kernel(struct balance_args args) {
    __shared__ float shared[BALANCE_WARPS][32 * ITEMS], squares[BALANCE_WARPS];
    int lane = threadIdx.x, experts = args.experts;
    int64_t start = blockIdx.x / args.pieces * args.length, piece = blockIdx.x % args.pieces * args.piece_rows;
    int64_t end = min(piece + args.piece_rows, args.length);
    float sums[ITEMS], counts[ITEMS], z = 0;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        sums[i] = counts[i] = 0;
    for (int64_t n = piece + threadIdx.y; n < end; n += BALANCE_WARPS) {
        float x[ITEMS], p[ITEMS];
        router_load<ITEMS>(x, args.logits + (start + n) * experts, experts, lane);
        float lse = router_softmax<ITEMS>(p, x);
        z += lse * lse;
        if (!router_is_softmax(args.score))
            (void)router_shares<ITEMS>(p, x, args.score, experts, lane);
        uint32_t keys[ITEMS];
        if (args.chosen > 0)
            router_keys<ITEMS>(keys, x, experts, lane);
        for (int k = 0; k < args.chosen; k++) {
            int expert = router_take<ITEMS>(keys, 0, experts, lane);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
            for (int i = 0; i < ITEMS; i++)
                counts[i] += lane + 32 * i == expert ? 1.0f : 0.0f;
        }
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++)
            sums[i] += p[i];
    }
    add_warps<ITEMS>(args.sums + (int64_t)blockIdx.x * experts, sums, shared, experts);
    if (args.chosen > 0)
        add_warps<ITEMS>(args.counts + (int64_t)blockIdx.x * experts, counts, shared, experts);
    if (lane == 0)
        squares[threadIdx.y] = z;
    __syncthreads();
    if (lane == 0 && threadIdx.y == 0) {
        z = 0;
        for (int i = 0; i < BALANCE_WARPS; i++)
            z += squares[i];
        args.z[blockIdx.x] = z;
    }
}

// Block (32, FINISH_ROWS) at (32 experts, sequence): out (S, E) += the sums of its pieces.
static __global__ void balance_finish_kernel(float *out, const float *partial, int64_t pieces, int experts) {
    __shared__ float shared[FINISH_ROWS][33];
    int e = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int64_t i = threadIdx.y; i < pieces && e < experts; i += FINISH_ROWS)
        sum += partial[(blockIdx.y * pieces + i) * experts + e];
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    // Each warp finishes one expert.
    e = blockIdx.x * 32 + threadIdx.y;
    sum = warp_sum(shared[threadIdx.x][threadIdx.y]);
    if (threadIdx.x == 0 && e < experts)
        out[blockIdx.y * experts + e] += sum;
}

static __global__ void balance_squares_kernel(float *out, const float *partial, int64_t count) {
    __shared__ double shared[32];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        sum += (double)partial[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        *out += (float)sum;
}

static void finish_sums(struct cuda_device *cuda, struct tensor out, const float *partial, int64_t pieces) {
    dim3 grid(grid_x(divide_up(out.shape[1], 32)), grid_yz(out.shape[0]));
    LAUNCH(cuda, balance_finish_kernel, grid, dim3(32, FINISH_ROWS), 0, (float *)out.data, partial, pieces,
           (int)out.shape[1]);
}

extern "C" void cuda_balance_forward(struct device *device, const struct op_balance_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct balance_args args = {};
    int64_t sequences = op->sums.data ? op->sums.shape[0] : 1;
    args.logits = (const float *)op->logits.data;
    args.rows = op->logits.shape[0];
    args.length = args.rows / sequences;
    args.experts = (int)op->logits.shape[1];
    args.chosen = op->counts.data ? (int)op->chosen : 0;
    args.score = op->score;
    if (args.length == 0)
        return;
    int64_t room = SCRATCH_FLOATS / (sequences * (2 * args.experts + 1));
    CHECK(room >= 1);
    args.pieces = min(divide_up(args.length, PIECE_ROWS), room);
    args.piece_rows = divide_up(args.length, args.pieces);
    args.pieces = divide_up(args.length, args.piece_rows);
    int64_t blocks = sequences * args.pieces;
    args.sums = cuda->scratch;
    args.counts = args.sums + blocks * args.experts;
    args.z = args.counts + blocks * args.experts;
    WITH_ITEMS(args.experts, ITEMS,
               LAUNCH(cuda, balance_forward_kernel<ITEMS>, grid_x(blocks), dim3(32, BALANCE_WARPS), 0, args));
    if (op->sums.data)
        finish_sums(cuda, op->sums, args.sums, args.pieces);
    if (op->counts.data)
        finish_sums(cuda, op->counts, args.counts, args.pieces);
    if (op->z.data)
        LAUNCH(cuda, balance_squares_kernel, 1, BIAS_THREADS, 0, (float *)op->z.data, args.z, blocks);
}

template <int ITEMS> static __global__ void balance_backward_kernel(struct balance_args args) {
    int64_t row = (int64_t)blockIdx.x * BALANCE_WARPS + threadIdx.y;
    int lane = threadIdx.x, experts = args.experts;
    if (row >= args.rows)
        return;
    float x[ITEMS], p[ITEMS], d[ITEMS], slopes[ITEMS], by = args.by ? *args.by : 1.0f, mean = 0;
    router_load<ITEMS>(x, args.logits + row * experts, experts, lane);
    float lse = router_softmax<ITEMS>(p, x), divisor = 1;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        d[i] = args.z_factor != 0 ? args.z_factor * 2.0f * lse * p[i] : 0.0f;
    if (args.slopes) {
        bool is_softmax = router_is_softmax(args.score);
        if (!is_softmax)
            divisor = router_shares<ITEMS>(p, x, args.score, experts, lane);
        const float *from = args.slopes + row / args.length * experts;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++) {
            slopes[i] = lane + 32 * i < experts ? from[lane + 32 * i] : 0.0f;
            mean += lane + 32 * i < experts ? slopes[i] * p[i] : 0.0f;
        }
        mean = warp_sum(mean);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++)
            d[i] += (slopes[i] - mean) * (is_softmax ? p[i] : router_slope(args.score, x[i]) / divisor);
    }
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        if (lane + 32 * i < experts)
            args.dlogits[row * experts + lane + 32 * i] += by * d[i];
}

extern "C" void cuda_balance_backward(struct device *device, const struct op_balance_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct balance_args args = {};
    args.dlogits = (float *)op->dlogits.data;
    args.logits = (const float *)op->logits.data;
    args.slopes = (const float *)op->slopes.data;
    args.by = (const float *)op->by.data;
    args.rows = op->logits.shape[0];
    args.length = op->slopes.data ? args.rows / op->slopes.shape[0] : args.rows;
    args.experts = (int)op->logits.shape[1];
    args.score = op->score;
    args.z_factor = op->z_factor;
    if (args.rows > 0)
        WITH_ITEMS(args.experts, ITEMS,
                   LAUNCH(cuda, balance_backward_kernel<ITEMS>, grid_x(divide_up(args.rows, BALANCE_WARPS)),
                          dim3(32, BALANCE_WARPS), 0, args));
}

// A block per row. The sum of counts, whole numbers, is exact in double.
static __global__ void balance_bias_kernel(float *bias, const float *counts, int64_t experts, float rate) {
    __shared__ double shared[32];
    bias += blockIdx.x * experts;
    counts += blockIdx.x * experts;
    double sum = 0;
    for (int64_t e = threadIdx.x; e < experts; e += blockDim.x)
        sum += (double)counts[e];
    sum = block_sum(sum, shared);
    for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
        double missing = sum - (double)experts * (double)counts[e];
        bias[e] += missing > 0 ? rate : missing < 0 ? -rate : 0.0f;
    }
}

extern "C" void cuda_balance_bias(struct device *device, const struct op_balance_bias *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->bias) > 0)
        LAUNCH(cuda, balance_bias_kernel, grid_x(op->bias.shape[0]), BIAS_THREADS, 0, (float *)op->bias.data,
               (const float *)op->counts.data, op->bias.shape[1], op->rate);
}

// A block per row.
static __global__ void balance_load_kernel(float *load, const float *counts, int64_t experts) {
    __shared__ double shared[32];
    load += blockIdx.x * experts;
    counts += blockIdx.x * experts;
    double sum = 0;
    for (int64_t e = threadIdx.x; e < experts; e += blockDim.x)
        sum += (double)counts[e];
    sum = block_sum(sum, shared);
    for (int64_t e = threadIdx.x; e < experts && sum > 0; e += blockDim.x)
        load[e] = (float)((double)experts * (double)counts[e] / sum);
}

extern "C" void cuda_balance_load(struct device *device, const struct op_balance_load *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->load) > 0)
        LAUNCH(cuda, balance_load_kernel, grid_x(op->load.shape[0]), BIAS_THREADS, 0, (float *)op->load.data,
               (const float *)op->counts.data, op->load.shape[1]);
}
