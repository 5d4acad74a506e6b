// Numbers without their underscores, read by the C library. See number.h.
#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int number_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { LONGEST_NUMBER = 400 };  // a double may have more than 300 digits before its point

static bool is_digit(char c) {
    return isdigit((unsigned char)c);
}

bool number_plain(const char *text, char *plain, size_t size) {
    size_t length = 0;
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == '_') {
            if (i == 0 || !is_digit(text[i - 1]) || !is_digit(text[i + 1]))
                return false;
            continue;
        }
        if (length + 1 >= size)
            return false;
        plain[length++] = text[i];
    }
    plain[length] = '\0';
    return true;
}

bool number_read_int(const char *text, int64_t *value) {
    char plain[LONGEST_NUMBER], *end = NULL;
    const char *digits = text + (*text == '-' || *text == '+');
    if (!is_digit(*digits) || !number_plain(text, plain, sizeof plain))
        return false;
    errno = 0;
    long long number = strtoll(plain, &end, 10);
    if (*end || errno == ERANGE)
        return false;
    *value = number;
    return true;
}

// Index of the suffix that the text ends with, from 1; 0 for none.
static int find_suffix(const char *text, const char *suffixes) {
    size_t length = strlen(text);
    const char *suffix = length > 1 ? strchr(suffixes, toupper((unsigned char)text[length - 1])) : NULL;
    return suffix ? (int)(suffix - suffixes) + 1 : 0;
}

// The number before the last character.
static bool read_before_suffix(const char *text, double *value) {
    char plain[LONGEST_NUMBER];
    size_t length = strlen(text);
    if (length > sizeof plain)
        return false;
    memcpy(plain, text, length - 1);
    plain[length - 1] = '\0';
    return number_read_double(plain, value);
}

bool number_read_size(const char *text, int64_t *value) {
    int power = find_suffix(text, "KMGT");
    double number;
    if (power == 0)
        return number_read_int(text, value);
    if (!read_before_suffix(text, &number))
        return false;
    number = ldexp(number, 10 * power);
    if (!(fabs(number) < 0x1p62))
        return false;
    *value = (int64_t)number;
    return true;
}

bool number_read_count(const char *text, double *value) {
    int power = find_suffix(text, "KMBT");
    double number;
    if (power == 0)
        return number_read_double(text, value);
    if (!read_before_suffix(text, &number))
        return false;
    for (int i = 0; i < power; i++)
        number *= 1e3;
    if (!isfinite(number))
        return false;
    *value = number;
    return true;
}

bool number_read_double(const char *text, double *value) {
    char plain[LONGEST_NUMBER], *end = NULL;
    if (!number_plain(text, plain, sizeof plain) || !*plain || plain[strspn(plain, "0123456789+-.eE")])
        return false;
    double number = strtod(plain, &end);
    if (end == plain || *end || !isfinite(number))
        return false;
    *value = number;
    return true;
}
