// The functions of enum activation and their slopes, for kernels.
#ifndef OPS_CUDA_ACTIVATION_CUH
#define OPS_CUDA_ACTIVATION_CUH

#include "ops/cuda/cuda.cuh"

static const float ROOT_1_OVER_2PI = 0.3989422804f;  // of the normal density at 0
static const float QUICK_GELU = 1.702f;
static const float LOG2_OF_E = 1.4426950409f;

// 1 / (1 + 2^x); for 16 bits with an error of about 1e-7, in three instructions: what computes activations is bound by
// computation as much as by memory.
template <typename T> static __device__ __forceinline__ float share(float x) {
    if (sizeof(T) == sizeof(float))
        return 1.0f / (1.0f + exp2f(x));
    float power, result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
    return result;
}

static __device__ __host__ __forceinline__ bool is_logistic(enum activation activation) {
    return activation == ACTIVATION_SILU || activation == ACTIVATION_QUICK_GELU;
}

// Value and slope of SiLU or the quick GELU.
template <typename T> static __device__ __forceinline__ float2 logistic_at(enum activation activation, float x) {
    float factor = activation == ACTIVATION_SILU ? 1.0f : QUICK_GELU, s = share<T>(-LOG2_OF_E * factor * x);
    return make_float2(x * s, s + factor * x * s * (1.0f - s));
}

static_assert(ACTIVATION_COUNT == 7, "activation_at needs a case for each activation; the default is tanh");

// Value and slope of an activation at x. GELU in its tanh form is x times the logistic function of a x + b x^3.
template <typename T> static __device__ __forceinline__ float2 activation_at(enum activation activation, float x) {
    switch (activation) {
    case ACTIVATION_GELU_TANH: {
        const float a = 1.5957691216f, b = 0.044715f * a;  // a: 2 sqrt(2 / pi)
        float s = share<T>(x * (-LOG2_OF_E * a - LOG2_OF_E * b * (x * x)));
        return make_float2(x * s, s + s * (1.0f - s) * (x * (a + 3.0f * b * (x * x))));
    }
    case ACTIVATION_GELU: {
        float below = normcdff(x);
        return make_float2(x * below, below + x * ROOT_1_OVER_2PI * expf(-0.5f * x * x));
    }
    case ACTIVATION_RELU:
        return make_float2(x < 0 ? 0.0f : x, x > 0 ? 1.0f : 0.0f);
    case ACTIVATION_SQUARED_RELU:
        return make_float2(x < 0 ? 0.0f : x * x, x > 0 ? 2.0f * x : 0.0f);
    case ACTIVATION_SILU:
    case ACTIVATION_QUICK_GELU:
        return logistic_at<T>(activation, x);
    default: {
        float t = tanhf(x);
        return make_float2(t, 1.0f - t * t);
    }
    }
}

// Numbers, then values and slopes there.
struct eight_gates {
    float x[8], slope[8];
};

// Not inlined, and two numbers at a time: the cases of all activations, unrolled for each number of each kernel, took
// most of the compile time. Kernels have code of their own for common activations.
template <typename T> static __device__ __noinline__ eight_gates any_gates(enum activation activation, eight_gates at) {
#pragma unroll 1
    for (int n = 0; n < 4; n++) {
        float2 first = activation_at<T>(activation, at.x[0]), second = activation_at<T>(activation, at.x[1]);
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

#endif
