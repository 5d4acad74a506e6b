// The dropout mask of a row, as factors to multiply with: 0 for dropped elements, the scale for kept ones. Which
// elements are kept depends only on seed, site, global row number and column (see struct dropout in ops.h).
#ifndef OPS_CPU_DROPOUT_H
#define OPS_CPU_DROPOUT_H

#include "ops/ops.h"

// Rows are masked in pieces of this many columns; first_column must be a multiple of 8.
enum { DROPOUT_PIECE = 256, DROPOUT_GRAIN = 64 };

struct dropout_row {
    uint64_t seed;
    uint64_t row_id;
    uint32_t site;
    uint32_t threshold;  // keep where the random half is at least this
    float keep_scale;
};

struct dropout_row dropout_row(const struct dropout *dropout, int64_t row);
struct dropout_row dropout_attention_row(const struct dropout *dropout, int64_t row, int64_t head);
// factors[i] belongs to column first_column + i. There must be room for count rounded up to a multiple of
// DROPOUT_GRAIN, because that many are drawn at once.
void dropout_factors(float *factors, const struct dropout_row *row, int64_t first_column, int64_t count);

// out = residual + factors * (x + bias), for one row; residual and bias may be NULL. out may be residual or x.
struct dropout_add_row {
    float *out;
    const float *x, *residual, *bias;
    float factor;  // multiplies the term added to the residual; 0 for 1
};
// Row number `row` of the dropout, or without factors if its rate is 0.
void dropout_add(const struct dropout_add_row *add, const struct dropout *dropout, int64_t row, int64_t channels);

#endif
