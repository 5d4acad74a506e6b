// A row of logits in a warp, for routing and balancing: lane l holds experts l, l + 32, …, ITEMS of them; those beyond
// the last are -infinity and closed.
#ifndef OPS_CUDA_ROUTER_CUH
#define OPS_CUDA_ROUTER_CUH

#include "ops/cuda/lanes.cuh"

static const float ROUTER_EPSILON = 1e-20f;  // added to sums of scores before dividing by them
static const uint32_t ALL_LANES = 0xFFFFFFFFu, NO_EXPERT = 0xFFFFFFFFu;
static const uint32_t CLOSED = 0;  // a key that is smaller than all others

// Runs the statement with ITEMS as the number of experts per lane, or slightly more: experts beyond the last change
// nothing, and more kernels would take long to compile. Up to 256 experts, loops over a lane's experts are unrolled, so
// that they stay in registers.
#define WITH_ITEMS(experts_, ITEMS, ...)                                                                               \
    do {                                                                                                               \
        if ((experts_) <= 64) {                                                                                        \
            constexpr int ITEMS = 2;                                                                                   \
            __VA_ARGS__;                                                                                               \
        } else if ((experts_) <= 256) {                                                                                \
            constexpr int ITEMS = 8;                                                                                   \
            __VA_ARGS__;                                                                                               \
        } else if ((experts_) <= 512) {                                                                                \
            constexpr int ITEMS = 16;                                                                                  \
            __VA_ARGS__;                                                                                               \
        } else {                                                                                                       \
            constexpr int ITEMS = 32;                                                                                  \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    } while (0)

template <int ITEMS>
static __device__ __forceinline__ void router_load(float x[ITEMS], const float *row, int experts, int lane) {
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        x[i] = lane + 32 * i < experts ? row[lane + 32 * i] : -INFINITY;
}

// Maps numbers to integers in the same order, NaN above all. None is CLOSED.
static __device__ __forceinline__ uint32_t router_key(float x) {
    uint32_t bits = __float_as_uint(x != x ? INFINITY : x == 0 ? 0.0f : x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

template <int ITEMS>
static __device__ __forceinline__ void router_keys(uint32_t keys[ITEMS], const float x[ITEMS], int experts, int lane) {
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        keys[i] = lane + 32 * i < experts ? router_key(x[i]) : CLOSED;
}

// Returns and closes the expert with the largest key in [first, end); of equal ones the lowest.
template <int ITEMS>
static __device__ __forceinline__ int router_take(uint32_t keys[ITEMS], int first, int end, int lane) {
    uint32_t best = CLOSED, expert = NO_EXPERT;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++) {
        int e = lane + 32 * i;
        if (e >= first && e < end && keys[i] > best)
            best = keys[i], expert = (uint32_t)e;
    }
    uint32_t top = __reduce_max_sync(ALL_LANES, best);
    expert = __reduce_min_sync(ALL_LANES, best == top ? expert : NO_EXPERT);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        if ((uint32_t)(lane + 32 * i) == expert)
            keys[i] = CLOSED;
    return (int)expert;
}

// The value of an expert held by this lane.
template <int ITEMS> static __device__ __forceinline__ float router_value(const float x[ITEMS], int expert, int lane) {
    float value = 0;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        if (lane + 32 * i == expert)
            value = x[i];
    return __shfl_sync(ALL_LANES, value, expert & 31);
}

// p = softmax(x); returns logsumexp(x).
template <int ITEMS> static __device__ __forceinline__ float router_softmax(float p[ITEMS], const float x[ITEMS]) {
    float most = -INFINITY, sum = 0;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        most = fmaxf(most, x[i]);
    most = warp_max(most);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++) {
        p[i] = expf(x[i] - most);
        sum += p[i];
    }
    sum = warp_sum(sum);
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        p[i] /= sum;
    return most + logf(sum);
}

// Below -20, log(1 + e^x) is e^x in fp32; its root is then taken in the exponent, where it does not underflow.
static __device__ __forceinline__ float router_score(enum router_score score, float x) {
    if (score == ROUTER_SIGMOID)
        return 1.0f / (1.0f + expf(-x));
    return x < -20.0f ? expf(0.5f * x) : sqrtf(x > 20.0f ? x : log1pf(expf(x)));
}

static __device__ __forceinline__ float router_slope(enum router_score score, float x) {
    float e = expf(-fabsf(x)), part = 1.0f / (1.0f + e), other = e * part;
    if (score == ROUTER_SIGMOID)
        return part * other;
    float s = router_score(score, x);
    return x < -20.0f ? 0.5f * s : 0.5f * (x < 0 ? other : part) / s;
}

// p = scores / (their sum + epsilon); returns that divisor.
template <int ITEMS>
static __device__ __forceinline__ float router_shares(float p[ITEMS], const float x[ITEMS], enum router_score score,
                                                      int experts, int lane) {
    float sum = 0;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++) {
        p[i] = lane + 32 * i < experts ? router_score(score, x[i]) : 0.0f;
        sum += p[i];
    }
    sum = warp_sum(sum) + ROUTER_EPSILON;
#pragma unroll(ITEMS <= 8 ? ITEMS : 1)
    for (int i = 0; i < ITEMS; i++)
        p[i] /= sum;
    return sum;
}

static __device__ __forceinline__ bool router_is_softmax(enum router_score score) {
    return score == ROUTER_SOFTMAX || score == ROUTER_SOFTMAX_ALL;
}

#endif
