// Conversions between float types in plain integer arithmetic, exact on every machine. Every conversion goes through
// fp32, which holds all values of the other two.
#include "ops/cpu/convert.h"
#include "ops/cpu/clones.h"
#include "base/error.h"
#include <string.h>

CPU_INLINE uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CPU_INLINE float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

CPU_INLINE uint16_t bf16_of(float value) {
    uint32_t bits = float_bits(value);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

// Normal results: the exponent is rebiased and 13 bits are rounded away, carrying into the exponent where needed. Small
// ones: adding 0.5 makes the addition itself round to multiples of 2^-24, the spacing of fp16's smallest numbers.
CPU_INLINE uint16_t f16_of(float value) {
    uint32_t bits = float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t small = float_bits(bits_float(magnitude < 0x38800000u ? magnitude : 0) + 0.5f) - 0x3F000000u;
    uint32_t result = magnitude < 0x38800000u ? small : magnitude < 0x477FF000u ? normal : 0x7C00u;
    result = magnitude > 0x7F800000u ? 0x7E00u : result;
    return (uint16_t)(sign | result);
}

CPU_INLINE float float_of_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7FFFu;
    uint32_t normal = (magnitude << 13) + (magnitude >= 0x7C00u ? 0x70000000u : 0x38000000u);
    float small = (float)magnitude * 0x1p-24f;
    return bits_float(sign | (magnitude < 0x400u ? float_bits(small) : normal));
}

CPU_CLONES static void to_bf16(uint16_t *restrict to, const float *restrict from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = bf16_of(from[i]);
}

CPU_CLONES static void to_f16(uint16_t *restrict to, const float *restrict from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = f16_of(from[i]);
}

CPU_CLONES static void from_bf16(float *restrict to, const uint16_t *restrict from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = bits_float((uint32_t)from[i] << 16);
}

CPU_CLONES static void from_f16(float *restrict to, const uint16_t *restrict from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = float_of_f16(from[i]);
}

static void narrow(void *to, enum dtype to_dtype, const float *from, int64_t count) {
    if (to_dtype == DTYPE_F32)
        memcpy(to, from, (size_t)count * sizeof *from);
    else if (to_dtype == DTYPE_BF16)
        to_bf16(to, from, count);
    else if (to_dtype == DTYPE_F16)
        to_f16(to, from, count);
    else
        die("%s is no float dtype", dtype_name(to_dtype));
}

static void widen(float *to, const void *from, enum dtype from_dtype, int64_t count) {
    if (from_dtype == DTYPE_F32)
        memcpy(to, from, (size_t)count * sizeof *to);
    else if (from_dtype == DTYPE_BF16)
        from_bf16(to, from, count);
    else if (from_dtype == DTYPE_F16)
        from_f16(to, from, count);
    else
        die("%s is no float dtype", dtype_name(from_dtype));
}

void cpu_convert(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype, int64_t count) {
    if (count <= 0)
        return;
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)count * dtype_bytes(to_dtype));
    } else if (to_dtype == DTYPE_F32) {
        widen(to, from, from_dtype, count);
    } else if (from_dtype == DTYPE_F32) {
        narrow(to, to_dtype, from, count);
    } else {
        float piece[256];
        for (int64_t i = 0; i < count; i += 256) {
            int64_t length = count - i < 256 ? count - i : 256;
            widen(piece, (const uint16_t *)from + i, from_dtype, length);
            narrow((uint16_t *)to + i, to_dtype, piece, length);
        }
    }
}
