// Token and position embeddings, forward and backward, on a rank that holds a part of the vocabulary.
#ifndef TESTS_OPS_CASES_EMBEDDING_H
#define TESTS_OPS_CASES_EMBEDDING_H

#include "cases_layers.h"

// Tokens of a vocabulary of which this rank holds [5, 5 + V); some repeat, some belong to other ranks.
static inline int32_t *lab_tokens(struct lab *lab, int64_t rows, int64_t vocabulary) {
    int32_t *tokens = lab_host(lab, (size_t)rows * sizeof *tokens);
    for (int64_t i = 0; i < rows; i++)
        tokens[i] = (int32_t)(i % 5 == 4 ? i % 5 : 5 + i * i % vocabulary);
    if (rows > 2)
        tokens[2] = (int32_t)(5 + vocabulary);
    return tokens;
}

static inline int32_t *lab_positions(struct lab *lab, int64_t rows, int64_t count) {
    int32_t *positions = lab_host(lab, (size_t)rows * sizeof *positions);
    for (int64_t i = 0; i < rows; i++)
        positions[i] = (int32_t)(i % count);
    return positions;
}

enum { EMBEDDING_V = 23, EMBEDDING_P = 7 };

static inline void embedding_forward_variant(struct lab *lab, const int64_t size[2], float rate, bool has_positions) {
    int64_t rows = size[0], channels = size[1];
    int32_t *tokens = lab_tokens(lab, rows, EMBEDDING_V), *positions = lab_positions(lab, rows, EMBEDDING_P);
    struct sample table = lab_2d(lab, EMBEDDING_V, channels, 1), place = lab_2d(lab, EMBEDDING_P, channels, 1);
    struct op_embedding_forward op = {.out = lab_2d(lab, rows, channels, 1).t,
                                      .tokens = lab_ints(lab, rows, tokens),
                                      .table = table.t,
                                      .vocabulary_start = 5,
                                      .dropout = lab_dropout(lab, rate, rows)};
    if (has_positions) {
        op.positions = lab_ints(lab, rows, positions);
        op.position_table = place.t;
    }
    double *expected = lab_doubles(lab, rows * channels);
    for (int64_t i = 0; i < rows; i++) {
        int64_t token = tokens[i] - 5;
        for (int64_t c = 0; c < channels; c++) {
            double value = token >= 0 && token < EMBEDDING_V ? table.x[token * channels + c] : 0;
            value += has_positions ? place.x[positions[i] * channels + c] : 0;
            expected[i * channels + c] = value * lab_factor(&op.dropout, i, c, op.dropout.site);
        }
    }
    op_embedding_forward(lab->device, &op);
    lab_expect(lab, op.out, expected);
    lab_clear(lab);
}

static inline void case_embedding_forward(struct lab *lab) {
    for (int i = 0; i < LAYER_SIZES; i++) {
        embedding_forward_variant(lab, layer_sizes[i], 0, true);
        embedding_forward_variant(lab, layer_sizes[i], 0.1f, true);
        embedding_forward_variant(lab, layer_sizes[i], 0.1f, false);
    }
}

static inline void embedding_backward_variant(struct lab *lab, const int64_t size[2], float rate, bool has_positions) {
    int64_t rows = size[0], channels = size[1];
    int32_t *tokens = lab_tokens(lab, rows, EMBEDDING_V), *positions = lab_positions(lab, rows, EMBEDDING_P);
    struct sample table = lab_fp32_2d(lab, EMBEDDING_V, channels, 1);
    struct sample place = lab_fp32_2d(lab, EMBEDDING_P, channels, 1), dout = lab_2d(lab, rows, channels, 1);
    struct op_embedding_backward op = {.dtable = table.t,
                                       .dout = dout.t,
                                       .tokens = lab_ints(lab, rows, tokens),
                                       .vocabulary_start = 5,
                                       .dropout = lab_dropout(lab, rate, rows)};
    if (has_positions) {
        op.positions = lab_ints(lab, rows, positions);
        op.dposition_table = place.t;
    }
    for (int64_t n = 0; n < rows * channels; n++) {
        int64_t i = n / channels, c = n % channels, token = tokens[i] - 5;
        double value = dout.x[n] * lab_factor(&op.dropout, i, c, op.dropout.site);
        if (token >= 0 && token < EMBEDDING_V)
            table.x[token * channels + c] += value;
        if (has_positions)
            place.x[positions[i] * channels + c] += value;
    }
    op_embedding_backward(lab->device, &op);
    lab_expect(lab, op.dtable, table.x);
    if (has_positions)
        lab_expect(lab, op.dposition_table, place.x);
    lab_clear(lab);
}

static inline void case_embedding_backward(struct lab *lab) {
    // Positions that occur more than a hundred times.
    embedding_backward_variant(lab, (int64_t[]){1000, 24}, 0.1f, true);
    embedding_backward_variant(lab, (int64_t[]){1000, 13}, 0, true);
    for (int i = 0; i < LAYER_SIZES; i++) {
        if (lab_is_tiny() && layer_sizes[i][0] != 65)
            continue;
        embedding_backward_variant(lab, layer_sizes[i], 0, true);
        embedding_backward_variant(lab, layer_sizes[i], 0.1f, true);
        embedding_backward_variant(lab, layer_sizes[i], 0.1f, false);
    }
}

#endif
