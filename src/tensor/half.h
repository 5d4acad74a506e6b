// The 16-bit float types in plain integer arithmetic, exact on every machine: bf16 is the upper half of an fp32, fp16
// is IEEE's binary16. Numbers round to nearest, ties to even; NaN stays NaN. fp32 can represent all values of both.
#ifndef TENSOR_HALF_H
#define TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

// Always inlined, so that they are compiled for the same processor as the loop around them. CUDA compiles them too.
#ifdef __CUDACC__
#define HALF_INLINE static __host__ __device__ __forceinline__
#else
#define HALF_INLINE static inline __attribute__((always_inline))
#endif

HALF_INLINE uint32_t half_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

HALF_INLINE float half_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

HALF_INLINE float half_from_bf16(uint16_t half) {
    return half_bits_float((uint32_t)half << 16);
}

HALF_INLINE uint16_t half_to_bf16(float value) {
    uint32_t bits = half_float_bits(value);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

HALF_INLINE float half_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7FFFu;
    uint32_t normal = (magnitude << 13) + (magnitude >= 0x7C00u ? 0x70000000u : 0x38000000u);
    float small = (float)magnitude * 0x1p-24f;
    return half_bits_float(sign | (magnitude < 0x400u ? half_float_bits(small) : normal));
}

// Normal results: the exponent is rebiased and 13 bits are rounded away, carrying into the exponent if needed. Small
// results: adding 0.5 makes the addition itself round to multiples of 2^-24, the spacing of fp16's smallest numbers.
HALF_INLINE uint16_t half_to_f16(float value) {
    uint32_t bits = half_float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t small = half_float_bits(half_bits_float(magnitude < 0x38800000u ? magnitude : 0) + 0.5f) - 0x3F000000u;
    uint32_t result = magnitude < 0x38800000u ? small : magnitude < 0x477FF000u ? normal : 0x7C00u;
    result = magnitude > 0x7F800000u ? 0x7E00u : result;
    return (uint16_t)(sign | result);
}

// One of the two bf16 next to a finite fp32: the one farther from 0 if the fp32's rest is above `dice`, a number below
// 0x10000.
HALF_INLINE uint16_t half_to_bf16_by(float value, uint32_t dice) {
    uint32_t bits = half_float_bits(value);
    uint32_t diced = (bits + 0xFFFFu - dice) >> 16;
    return (bits & 0x7F800000u) == 0x7F800000u ? half_to_bf16(value) : (uint16_t)diced;
}

// 16 pseudo-random bits from two fp32.
HALF_INLINE uint32_t half_dice(float a, float b) {
    uint32_t x = half_float_bits(a) * 0x9E3779B1u ^ half_float_bits(b) * 0x85EBCA77u;
    x = (x ^ x >> 15) * 0x2C1B3C6Du;
    x = (x ^ x >> 12) * 0x297A2D39u;
    return x >> 16;
}

// An fp32 in two halves of 16 bits: the bf16 nearest to it and the rest, the difference of the bit patterns, which
// together restore the fp32. A pattern grows with its number's magnitude, so this holds for either sign, for subnormals
// and for numbers that round to infinity. The rest lies within -0x8000 and 0x8000. 16 bits hold all of these but
// 0x8000, a tie that was rounded towards zero: that fp32 is restored one last place nearer to zero. NaN has no rest and
// stays NaN.
HALF_INLINE int16_t half_rest(float value, uint16_t bf16) {
    uint32_t bits = half_float_bits(value);
    uint32_t rest = bits - ((uint32_t)bf16 << 16);
    rest = rest == 0x8000u ? 0x7FFFu : rest;
    return (int16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0 : rest);
}

HALF_INLINE float half_merge(uint16_t bf16, int16_t rest) {
    return half_bits_float(((uint32_t)bf16 << 16) + (uint32_t)(int32_t)rest);
}

#endif
