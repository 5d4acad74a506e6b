// Converts elements from one float type to another, for checkpoints that are read in another precision than they have.
#ifndef STORE_CONVERT_H
#define STORE_CONVERT_H

#include "tensor/tensor.h"
#include <stdbool.h>
#include <stddef.h>

// Whether they are the same type, or both among fp32, bf16 and fp16.
bool convert_is_possible(enum dtype from, enum dtype to);
// `from` may be unaligned; `to` and `from` must not overlap. Rounds to nearest, ties to even; values that are too large
// become infinite, NaN stays NaN.
struct convert {
    void *to;
    enum dtype to_dtype;
    const void *from;
    enum dtype from_dtype;
    size_t count;  // elements
};
void convert_elements(const struct convert *convert);
// The elements in fp32, with a number added to each, so that they are rounded once; to be freed.
float *convert_shifted(const void *from, enum dtype dtype, size_t count, float added);

// to (columns, rows) = from (rows, columns), elements of `bytes`. The two do not overlap.
struct convert_turn {
    unsigned char *to;
    const unsigned char *from;
    int64_t rows, columns;
    size_t bytes;
};
void convert_transpose(const struct convert_turn *turn);

// Attention heads in two orders: all queries, all keys, all values; or per group its queries, its key, its value. The
// two do not overlap.
struct convert_heads {
    unsigned char *to;
    const unsigned char *from;
    bool to_groups;  // or from them
    int64_t heads, groups;
    size_t head_bytes;  // of all rows of a head
};
void convert_heads(const struct convert_heads *convert);

#endif
