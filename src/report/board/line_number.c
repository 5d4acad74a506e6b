// Digits eight at a time into an integer, then one multiplication by a power of ten. See line_number.h.
#include "report/board/line_number.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 19, EXACT_POWERS = 23 };  // that fit 64 bits; powers of ten that a double holds

static const double powers[EXACT_POWERS] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

#define EVERY_BYTE(b) ((uint64_t)0x0101010101010101 * (b))

// Whether eight bytes are all '0' to '9': their high halves are 3, also after adding 6 to the low ones.
static bool are_digits(uint64_t word) {
    return (word & EVERY_BYTE(0xF0)) == EVERY_BYTE(0x30) &&
           ((word + EVERY_BYTE(0x06)) & EVERY_BYTE(0xF0)) == EVERY_BYTE(0x30);
}

// The first digit is in the lowest byte. Neighbours are combined: digits to pairs, pairs to fours, fours to eight.
static uint64_t eight_digits(uint64_t word) {
    word &= EVERY_BYTE(0x0F);
    word = (word * 10 + (word >> 8)) & 0x00FF00FF00FF00FF;
    word = (word * 100 + (word >> 16)) & 0x0000FFFF0000FFFF;
    return (word * 10000 + (word >> 32)) & 0xFFFFFFFF;
}

// Parses digits and appends them to *mantissa, which wraps around if there are too many.
static const char *pass_digits(const char *at, uint64_t *mantissa) {
    uint64_t word, sum = *mantissa;
    for (;; at += 8) {
        memcpy(&word, at, 8);
        if (!are_digits(word))
            break;
        sum = sum * 100000000 + eight_digits(word);
    }
    for (; *at >= '0' && *at <= '9'; at++)
        sum = sum * 10 + (uint64_t)(*at - '0');
    *mantissa = sum;
    return at;
}

static const char *by_library(const char *text, const char *end, double *value) {
    char *stop = NULL;
    *value = strtod(text, &stop);
    return stop == end && isfinite(*value) ? end : NULL;
}

// Number of significant digits in [at, end).
static ptrdiff_t significant(const char *at, const char *end) {
    ptrdiff_t point = 0;
    for (; at < end && (*at == '0' || *at == '.'); at++)
        ;
    for (const char *each = at; each < end; each++)
        point += *each == '.';
    return end - at - point;
}

const char *line_number_read(const char *text, double *value) {
    bool is_negative = *text == '-';
    const char *first = text + is_negative;
    uint64_t mantissa = 0;
    const char *at = pass_digits(first, &mantissa);
    if (at == first || (at - first > 1 && *first == '0'))
        return NULL;
    ptrdiff_t exponent = 0;
    if (*at == '.') {
        const char *point = ++at;
        at = pass_digits(at, &mantissa);
        if (at == point)
            return NULL;
        exponent = point - at;
    }
    bool is_long = at - first > MOST_DIGITS && significant(first, at) > MOST_DIGITS;
    if (*at == 'e' || *at == 'E') {
        at++;
        bool is_below = *at == '-';
        at += *at == '-' || *at == '+';
        const char *digits = at;
        uint64_t power = 0;
        at = pass_digits(at, &power);
        if (at == digits)
            return NULL;
        is_long = is_long || at - digits > 4;
        exponent += is_below ? -(ptrdiff_t)power : (ptrdiff_t)power;
    }
    if (is_long || exponent <= -2 * EXACT_POWERS + 2 || exponent >= EXACT_POWERS)
        return by_library(text, at, value);
    double number = (double)mantissa;
    if (exponent < -(EXACT_POWERS - 1)) {
        number /= powers[EXACT_POWERS - 1];
        exponent += EXACT_POWERS - 1;
    }
    number = exponent < 0 ? number / powers[-exponent] : number * powers[exponent];
    *value = is_negative ? -number : number;
    return at;
}
