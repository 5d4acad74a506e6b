// The dropout mask of a row, as factors to multiply with: 0 where dropped, 1 / (1 - rate) where kept. Which is which
// depends on seed, site, global row number and column alone (see struct dropout in ops.h).
#ifndef OPS_CPU_DROPOUT_H
#define OPS_CPU_DROPOUT_H

#include "ops/ops.h"

// Rows are masked in pieces of this many columns; first_column must be a multiple of 4.
enum { DROPOUT_PIECE = 256, DROPOUT_GRAIN = 64 };

struct dropout_row {
    uint64_t seed;
    uint64_t row_id;
    uint32_t site;
    uint32_t threshold;  // keep where the random word is at least this
    float keep_scale;
};

struct dropout_row dropout_row(const struct dropout *dropout, int64_t row);
struct dropout_row dropout_attention_row(const struct dropout *dropout, int64_t row, int64_t head);
// factors[i] belongs to column first_column + i. There must be room for count rounded up to a multiple of
// DROPOUT_GRAIN: that many are drawn at once.
void dropout_factors(float *factors, const struct dropout_row *row, int64_t first_column, int64_t count);

#endif
