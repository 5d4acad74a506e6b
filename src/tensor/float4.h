// E2M1, 4-bit floats in plain arithmetic: a sign, and one of the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4 and 6. They have
// neither infinity nor NaN. A byte holds two neighbours of a row, the first in its lower half.
#ifndef TENSOR_FLOAT4_H
#define TENSOR_FLOAT4_H

#include <math.h>
#include <stdint.h>

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
