// Sinkhorn's algorithm. A kernel is one pass over the rows: a warp per row adds up the contributions to each expert, a
// block the rows of its warps, and the block that finishes last adds up the blocks, in order, and updates d. Passes
// after the last one needed return at once, so the host need not wait.
#include "ops/cuda/router.cuh"

enum { SINKHORN_WARPS = 4, SINKHORN_BLOCKS = 128 };

// In the device's scratch memory, followed by `d` and `sums`.
struct sinkhorn_state {
    unsigned finished;  // blocks of this pass
    unsigned is_done;
};

struct sinkhorn_args {
    struct sinkhorn_state *state;
    double *d;     // (E)
    double *sums;  // (blocks, E)
    const float *logits;
    float *bias;
    int64_t rows;
    int experts;
};

static const double SINKHORN_SMALL = 1e-8, SINKHORN_TOLERANCE = 1e-4;

static __global__ void sinkhorn_begin_kernel(struct sinkhorn_args args) {
    if (threadIdx.x == 0)
        *args.state = {0, 0};
    for (int e = threadIdx.x; e < args.experts; e += blockDim.x)
        args.d[e] = 1;
}

// The last block: d from the sums of all blocks.
static __device__ void move_columns(const struct sinkhorn_args &args) {
    __shared__ double shared[32];
    int thread = threadIdx.y * 32 + threadIdx.x;
    double change = 0;
    for (int e = thread; e < args.experts; e += 32 * SINKHORN_WARPS) {
        double sum = 0;
        for (int i = 0; i < (int)gridDim.x; i++)
            sum += __ldcg(&args.sums[(int64_t)i * args.experts + e]);
        double next = 1 / (double)args.experts / (sum + SINKHORN_SMALL);
        change += fabs(next - args.d[e]);
        args.d[e] = next;
        args.bias[e] = (float)log(next);
    }
    change = warp_sum(change);
    if (threadIdx.x == 0)
        shared[threadIdx.y] = change;
    __syncthreads();
    if (thread == 0) {
        change = 0;
        for (int i = 0; i < SINKHORN_WARPS; i++)
            change += shared[i];
        args.state->finished = 0;
        args.state->is_done = !(change / (double)args.experts > SINKHORN_TOLERANCE);
    }
}

// Block (32, SINKHORN_WARPS).
template <int ITEMS> static __global__ void sinkhorn_kernel(struct sinkhorn_args args) {
    __shared__ double shared[SINKHORN_WARPS][32 * ITEMS];
    __shared__ bool is_last;
    if (args.state->is_done)
        return;
    int lane = threadIdx.x, experts = args.experts;
    double d[ITEMS], sums[ITEMS];
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++) {
        d[i] = lane + 32 * i < experts ? args.d[lane + 32 * i] : 0.0;
        sums[i] = 0;
    }
    for (int64_t n = (int64_t)blockIdx.x * SINKHORN_WARPS + threadIdx.y; n < args.rows;
         n += (int64_t)gridDim.x * SINKHORN_WARPS) {
        double c[ITEMS], sum = 0;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++) {
            c[i] = lane + 32 * i < experts ? exp((double)args.logits[n * experts + lane + 32 * i]) : 0.0;
            sum += d[i] * c[i];
        }
        double r = 1 / (double)args.rows / (warp_sum(sum) + SINKHORN_SMALL);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++)
            sums[i] += r * c[i];
    }
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        shared[threadIdx.y][lane + 32 * i] = sums[i];
    __syncthreads();
    int thread = threadIdx.y * 32 + lane;
    for (int e = thread; e < experts; e += 32 * SINKHORN_WARPS) {
        double sum = 0;
        for (int i = 0; i < SINKHORN_WARPS; i++)
            sum += shared[i][e];
        __stcg(&args.sums[(int64_t)blockIdx.x * experts + e], sum);
    }
    __threadfence();
    __syncthreads();
    if (thread == 0)
        is_last = atomicAdd(&args.state->finished, 1u) == gridDim.x - 1;
    __syncthreads();
    if (is_last) {
        __threadfence();
        move_columns(args);
    }
}

extern "C" void cuda_sinkhorn(struct device *device, const struct op_sinkhorn *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct sinkhorn_args args = {};
    int64_t room = (SCRATCH_BYTES - (int64_t)sizeof(struct sinkhorn_state)) / 8 / op->logits.shape[1] - 1;
    CHECK(room >= 1);
    args.rows = op->logits.shape[0];
    args.experts = (int)op->logits.shape[1];
    args.logits = (const float *)op->logits.data;
    args.bias = (float *)op->bias.data;
    args.state = (struct sinkhorn_state *)cuda->scratch;
    args.d = (double *)(args.state + 1);
    args.sums = args.d + args.experts;
    int64_t blocks = min(min(divide_up(args.rows, SINKHORN_WARPS), (int64_t)SINKHORN_BLOCKS), room);
    LAUNCH(cuda, sinkhorn_begin_kernel, 1, 256, 0, args);
    for (int i = 0; i < SINKHORN_MOST; i++)
        WITH_ITEMS(args.experts, ITEMS,
                   LAUNCH(cuda, sinkhorn_kernel<ITEMS>, grid_x(blocks), dim3(32, SINKHORN_WARPS), 0, args));
}
