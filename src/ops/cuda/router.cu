// Routing: a warp per row of logits, which stay in registers. The K largest are taken one after the other; lane k then
// holds choice k.
#include "ops/cuda/router.cuh"

enum { ROUTE_WARPS = 4, COUNT_THREADS = 256, COUNT_SLOTS = 2048 };

struct route_args {
    int32_t *experts;                       // (N, K)
    float *weights, *dlogits;               // (N, K); (N, E)
    const float *logits, *bias, *dweights;  // (N, E); (E) or NULL; (N, K)
    int64_t rows;
    int expert_count, chosen;
    bool biases_logits;
    struct router_rule rule;
};

// Closes the experts of all but the best groups. `sums` is the warp's own memory for the groups' keys.
template <int ITEMS>
static __device__ __forceinline__ void close_groups(uint32_t keys[ITEMS], const float worth[ITEMS],
                                                    const struct route_args &args, uint32_t *sums) {
    int lane = threadIdx.x, groups = (int)args.rule.groups, size = args.expert_count / groups;
    int best = args.rule.group_best > 0 ? (int)args.rule.group_best : args.chosen / (int)args.rule.chosen_groups;
    uint32_t left[ITEMS];
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        left[i] = keys[i];
    for (int g = 0; g < groups; g++) {
        float sum = 0;
        for (int j = 0; j < best; j++)
            sum += router_value<ITEMS>(worth, router_take<ITEMS>(left, g * size, (g + 1) * size, lane), lane);
        if (lane == 0)
            sums[g] = router_key(sum);
    }
    __syncwarp();
    for (int j = 0; j < (int)args.rule.chosen_groups; j++) {
        uint32_t most = CLOSED, group = NO_EXPERT;
        for (int g = lane; g < groups; g += 32)
            if (sums[g] > most)
                most = sums[g], group = (uint32_t)g;
        uint32_t top = __reduce_max_sync(ALL_LANES, most);
        group = __reduce_min_sync(ALL_LANES, most == top ? group : NO_EXPERT);
        __syncwarp();
        if (lane == 0)
            sums[group] = CLOSED;  // marks it as chosen
        __syncwarp();
    }
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        if (lane + 32 * i < args.expert_count && sums[(lane + 32 * i) / size] != CLOSED)
            keys[i] = CLOSED;
}

// The weight of lane k's choice before the factor; 0 in the other lanes. `x` is the whole row, `logit` that of the
// choice. *divisor becomes the divisor of the scores.
template <int ITEMS>
static __device__ __forceinline__ float weight_of(enum router_score score, const float x[ITEMS], float logit,
                                                  bool is_chosen, int chosen, float *divisor) {
    *divisor = 1;
    if (score == ROUTER_SOFTMAX_ALL) {
        float most = -INFINITY, sum = 0;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++)
            most = fmaxf(most, x[i]);
        most = warp_max(most);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++)
            sum += expf(x[i] - most);
        sum = warp_sum(sum);
        return is_chosen ? expf(logit - most) / sum : 0.0f;
    }
    if (score == ROUTER_SOFTMAX) {
        float most = warp_max(is_chosen ? logit : -INFINITY);
        float e = is_chosen ? expf(logit - most) : 0.0f;
        return e / warp_sum(e);
    }
    float s = is_chosen ? router_score(score, logit) : 0.0f, sum = warp_sum(s);
    if (chosen > 1)
        *divisor = sum + ROUTER_EPSILON;
    return s / *divisor;
}

template <int ITEMS> static __global__ void route_forward_kernel(struct route_args args) {
    __shared__ uint32_t sums[ROUTE_WARPS][ROUTER_MOST_EXPERTS];
    int64_t row = (int64_t)blockIdx.x * ROUTE_WARPS + threadIdx.y;
    int lane = threadIdx.x, experts = args.expert_count, chosen = args.chosen, own = 0;
    if (row >= args.rows)
        return;
    float x[ITEMS], worth[ITEMS], divisor;
    uint32_t keys[ITEMS];
    router_load<ITEMS>(x, args.logits + row * experts, experts, lane);
    router_keys<ITEMS>(keys, x, experts, lane);
    if (args.bias || args.rule.groups > 0) {
        if (args.rule.score == ROUTER_SOFTMAX_ALL && !args.biases_logits)
            (void)router_softmax<ITEMS>(worth, x);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++) {
            int e = lane + 32 * i;
            if (args.biases_logits)
                worth[i] = x[i];
            else if (!router_is_softmax(args.rule.score))
                worth[i] = e < experts ? router_score(args.rule.score, x[i]) : 0.0f;
            else if (args.rule.score == ROUTER_SOFTMAX)
                worth[i] = x[i];
            if (args.bias && e < experts)
                worth[i] += args.bias[e];
        }
        if (args.bias)
            router_keys<ITEMS>(keys, worth, experts, lane);
        if (args.rule.groups > 0)
            close_groups<ITEMS>(keys, worth, args, sums[threadIdx.y]);
    }
    for (int k = 0; k < chosen; k++) {
        int expert = router_take<ITEMS>(keys, 0, experts, lane);
        own = lane == k ? expert : own;
    }
    bool is_chosen = lane < chosen;
    float logit = is_chosen ? args.logits[row * experts + own] : 0.0f;
    float weight = weight_of<ITEMS>(args.rule.score, x, logit, is_chosen, chosen, &divisor);
    if (is_chosen) {
        args.experts[row * chosen + lane] = own;
        args.weights[row * chosen + lane] = weight * args.rule.factor;
    }
}

template <int ITEMS> static __global__ void route_backward_kernel(struct route_args args) {
    int64_t row = (int64_t)blockIdx.x * ROUTE_WARPS + threadIdx.y;
    int lane = threadIdx.x, experts = args.expert_count, chosen = args.chosen;
    enum router_score score = args.rule.score;
    if (row >= args.rows)
        return;
    bool is_chosen = lane < chosen;
    float x[ITEMS], d[ITEMS], divisor;
    router_load<ITEMS>(x, args.logits + row * experts, experts, lane);
    int own = is_chosen ? args.experts[row * chosen + lane] : 0;
    float dweight = is_chosen ? args.dweights[row * chosen + lane] : 0.0f;
    float logit = is_chosen ? args.logits[row * experts + own] : 0.0f;
    float weight = weight_of<ITEMS>(score, x, logit, is_chosen, chosen, &divisor);
    bool is_divided = chosen > 1 || router_is_softmax(score);
    float mean = is_divided ? warp_sum(weight * dweight) : 0.0f, value = 0;
    if (is_chosen && score == ROUTER_SOFTMAX_ALL)
        value = weight * dweight;
    else if (is_chosen && score == ROUTER_SOFTMAX)
        value = weight * (dweight - mean);
    else if (is_chosen)
        value = (dweight - mean) / divisor * router_slope(score, logit);
    value *= args.rule.factor;
    if (score == ROUTER_SOFTMAX_ALL)
        (void)router_softmax<ITEMS>(d, x);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        d[i] = score == ROUTER_SOFTMAX_ALL ? -args.rule.factor * mean * d[i] : 0.0f;
    for (int k = 0; k < chosen; k++) {
        int expert = __shfl_sync(ALL_LANES, own, k);
        float part = __shfl_sync(ALL_LANES, value, k);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
        for (int i = 0; i < ITEMS; i++)
            if (lane + 32 * i == expert)
                d[i] += part;
    }
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        if (lane + 32 * i < experts)
            args.dlogits[row * experts + lane + 32 * i] = d[i];
}

// The slots of each expert in a chunk of COUNT_SLOTS: partial (chunks, E).
static __global__ void count_experts_kernel(int *partial, const int32_t *chosen, int64_t slots, int experts) {
    __shared__ int counts[ROUTER_MOST_EXPERTS];
    for (int e = threadIdx.x; e < experts; e += COUNT_THREADS)
        counts[e] = 0;
    __syncthreads();
    int64_t first = (int64_t)blockIdx.x * COUNT_SLOTS;
#pragma unroll
    for (int i = 0; i < COUNT_SLOTS / COUNT_THREADS; i++)
        if (first + i * COUNT_THREADS + threadIdx.x < slots)
            atomicAdd(&counts[chosen[first + i * COUNT_THREADS + threadIdx.x]], 1);
    __syncthreads();
    for (int e = threadIdx.x; e < experts; e += COUNT_THREADS)
        partial[(int64_t)blockIdx.x * experts + e] = counts[e];
}

// Block (32, 32) at 32 experts: adds up their chunks.
static __global__ void count_finish_kernel(float *counts, const int *partial, int64_t chunks, int experts) {
    __shared__ int shared[32][33];
    int e = blockIdx.x * 32 + threadIdx.x, sum = 0;
    for (int64_t i = threadIdx.y; i < chunks && e < experts; i += 32)
        sum += partial[i * experts + e];
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    e = blockIdx.x * 32 + threadIdx.y;
    sum = warp_sum(shared[threadIdx.x][threadIdx.y]);
    if (threadIdx.x == 0 && e < experts)
        counts[e] += (float)sum;
}

static void count_experts(struct cuda_device *cuda, float *counts, struct tensor chosen, int experts) {
    int64_t slots = tensor_count(chosen), chunks = divide_up(slots, COUNT_SLOTS);
    int *partial = (int *)cuda->scratch;
    CHECK(chunks * experts <= SCRATCH_FLOATS);
    LAUNCH(cuda, count_experts_kernel, grid_x(chunks), COUNT_THREADS, 0, partial, (const int32_t *)chosen.data, slots,
           experts);
    LAUNCH(cuda, count_finish_kernel, grid_x(divide_up(experts, 32)), dim3(32, 32), 0, counts, partial, chunks,
           experts);
}

static unsigned row_blocks(int64_t rows) {
    return grid_x(divide_up(rows, ROUTE_WARPS));
}

extern "C" void cuda_route_forward(struct device *device, const struct op_route_forward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct route_args args = {};
    args.experts = (int32_t *)op->experts.data;
    args.weights = (float *)op->weights.data;
    args.logits = (const float *)op->logits.data;
    args.bias = (const float *)op->bias.data;
    args.biases_logits = op->biases_logits;
    args.rows = op->logits.shape[0];
    args.expert_count = (int)op->logits.shape[1];
    args.chosen = (int)op->experts.shape[1];
    args.rule = op->rule;
    if (args.rows == 0)
        return;
    WITH_ITEMS(args.expert_count, ITEMS,
               LAUNCH(cuda, route_forward_kernel<ITEMS>, row_blocks(args.rows), dim3(32, ROUTE_WARPS), 0, args));
    if (op->counts.data)
        count_experts(cuda, (float *)op->counts.data, op->experts, args.expert_count);
}

extern "C" void cuda_route_backward(struct device *device, const struct op_route_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct route_args args = {};
    args.experts = (int32_t *)op->experts.data;
    args.dlogits = (float *)op->dlogits.data;
    args.dweights = (const float *)op->dweights.data;
    args.logits = (const float *)op->logits.data;
    args.rows = op->logits.shape[0];
    args.expert_count = (int)op->logits.shape[1];
    args.chosen = (int)op->experts.shape[1];
    args.rule = op->rule;
    if (args.rows > 0)
        WITH_ITEMS(args.expert_count, ITEMS,
                   LAUNCH(cuda, route_backward_kernel<ITEMS>, row_blocks(args.rows), dim3(32, ROUTE_WARPS), 0, args));
}
