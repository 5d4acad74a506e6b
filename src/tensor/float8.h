// The fp8 types in plain arithmetic, exact on every machine. E4M3 has 4 bits of exponent and 3 of mantissa,
// reaches 448 and has no infinity; E5M2 has 5 and 2 bits and reaches 57344. Numbers round to nearest, ties to even;
// those beyond the largest, including infinities, become the largest; NaN stays NaN. fp32 can represent all values of
// both.
#ifndef TENSOR_FLOAT8_H
#define TENSOR_FLOAT8_H

#include "tensor/half.h"
#include "tensor/tensor.h"

#include <math.h>

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

#endif
