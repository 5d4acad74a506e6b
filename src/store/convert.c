// Every conversion goes through fp32, which holds all bf16 and fp16 values exactly, so each value is rounded once. Bits
// are moved by hand: compilers for our older targets have no 16-bit float types.
#include "store/convert.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdint.h>
#include <string.h>

static bool is_float(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

bool convert_is_possible(enum dtype from, enum dtype to) {
    return from == to || (is_float(from) && is_float(to));
}

static uint32_t bits_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0x1f)
        return sign | 0x7f800000 | fraction << 13;
    if (exponent != 0)
        return sign | (exponent + 112) << 23 | fraction << 13;
    if (fraction == 0)
        return sign;
    // A subnormal of fp16 is normal in fp32: shift its leading one to bit 10, where it becomes implicit.
    exponent = 113;
    while (!(fraction & 0x400)) {
        fraction <<= 1;
        exponent--;
    }
    return sign | exponent << 23 | (fraction & 0x3ff) << 13;
}

// Drops `shift` low bits, rounding to nearest, ties to even.
static uint32_t round_off(uint32_t value, uint32_t shift) {
    uint32_t half = 1u << (shift - 1), odd = (value >> shift) & 1;
    return (value + half - 1 + odd) >> shift;
}

static uint16_t f16_from_bits(uint32_t bits) {
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x47800000)  // 65536 and above
        return sign | 0x7c00;
    if (magnitude >= 0x38800000)  // normal in fp16; a carry out of the fraction runs into the exponent, up to infinity
        return (uint16_t)(sign | (round_off(magnitude, 13) - (112u << 10)));
    uint32_t exponent = magnitude >> 23;
    if (exponent < 102)  // below half of the smallest subnormal
        return sign;
    uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | round_off(fraction, 126 - exponent));
}

static uint16_t bf16_from_bits(uint32_t bits) {
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);  // rounding could carry a NaN to infinity
    return (uint16_t)round_off(bits, 16);
}

static uint32_t load_bits(const unsigned char *at, enum dtype dtype) {
    uint32_t bits = 0;
    uint16_t half = 0;
    if (dtype == DTYPE_F32) {
        memcpy(&bits, at, 4);
        return bits;
    }
    memcpy(&half, at, 2);
    return dtype == DTYPE_BF16 ? (uint32_t)half << 16 : bits_from_f16(half);
}

static void store_bits(unsigned char *at, enum dtype dtype, uint32_t bits) {
    if (dtype == DTYPE_F32) {
        memcpy(at, &bits, 4);
        return;
    }
    uint16_t half = dtype == DTYPE_BF16 ? bf16_from_bits(bits) : f16_from_bits(bits);
    memcpy(at, &half, 2);
}

void convert_elements(const struct convert *convert) {
    CHECK(convert_is_possible(convert->from_dtype, convert->to_dtype));
    size_t from_bytes = dtype_bytes(convert->from_dtype), to_bytes = dtype_bytes(convert->to_dtype);
    if (convert->from_dtype == convert->to_dtype) {
        memcpy(convert->to, convert->from, convert->count * to_bytes);
        return;
    }
    const unsigned char *from = convert->from;
    unsigned char *to = convert->to;
    for (size_t i = 0; i < convert->count; i++)
        store_bits(to + i * to_bytes, convert->to_dtype, load_bits(from + i * from_bytes, convert->from_dtype));
}

float *convert_shifted(const void *from, enum dtype dtype, size_t count, float added) {
    float *shifted = memory_alloc(count * sizeof *shifted + 1);
    convert_elements(
        &(struct convert){.to = shifted, .to_dtype = DTYPE_F32, .from = from, .from_dtype = dtype, .count = count});
    for (size_t i = 0; i < count; i++)
        shifted[i] += added;
    return shifted;
}

void convert_transpose(const struct convert_turn *turn) {
    enum { TILE = 32 };  // both sides of a tile stay in the cache
    int64_t rows = turn->rows, columns = turn->columns;
    size_t bytes = turn->bytes;
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < columns; c0 += TILE)
            for (int64_t r = r0; r < rows && r < r0 + TILE; r++)
                for (int64_t c = c0; c < columns && c < c0 + TILE; c++)
                    memcpy(turn->to + (size_t)(c * rows + r) * bytes, turn->from + (size_t)(r * columns + c) * bytes,
                           bytes);
}

void convert_heads(const struct convert_heads *convert) {
    int64_t queries = convert->heads / convert->groups;
    for (int64_t group = 0; group < convert->groups; group++) {
        for (int64_t i = 0; i < queries + 2; i++) {
            int64_t apart =
                i < queries ? group * queries + i : convert->heads + (i - queries) * convert->groups + group;
            int64_t together = group * (queries + 2) + i;
            memcpy(convert->to + (size_t)(convert->to_groups ? together : apart) * convert->head_bytes,
                   convert->from + (size_t)(convert->to_groups ? apart : together) * convert->head_bytes,
                   convert->head_bytes);
        }
    }
}
