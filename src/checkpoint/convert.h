// Elements of one float type as another, for checkpoints that were written in another precision than they are read
// in.
#ifndef CHECKPOINT_CONVERT_H
#define CHECKPOINT_CONVERT_H

#include "tensor/tensor.h"
#include <stdbool.h>
#include <stddef.h>

// The same type, or both of fp32, bf16, fp16.
bool convert_is_possible(enum dtype from, enum dtype to);
// `from` may be unaligned; `to` and `from` do not overlap. Rounds to nearest, ties to even; what is too large becomes
// infinite, NaN stays NaN.
struct convert {
    void *to;
    enum dtype to_dtype;
    const void *from;
    enum dtype from_dtype;
    size_t count;  // elements
};
void convert_elements(const struct convert *convert);

// to (columns, rows) = from (rows, columns), elements of `bytes`. The two do not overlap.
struct convert_turn {
    unsigned char *to;
    const unsigned char *from;
    int64_t rows, columns;
    size_t bytes;
};
void convert_transpose(const struct convert_turn *turn);

#endif
