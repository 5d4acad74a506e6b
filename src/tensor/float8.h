// The types of 8 and of 4 bits in plain arithmetic, exact on every machine.
//
// E4M3 has 4 bits of exponent and 3 of mantissa, reaches 448 and has no infinity; E5M2 has 5 and 2 bits and reaches
// 57344. Numbers round to nearest, ties to even; those beyond the largest, including infinities, become the largest;
// NaN stays NaN. fp32 can represent all values of both.
#ifndef TENSOR_FLOAT8_H
#define TENSOR_FLOAT8_H

#include "tensor/half.h"
#include "tensor/tensor.h"
#include <math.h>
#include <stdint.h>

struct float8_kind {
    int mantissa, bias;
    float largest;
    uint8_t largest_code, nan_code;
};

static inline struct float8_kind float8_kind(enum dtype dtype) {
    return dtype == DTYPE_E4M3 ? (struct float8_kind){3, 7, 448.0f, 0x7E, 0x7F}
                               : (struct float8_kind){2, 15, 57344.0f, 0x7B, 0x7F};
}

static inline uint8_t float8_encode(enum dtype dtype, float value) {
    struct float8_kind kind = float8_kind(dtype);
    uint32_t bits = half_float_bits(value), magnitude = bits & 0x7FFFFFFFu;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
    if (magnitude > 0x7F800000u)
        return sign | kind.nan_code;
    float size = half_bits_float(magnitude);
    if (size >= kind.largest)
        return sign | kind.largest_code;
    // Below the smallest normal number the spacing is constant.
    if (size < ldexpf(1, 1 - kind.bias))
        return sign | (uint8_t)lrintf(ldexpf(size, kind.bias - 1 + kind.mantissa));
    int shift = 23 - kind.mantissa;
    uint32_t rounded = magnitude + (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1u);
    return sign | (uint8_t)((rounded >> shift) - ((uint32_t)(127 - kind.bias) << kind.mantissa));
}

static inline float float8_decode(enum dtype dtype, uint8_t code) {
    struct float8_kind kind = float8_kind(dtype);
    int magnitude = code & 0x7F, exponent = magnitude >> kind.mantissa, units = magnitude & ((1 << kind.mantissa) - 1);
    float size = 0;
    if (magnitude > kind.largest_code)
        size = dtype == DTYPE_E5M2 && magnitude == 0x7C ? INFINITY : NAN;
    else if (exponent == 0)
        size = ldexpf((float)units, 1 - kind.bias - kind.mantissa);
    else
        size = ldexpf((float)(units + (1 << kind.mantissa)), exponent - kind.bias - kind.mantissa);
    return code & 0x80 ? -size : size;
}

// ---- 4 bits ----

// E2M1: a sign, and one of the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4 and 6, neither infinity nor NaN. A byte holds two
// neighbours of a row, the first in its lower half.

#define FLOAT4_LARGEST 6.0f

static inline float float4_decode(unsigned code) {
    static const float sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -sizes[code & 7] : sizes[code & 7];
}

// The code of the largest magnitude that is not above `size`.
static inline unsigned float4_below(float size) {
    static const float sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    unsigned code = 0;
    for (int i = 1; i < 8; i++)
        code += sizes[i] <= size;
    return code;
}

// To nearest, ties to the even code. Numbers beyond the largest, including infinities, become the largest; NaN is 0.
static inline unsigned float4_encode(float value) {
    unsigned sign = signbit(value) ? 8 : 0, code = float4_below(fabsf(value));
    if (isnan(value))
        return 0;
    if (code == 7)
        return sign | code;
    float middle = 0.5f * (float4_decode(code) + float4_decode(code + 1)), size = fabsf(value);
    return sign | (size > middle || (size == middle && code % 2 == 1) ? code + 1 : code);
}

// Stochastic rounding to one of the two neighbours; the expectation is the number itself. `drawn` is uniform below
// 65536.
static inline unsigned float4_encode_randomly(float value, unsigned drawn) {
    unsigned sign = signbit(value) ? 8 : 0, code = float4_below(fabsf(value));
    if (isnan(value))
        return 0;
    if (code == 7)
        return sign | code;
    float low = float4_decode(code), share = (fabsf(value) - low) / (float4_decode(code + 1) - low);
    return sign | (share * 65536.0f > (float)drawn ? code + 1 : code);
}

#endif
