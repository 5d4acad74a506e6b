// Decimal digits of a double by one multiplication. See number_text.h.
#include "report/board/number_text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST_EXPONENT = 280, MOST_DIGITS = 15 };

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static double power_of_ten(int exponent) {
    int size = exponent < 0 ? -exponent : exponent;
    double power = size < (int)(sizeof powers / sizeof powers[0]) ? powers[size] : pow(10, size);
    return exponent < 0 ? 1 / power : power;
}

// Number of digits of a whole number below 10^17.
static int digit_count(uint64_t number) {
    // 1233 / 4096 approximates the logarithm of 2, close enough for 64 bits: at most one too low.
    int count = (64 - __builtin_clzll(number | 1)) * 1233 >> 12;
    return count + (count == 0 || number >= (uint64_t)powers[count]);
}

// Writes the `count` digits of a number.
static void write_digits(char *text, uint64_t number, int count) {
    for (; count >= 2; count -= 2) {
        unsigned pair = (unsigned)(number % 100);
        number /= 100;
        text[count - 1] = (char)('0' + pair % 10);
        text[count - 2] = (char)('0' + pair / 10);
    }
    if (count == 1)
        text[0] = (char)('0' + number);
}

// The power of ten of the first digit; log10 would take longer than all the rest. Off by one at most, close to powers
// of ten that are not exact in a double.
static int decimal_exponent(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int binary = (int)(bits >> 52) - 1023;
    // 78913 / 2^18 is the logarithm of 2; rounded down.
    int exponent = binary >= 0 ? binary * 78913 >> 18 : -((-binary * 78913 + (1 << 18) - 1) >> 18);
    if (exponent < -MOST_EXPONENT || exponent > MOST_EXPONENT)
        return exponent;
    return exponent + (value >= power_of_ten(exponent + 1));
}

// Writes digits with a point after the first exponent + 1 of them.
static char *write_point(char *text, const char *digits, int count, int exponent) {
    int whole = exponent < 0 ? 0 : exponent + 1, zeros = exponent < 0 ? -exponent - 1 : 0;
    int before = count < whole ? count : whole;
    memcpy(text, digits, (size_t)before);
    memset(text + before, '0', (size_t)(whole - before));
    text += whole;
    if (whole == 0)
        *text++ = '0';
    if (count <= whole)
        return text;
    *text++ = '.';
    memset(text, '0', (size_t)zeros);
    text += zeros;
    memcpy(text, digits + before, (size_t)(count - before));
    return text + count - before;
}

char *number_write(char *text, double value, int digits) {
    char figures[NUMBER_MOST_BYTES];
    if (!isfinite(value)) {
        memcpy(text, "null", 4);
        return text + 4;
    }
    if (value < 0) {
        *text++ = '-';
        value = -value;
    }
    if (value < 1e15 && value == (double)(uint64_t)value) {
        int count = digit_count((uint64_t)value);
        write_digits(text, (uint64_t)value, count);
        return text + count;
    }
    int exponent = decimal_exponent(value);
    if (exponent < -MOST_EXPONENT || exponent > MOST_EXPONENT)
        return text + snprintf(text, NUMBER_MOST_BYTES - 1, "%.*g", digits, value);
    uint64_t number = (uint64_t)(value * power_of_ten(digits - 1 - exponent) + 0.5);
    int count = digit_count(number);
    write_digits(figures, number, count);
    // Rounding may have added a digit.
    exponent += count - digits;
    while (count > 1 && figures[count - 1] == '0')
        count--;
    if (exponent >= -5 && exponent < MOST_DIGITS)
        return write_point(text, figures, count, exponent);
    text = write_point(text, figures, count, 0);
    return text + snprintf(text, 8, "e%d", exponent);
}

void number_append(struct buffer *out, double value, int digits) {
    buffer_reserve(out, NUMBER_MOST_BYTES);
    out->length = (size_t)(number_write(out->data + out->length, value, digits) - out->data);
    out->data[out->length] = '\0';
}
