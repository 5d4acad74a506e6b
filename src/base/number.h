// Numbers as people write them on a command line and as Python reads them: decimal, with an underscore between two
// digits wherever it helps to read them (183_105, 1_000.5).
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int number_compare(const void *a, const void *b);  // of two doubles, for qsort

// Copies the text without its underscores. False if one of them does not stand between two digits, or if the copy
// does not fit.
bool number_plain(const char *text, char *plain, size_t size);
// The whole text is one whole number that an int64_t holds, a sign before it at most.
bool number_read_int(const char *text, int64_t *value);
// The whole text is a size in bytes. It may have a fraction and end with K, M, G or T, for powers of 1024 in either
// case: 512K, 1.5G. Fractions of a byte are cut off.
bool number_read_size(const char *text, int64_t *value);
// The whole text is a count. It may end with K, M, B or T, for powers of 1000 in either case: 300B, 1.5T.
bool number_read_count(const char *text, double *value);
// The whole text is one finite number; no spaces, hexadecimal, "inf" or "nan".
bool number_read_double(const char *text, double *value);

#endif
