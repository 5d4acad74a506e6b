// Elementary functions as straight-line code without branches or tables, so that a loop over them becomes vector code.
// Errors are at most 2 units in the last place where the result is a normal number; infinities and NaN pass through.
#ifndef OPS_CPU_VECTOR_MATH_H
#define OPS_CPU_VECTOR_MATH_H

#include "ops/cpu/clones.h"
#include <stdint.h>
#include <string.h>

// 2^n for n in [-126, 127].
CPU_INLINE float vector_power_of_two(int32_t n) {
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

// e^x = 2^n * e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r by its Taylor series with the last coefficients
// adjusted for the interval. 2^n is applied in two halves, so that results near the ends of the range (n = 128, and
// numbers below the normal ones) come out right.
CPU_INLINE float vector_exp(float x) {
    const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 1.44269504f + shift;
    float n = shifted - shift;
    float r = x - n * 0.693145752f;  // ln 2, the high bits: n times it is exact
    r = r - n * 1.42860677e-6f;      // and the low ones
    float p = 1.38778101e-3f;
    p = p * r + 8.37312452e-3f;
    p = p * r + 4.16695364e-2f;
    p = p * r + 1.66664720e-1f;
    p = p * r + 4.99999851e-1f;
    p = p * r * r + r + 1.0f;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    int32_t power = bits - 0x4B400000;
    power = power < -150 ? -150 : power > 129 ? 129 : power;  // a NaN has arbitrary bits here
    int32_t half = power >> 1;
    return p * vector_power_of_two(half) * vector_power_of_two(power - half);
}

// GELU in its tanh form, 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), which equals x / (1 + e^(-2u)).
// That form keeps its relative precision for negative x. Beyond |x| = 10 the fraction is 0 or 1 to 37 digits; stopping
// there keeps e^(-2u) finite.
CPU_INLINE float vector_gelu_exp(float x) {
    return vector_exp(x * (-1.59576912f - 0.0713548163f * x * x));
}

CPU_INLINE float vector_gelu(float x) {
    x = x < -10.0f ? -10.0f : x;
    return x / (1.0f + vector_gelu_exp(x));
}

// d/dx of the above: s + x s (1 - s) 2u' with the fraction s = 1 / (1 + e) and 1 - s = e s.
CPU_INLINE float vector_gelu_gradient(float x) {
    x = x < -10.0f ? -10.0f : x;
    x = x > 10.0f ? 10.0f : x;
    float e = vector_gelu_exp(x), s = 1.0f / (1.0f + e);
    return s + x * s * (e * s) * (1.59576912f + 0.214064449f * x * x);
}

#endif
