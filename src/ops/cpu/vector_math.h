// Elementary functions as straight-line code without branches or tables, so that a loop over them becomes vector code.
// Errors are at most 2 units in the last place. NaN propagates, so that failures of a run are visible.
#ifndef OPS_CPU_VECTOR_MATH_H
#define OPS_CPU_VECTOR_MATH_H

#include "ops/cpu/kernel.h"
#include <stdint.h>
#include <string.h>

// The larger of two numbers in one instruction; if one is NaN, the result may be either.
CPU_INLINE float vector_max(float a, float b) {
#if defined(__aarch64__)
    return __builtin_fmaxf(a, b);
#else
    return a > b ? a : b;
#endif
}

// e^x for x <= 88 (guaranteed by every softmax and the functions below); 0 below -87.4, where results are subnormal.
// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r - 1 by a polynomial of degree 6.
CPU_INLINE float vector_exp(float x) {
    // 1.5 * 2^23 + 127: adding it rounds to an integer and leaves n + 127 in the low bits, where a shift makes it the
    // exponent of 2^n.
    const float shift = 12583039.0f;
    float shifted = x * 1.44269504f + shift;
    float n = shifted - shift;
    float r = x - n * 0.693145752f;  // ln 2, the high bits: n times it is exact
    r = r - n * 1.42860677e-6f;      // and the low ones
    float p = 1.38778101e-3f;
    p = p * r + 8.37312452e-3f;
    p = p * r + 4.16695364e-2f;
    p = p * r + 1.66664720e-1f;
    p = p * r + 4.99999851e-1f;
    p = p * (r * r) + r;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    float result = p * scale + scale;
    // A mask rather than ?:, which compilers turn into longer code here.
    uint32_t is_small = -(uint32_t)(x < -87.4f);
    memcpy(&bits, &result, sizeof bits);
    bits &= ~is_small;
    memcpy(&result, &bits, sizeof result);
    return result;
}

// GELU in its tanh form, 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), is x / (1 + e^(-2u)). Both
// functions work on a = |x|, where e = e^(-2u) cannot overflow: the fraction of x is 1 / (1 + e) for x and e / (1 + e)
// for -x, exact in relative terms on either side.
CPU_INLINE float vector_gelu_exp(float a) {
    return vector_exp(a * (-1.59576912f - 0.0713548163f * a * a));
}

CPU_INLINE float vector_gelu(float x) {
    float e = vector_gelu_exp(__builtin_fabsf(x));
    return x * (x < 0 ? e : 1.0f) / (1.0f + e);
}

// d/da of the above is g = s + a s (1 - s) 2u' with s = 1 / (1 + e) and 1 - s = e s; at -a it is 1 - g.
CPU_INLINE float vector_gelu_gradient(float x) {
    float a = __builtin_fabsf(x);
    float e = vector_gelu_exp(a), s = 1.0f / (1.0f + e);
    float g = s + a * s * (e * s) * (1.59576912f + 0.214064449f * a * a);
    return 0.5f + __builtin_copysignf(g - 0.5f, x);
}

// The exact GELU is x P(x) with P the normal distribution. Its tail P(-a) = erfc(a / sqrt 2) / 2 for a >= 0 is
// e^(-a a / 2) t Q(t) with t = 1 / (1 + 0.4 a / sqrt 2), smooth down to the smallest tails; Q, of degree 9, was
// fitted to a relative error of 1e-8. `gauss` is e^(-a a / 2).
CPU_INLINE float vector_normal_tail(float a, float gauss) {
    float t = 1.0f / (1.0f + 0.282842712f * a);
    float q = -0.0149946249f;
    q = q * t + 0.100081905f;
    q = q * t - 0.251941952f;
    q = q * t + 0.277111341f;
    q = q * t - 0.145016413f;
    q = q * t + 0.137560154f;
    q = q * t + 0.0643094565f;
    q = q * t + 0.107573783f;
    q = q * t + 0.112462186f;
    q = q * t + 0.112854171f;
    return gauss * t * q;
}

CPU_INLINE float vector_gelu_erf(float x) {
    float a = __builtin_fabsf(x), tail = vector_normal_tail(a, vector_exp(-0.5f * a * a));
    return x * (x < 0 ? tail : 1.0f - tail);
}

// P(x) + x P'(x).
CPU_INLINE float vector_gelu_erf_gradient(float x) {
    float a = __builtin_fabsf(x), gauss = vector_exp(-0.5f * a * a), tail = vector_normal_tail(a, gauss);
    return (x < 0 ? tail : 1.0f - tail) + x * gauss * 0.398942280f;
}

// SiLU is x s with s = 1 / (1 + e^(-x)); with e = e^(-|x|), s is 1 / (1 + e) for x and e / (1 + e) for -x.
CPU_INLINE float vector_logistic(float x) {
    float e = vector_exp(-__builtin_fabsf(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

CPU_INLINE float vector_silu(float x) {
    return x * vector_logistic(x);
}

// s + x s (1 - s), where 1 - s at x is s at -x.
CPU_INLINE float vector_silu_gradient(float x) {
    float e = vector_exp(-__builtin_fabsf(x)), part = 1.0f / (1.0f + e), other = e * part;
    float s = x < 0 ? other : part;
    return s + x * (part * other);
}

// tanh x by an odd polynomial near 0, fitted to 1e-8, and by (1 - e) / (1 + e) with e = e^(-2|x|) elsewhere.
CPU_INLINE float vector_tanh(float x) {
    float a = __builtin_fabsf(x), z = x * x, e = vector_exp(-2.0f * a);
    float p = -6.61575614e-3f;
    p = p * z + 2.13127455e-2f;
    p = p * z - 5.39100667e-2f;
    p = p * z + 1.33331176e-1f;
    p = p * z - 3.33333320e-1f;
    float near = p * (z * x) + x, far = __builtin_copysignf((1.0f - e) / (1.0f + e), x);
    return a < 0.55f ? near : far;
}

#endif
