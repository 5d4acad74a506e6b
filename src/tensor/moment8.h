// Adam's moments in 8 bits. Each element has a code of 8 bits, and MOMENT8_SHARE neighbours share an exponent, that of
// the largest of them. Flat buffers begin and split parameters at multiples of that many elements, so neighbours do not
// depend on how an optimizer is split among ranks.
//
// A code is a small float: 3 bits of exponent, below the shared one, and a mantissa. First moments have a sign and 4
// bits of mantissa. Second moments, which span twice as many powers of two and are never negative, are stored as their
// roots, with 5 bits of mantissa. Shared factors are powers of two, so codes stand for numbers of the same grid in all
// neighbourhoods; only numbers 2^6 times smaller than the largest neighbour lose mantissa. The least first moment is
// twice the least root, so that the update of an element far below its neighbours stays bounded.
//
// A number becomes one of the two codes next to it. `dice`, below 0x10000, chooses so that over all dice the mean is
// right, of second moments the mean of the squares; MOMENT8_NEAREST chooses the nearer one. A second moment above 0
// never becomes 0: updates are divided by it. Numbers that are not finite become the largest code.
//
// Numbers that are stored and loaded again, by either kind, stay the same. First moments are exact in bf16, second ones
// in fp32. CUDA compiles this file too.
#ifndef TENSOR_MOMENT8_H
#define TENSOR_MOMENT8_H

#include "tensor/half.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdbool.h>

enum { MOMENT8_SHARE = 64, MOMENT8_NEAREST = 0x7FFF };
enum moment8_kind { MOMENT8_FIRST, MOMENT8_SECOND };

// The dtype that holds all of their numbers exactly.
static inline enum dtype moment8_exact_dtype(enum moment8_kind kind) {
    return kind == MOMENT8_FIRST ? DTYPE_BF16 : DTYPE_F32;
}

// The shared exponent E is stored as E + MOMENT8_BIAS, so that memory of zeros is zeros.
enum { MOMENT8_BIAS = 100, MOMENT8_TOP = 7 };

HALF_INLINE int moment8_mantissa(enum moment8_kind kind) {
    return kind == MOMENT8_FIRST ? 4 : 5;
}

// The magnitude that counts for the shared exponent; for a second moment, its root.
HALF_INLINE float moment8_size(enum moment8_kind kind, float x) {
    return kind == MOMENT8_FIRST ? fabsf(x) : sqrtf(x);
}

// The exponent to store, of the largest size: all sizes are at most the largest code. Squares of roots, and 2^-16 of
// them, stay normal.
HALF_INLINE uint8_t moment8_exponent(enum moment8_kind kind, float largest) {
    int mantissa = moment8_mantissa(kind), least = kind == MOMENT8_FIRST ? -MOMENT8_BIAS : -35;
    uint32_t bits = half_float_bits(largest), highest = ((1u << mantissa) - 1) << (23 - mantissa);
    int exponent = (int)(bits >> 23) - 127 + ((bits & 0x7FFFFFu) > highest);
    exponent = exponent < least ? least : exponent > 127 ? 127 : exponent;
    return (uint8_t)(exponent + MOMENT8_BIAS);
}

// Decodes the size of a code without its sign.
HALF_INLINE float moment8_code_size(enum moment8_kind kind, uint32_t code, uint8_t exponent) {
    int mantissa = moment8_mantissa(kind), field = (int)(code >> mantissa);
    uint32_t units = (code & ((1u << mantissa) - 1)) + (field > 0 ? 1u << mantissa : 0);
    int power = (int)exponent - MOMENT8_BIAS - MOMENT8_TOP - mantissa + (field > 0 ? field : 1);
    return (float)units * half_bits_float((uint32_t)(power + 127) << 23);
}

HALF_INLINE uint8_t moment8_encode(enum moment8_kind kind, float x, uint8_t exponent, uint32_t dice) {
    int mantissa = moment8_mantissa(kind), rest = 23 - mantissa;
    uint32_t bits = half_float_bits(moment8_size(kind, x)), fraction = bits & 0x7FFFFFu;
    int field = (int)(bits >> 23) - 127 - ((int)exponent - MOMENT8_BIAS) + MOMENT8_TOP;
    int shift = 1 - field < 31 ? 1 - field : 31;
    uint32_t small = (fraction | (bits > 0x7FFFFFu ? 0x800000u : 0)) >> (shift > 0 ? shift : 0);
    uint32_t units = field > 0 ? ((uint32_t)field << 23) + fraction : small;
    uint32_t code = units >> rest, most = (MOMENT8_TOP + 1u) * (1u << mantissa) - 1;
    if (code >= most)
        code = most;
    else if (kind == MOMENT8_FIRST)
        code += ((units >> (rest - 16)) & 0xFFFFu) > dice;
    else {
        float low = moment8_code_size(kind, code, exponent), high = moment8_code_size(kind, code + 1, exponent);
        bool is_up = x - low * low > (float)dice * 0x1p-16f * (high * high - low * low);
        code += is_up || (code == 0 && x > 0);
    }
    return (uint8_t)(code | (kind == MOMENT8_FIRST ? half_float_bits(x) >> 24 & 0x80u : 0));
}

HALF_INLINE float moment8_decode(enum moment8_kind kind, uint8_t code, uint8_t exponent) {
    float size = moment8_code_size(kind, kind == MOMENT8_FIRST ? code & 0x7Fu : code, exponent);
    return kind == MOMENT8_SECOND ? size * size : code & 0x80u ? -size : size;
}

#endif
