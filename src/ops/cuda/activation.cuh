// The functions of enum activation and their slopes, for kernels.
#ifndef OPS_CUDA_ACTIVATION_CUH
#define OPS_CUDA_ACTIVATION_CUH

#include "ops/cuda/cuda.cuh"

static const float SQRT_2_OVER_PI = 0.7978845608f;
static const float TWICE_SQRT_2_OVER_PI = 1.5957691216f;
static const float ROOT_1_OVER_2PI = 0.3989422804f;  // of the normal density at 0
static const float GELU_CUBIC = 0.044715f;           // of the tanh form
static const float QUICK_GELU = 1.702f;

static_assert(ACTIVATION_COUNT == 7, "value_of and slope_of need a case for each activation; the default is tanh");

static __device__ __forceinline__ float tanh_argument(float x) {
    return SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x);
}

static __device__ __forceinline__ float value_of(enum activation activation, float x) {
    switch (activation) {
    case ACTIVATION_GELU_TANH:
        return 0.5f * x * (1.0f + tanhf(tanh_argument(x)));
    case ACTIVATION_GELU:
        return x * normcdff(x);
    case ACTIVATION_RELU:
        return x < 0 ? 0.0f : x;
    case ACTIVATION_SQUARED_RELU:
        return x < 0 ? 0.0f : x * x;
    case ACTIVATION_SILU:
        return x / (1.0f + expf(-x));
    case ACTIVATION_QUICK_GELU:
        return x / (1.0f + expf(-QUICK_GELU * x));
    default:
        return tanhf(x);
    }
}

static __device__ __forceinline__ float slope_of(enum activation activation, float x) {
    switch (activation) {
    case ACTIVATION_GELU_TANH: {
        float t = tanhf(tanh_argument(x));
        return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBIC * x * x);
    }
    case ACTIVATION_GELU:
        return normcdff(x) + x * ROOT_1_OVER_2PI * expf(-0.5f * x * x);
    case ACTIVATION_RELU:
        return x > 0 ? 1.0f : 0.0f;
    case ACTIVATION_SQUARED_RELU:
        return x > 0 ? 2.0f * x : 0.0f;
    case ACTIVATION_SILU: {
        float s = 1.0f / (1.0f + expf(-x));
        return s + x * s * (1.0f - s);
    }
    case ACTIVATION_QUICK_GELU: {
        float s = 1.0f / (1.0f + expf(-QUICK_GELU * x));
        return s + QUICK_GELU * x * s * (1.0f - s);
    }
    default: {
        float t = tanhf(x);
        return 1.0f - t * t;
    }
    }
}

// ---- Any activation ---- Values and slopes of several numbers at once. Not inlined, and two numbers at a time: the
// cases of all activations, unrolled for each number of each kernel, took most of the compile time. Kernels have code
// of their own for fast, common activations.

template <int N> struct several { float x[N]; };

template <int N, typename F> static __device__ __forceinline__ several<N> by_pairs(several<N> at, const F &function) {
#pragma unroll 1
    for (int n = 0; n < N / 2; n++) {
        float first = function(at.x[0]), second = function(at.x[1]);
#pragma unroll
        for (int i = 0; i < N - 2; i++)
            at.x[i] = at.x[i + 2];
        at.x[N - 2] = first;
        at.x[N - 1] = second;
    }
    return at;
}

template <int N> static __device__ __noinline__ several<N> any_values(enum activation activation, several<N> at) {
    return by_pairs(at, [&](float x) { return value_of(activation, x); });
}

template <int N> static __device__ __noinline__ several<N> any_slopes(enum activation activation, several<N> at) {
    return by_pairs(at, [&](float x) { return slope_of(activation, x); });
}

// Value and slope, which share exponentials.
static __device__ __forceinline__ float2 both_of(enum activation activation, float x) {
#define BOTH(activation_)                                                                                              \
    case activation_:                                                                                                  \
        return make_float2(value_of(activation_, x), slope_of(activation_, x))
    switch (activation) {
        BOTH(ACTIVATION_GELU_TANH);
        BOTH(ACTIVATION_GELU);
        BOTH(ACTIVATION_RELU);
        BOTH(ACTIVATION_SQUARED_RELU);
        BOTH(ACTIVATION_SILU);
        BOTH(ACTIVATION_QUICK_GELU);
    default:
        return make_float2(value_of(ACTIVATION_COUNT, x), slope_of(ACTIVATION_COUNT, x));
    }
#undef BOTH
}

struct eight_gates {
    float x[8], slope[8];
};

template <typename F> static __device__ __forceinline__ eight_gates gates_by_pairs(eight_gates at, const F &function) {
#pragma unroll 1
    for (int n = 0; n < 4; n++) {
        float2 first = function(at.x[0]), second = function(at.x[1]);
#pragma unroll
        for (int i = 0; i < 6; i++) {
            at.x[i] = at.x[i + 2];
            at.slope[i] = at.slope[i + 2];
        }
        at.x[6] = first.x, at.x[7] = second.x;
        at.slope[6] = first.y, at.slope[7] = second.y;
    }
    return at;
}

static __device__ __noinline__ eight_gates any_gates(enum activation activation, eight_gates at) {
    return gates_by_pairs(at, [&](float x) { return both_of(activation, x); });
}

// The logistic function; for bf16 with the fast exponential, whose error is about 1e-6.
template <typename T> static __device__ __forceinline__ float logistic(float x) {
    return 1.0f / (1.0f + expf(-x));
}

template <> __device__ __forceinline__ float logistic<__nv_bfloat16>(float x) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

template <> __device__ __forceinline__ float logistic<__half>(float x) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

// The halves of a gated unit by its rule; NaN passes through.
static __device__ __forceinline__ float glu_gate(struct glu_rule rule, float gate) {
    return rule.limit > 0 && gate > rule.limit ? rule.limit : gate;
}

static __device__ __forceinline__ float glu_up(struct glu_rule rule, float up) {
    float limit = rule.limit > 0 ? rule.limit : INFINITY, least = up < -limit ? -limit : up;
    return (least > limit ? limit : least) + rule.offset;
}

// Whether the halves have gradients, before they are prepared.
static __device__ __forceinline__ bool glu_gate_moves(struct glu_rule rule, float gate) {
    return !(rule.limit > 0 && gate > rule.limit);
}

static __device__ __forceinline__ bool glu_up_moves(struct glu_rule rule, float up) {
    return !(rule.limit > 0 && (up > rule.limit || up < -rule.limit));
}

// GELU in its tanh form is x times the logistic function of 2 u, u = sqrt(2 / pi) (x + 0.044715 x^3).
template <typename T> static __device__ __forceinline__ float gelu_tanh(float x) {
    return x * logistic<T>(TWICE_SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x));
}

template <typename T> static __device__ __forceinline__ float gelu_tanh_gradient(float x) {
    float s = logistic<T>(TWICE_SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x));
    return s + x * s * (1.0f - s) * TWICE_SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBIC * x * x);
}

// Value and slope of the gate's activation; those of SiLU and of the quick GELU share an exponential.
static __device__ __host__ __forceinline__ bool is_logistic(enum activation activation) {
    return activation == ACTIVATION_SILU || activation == ACTIVATION_QUICK_GELU;
}

template <typename T> static __device__ __forceinline__ float2 logistic_gate(enum activation activation, float x) {
    float factor = activation == ACTIVATION_SILU ? 1.0f : QUICK_GELU, s = logistic<T>(factor * x);
    return make_float2(x * s, s + factor * x * s * (1.0f - s));
}

template <typename T> static __device__ __forceinline__ float2 gate_at(enum activation activation, float x) {
    return is_logistic(activation) ? logistic_gate<T>(activation, x) : both_of(activation, x);
}

#endif
