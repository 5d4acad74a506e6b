// LayerNorm with residual and dropout, and dropout alone, against double-precision loops; the norm's gradients against
// finite differences of those loops.
#ifndef TESTS_OPS_CASES_LAYERS_H
#define TESTS_OPS_CASES_LAYERS_H

#include "lab.h"
#include "ops/formulas.h"

struct naive_norm {
    int64_t rows, channels;
    const double *x, *delta, *delta_bias, *gain, *bias;  // delta and biases may be NULL
    const struct dropout *dropout;
    double epsilon;
    double *sum, *y, *mean, *rstd;  // out
};

static inline void naive_norm(struct lab *lab, struct naive_norm *n) {
    n->sum = lab_doubles(lab, n->rows * n->channels);
    n->y = lab_doubles(lab, n->rows * n->channels);
    n->mean = lab_doubles(lab, n->rows);
    n->rstd = lab_doubles(lab, n->rows);
    for (int64_t i = 0; i < n->rows; i++) {
        double *sum = n->sum + i * n->channels, mean = 0, variance = 0;
        for (int64_t c = 0; c < n->channels; c++) {
            sum[c] = n->x[i * n->channels + c];
            if (n->delta)
                sum[c] += lab_factor(n->dropout, i, c, n->dropout->site) *
                          (n->delta[i * n->channels + c] + (n->delta_bias ? n->delta_bias[c] : 0));
            mean += sum[c] / (double)n->channels;
        }
        for (int64_t c = 0; c < n->channels; c++)
            variance += (sum[c] - mean) * (sum[c] - mean) / (double)n->channels;
        n->mean[i] = mean;
        n->rstd[i] = 1 / sqrt(variance + n->epsilon);
        for (int64_t c = 0; c < n->channels; c++)
            n->y[i * n->channels + c] = (sum[c] - mean) * n->rstd[i] * n->gain[c] + (n->bias ? n->bias[c] : 0);
    }
}

static const int64_t layer_sizes[][2] = {{1, 1}, {3, 1}, {1, 17}, {17, 3}, {65, 65}, {3, 300}, {130, 768}, {40, 1030}};
enum { LAYER_SIZES = sizeof layer_sizes / sizeof layer_sizes[0] };

// Every other size stores gains as their distance from 1; the expected values use the gains themselves.
static inline float keep_gains(struct sample *gain, int64_t rows, int64_t channels) {
    float offset = rows % 2 ? 1.0f : 0.0f;
    for (int64_t c = 0; c < channels; c++)
        gain->x[c] += (double)offset;
    return offset;
}

static inline void norm_forward_variant(struct lab *lab, const int64_t size[2], bool has_delta, float rate) {
    int64_t rows = size[0], channels = size[1];
    struct sample x = lab_2d(lab, rows, channels, 2), gain = lab_1d(lab, channels, 1), bias = lab_1d(lab, channels, 1);
    struct sample delta = lab_2d(lab, rows, channels, 1), delta_bias = lab_1d(lab, channels, 1);
    struct dropout dropout = lab_dropout(lab, rate, rows);
    struct op_norm_forward op = {
        .y = lab_2d(lab, rows, channels, 1).t,
        .mean = lab_fp32_1d(lab, rows, 1).t,
        .rstd = lab_fp32_1d(lab, rows, 1).t,
        .x = x.t,
        .gain = gain.t,
        .gain_offset = keep_gains(&gain, rows, channels),
        .bias = bias.t,
        .epsilon = 1e-5f,
    };
    struct naive_norm naive = {.rows = rows,
                               .channels = channels,
                               .x = x.x,
                               .gain = gain.x,
                               .bias = bias.x,
                               .dropout = &dropout,
                               .epsilon = 1e-5};
    if (has_delta) {
        op.delta = delta.t;
        op.delta_bias = rows % 2 ? delta_bias.t : (struct tensor){0};
        op.sum = x.t;  // in place
        op.dropout = dropout;
        naive.delta = delta.x;
        naive.delta_bias = rows % 2 ? delta_bias.x : NULL;
    }
    naive_norm(lab, &naive);
    op_norm_forward(lab->device, &op);
    lab_expect(lab, op.x, naive.sum);
    // A mean of numbers that cancel has an error of their magnitude.
    const double *mean = lab_read(lab, op.mean);
    for (int64_t i = 0; i < rows; i++) {
        double length =
            sqrt(lab_inner(naive.sum + i * channels, naive.sum + i * channels, channels) / (double)channels);
        EXPECT_NEAR(mean[i], naive.mean[i], lab->tolerance * length);
    }
    if (channels > 1) {  // with one channel the variance is only rounding
        lab_expect(lab, op.rstd, naive.rstd);
        lab_expect(lab, op.y, naive.y);
    }
    lab_clear(lab);
}

static inline void case_norm_forward(struct lab *lab) {
    for (int i = 0; i < LAYER_SIZES; i++) {
        norm_forward_variant(lab, layer_sizes[i], false, 0);
        norm_forward_variant(lab, layer_sizes[i], true, 0);
        norm_forward_variant(lab, layer_sizes[i], true, 0.3f);
    }
}

// Everything that the backward pass needs, on the device and as doubles.
struct norm_setup {
    struct op_norm_backward op;
    struct sample x, dy, gain, bias, dresidual, dgain, dbias, ddelta_bias;
    struct naive_norm naive;
    struct dropout dropout;
    double *dx, *ddelta, *new_dgain, *new_dbias, *new_ddelta_bias;  // expected
};

static inline void norm_setup(struct lab *lab, struct norm_setup *s, const int64_t size[2], float rate) {
    int64_t rows = size[0], channels = size[1];
    s->x = lab_2d(lab, rows, channels, 2);
    s->dy = lab_2d(lab, rows, channels, 1);
    s->gain = lab_1d(lab, channels, 1);
    s->bias = lab_1d(lab, channels, 1);
    s->dresidual = lab_2d(lab, rows, channels, 1);
    s->dgain = lab_fp32_1d(lab, channels, 1);
    s->dbias = lab_fp32_1d(lab, channels, 1);
    s->ddelta_bias = lab_fp32_1d(lab, channels, 1);
    s->dropout = lab_dropout(lab, rate, rows);
    float offset = keep_gains(&s->gain, rows, channels);
    s->naive = (struct naive_norm){.rows = rows,
                                   .channels = channels,
                                   .x = s->x.x,
                                   .gain = s->gain.x,
                                   .bias = s->bias.x,
                                   .dropout = &s->dropout,
                                   .epsilon = 1e-5};
    naive_norm(lab, &s->naive);
    struct tensor mean = arena_1d(&lab->arena, DTYPE_F32, rows), rstd = arena_1d(&lab->arena, DTYPE_F32, rows);
    lab_write(lab, mean, s->naive.mean);
    lab_write(lab, rstd, s->naive.rstd);
    s->op = (struct op_norm_backward){.dx = lab_2d(lab, rows, channels, 1).t,
                                      .dgain = s->dgain.t,
                                      .dbias = s->dbias.t,
                                      .dy = s->dy.t,
                                      .x = s->x.t,
                                      .gain = s->gain.t,
                                      .gain_offset = offset,
                                      .mean = mean,
                                      .rstd = rstd};
}

static inline void naive_norm_backward(struct lab *lab, struct norm_setup *s, bool has_residual) {
    int64_t rows = s->naive.rows, channels = s->naive.channels;
    s->dx = lab_doubles(lab, rows * channels);
    s->ddelta = lab_doubles(lab, rows * channels);
    s->new_dgain = lab_moved(lab, s->dgain.x, s->dgain.x, 0, channels);
    s->new_dbias = lab_moved(lab, s->dbias.x, s->dbias.x, 0, channels);
    s->new_ddelta_bias = lab_moved(lab, s->ddelta_bias.x, s->ddelta_bias.x, 0, channels);
    for (int64_t i = 0; i < rows; i++) {
        const double *dy = s->dy.x + i * channels, *x = s->x.x + i * channels;
        double mean = s->naive.mean[i], rstd = s->naive.rstd[i], sum = 0, product = 0;
        for (int64_t c = 0; c < channels; c++) {
            sum += dy[c] * s->gain.x[c] / (double)channels;
            product += dy[c] * s->gain.x[c] * (x[c] - mean) * rstd / (double)channels;
            s->new_dgain[c] += dy[c] * (x[c] - mean) * rstd;
            s->new_dbias[c] += dy[c];
        }
        for (int64_t c = 0; c < channels; c++) {
            double dx = rstd * (dy[c] * s->gain.x[c] - sum - (x[c] - mean) * rstd * product);
            dx += has_residual ? s->dresidual.x[i * channels + c] : 0;
            s->dx[i * channels + c] = dx;
            s->ddelta[i * channels + c] = dx * lab_factor(&s->dropout, i, c, s->dropout.site);
            s->new_ddelta_bias[c] += s->ddelta[i * channels + c];
        }
    }
}

// A LayerNorm without a bias, forward and backward, with its result computed again.
static inline void case_norm_without_bias(struct lab *lab) {
    for (int i = 2; i < LAYER_SIZES; i++) {
        int64_t rows = layer_sizes[i][0], channels = layer_sizes[i][1];
        struct norm_setup s;
        norm_setup(lab, &s, layer_sizes[i], 0);
        s.naive.bias = NULL;
        naive_norm(lab, &s.naive);
        struct op_norm_forward forward = {.y = lab_2d(lab, rows, channels, 1).t,
                                          .mean = lab_fp32_1d(lab, rows, 1).t,
                                          .rstd = lab_fp32_1d(lab, rows, 1).t,
                                          .x = s.x.t,
                                          .gain = s.gain.t,
                                          .gain_offset = s.op.gain_offset,
                                          .epsilon = 1e-5f};
        op_norm_forward(lab->device, &forward);
        lab_expect(lab, forward.y, s.naive.y);
        s.op.dbias = (struct tensor){0};
        s.op.y = lab_2d(lab, rows, channels, 1).t;
        naive_norm_backward(lab, &s, false);
        op_norm_backward(lab->device, &s.op);
        lab_expect(lab, s.op.dx, s.dx);
        lab_expect(lab, s.op.dgain, s.new_dgain);
        lab_expect(lab, s.op.y, s.naive.y);
        lab_clear(lab);
    }
}

enum norm_aliases { NORM_APART, NORM_DELTA_IS_DY, NORM_DELTA_IS_DX };

static inline void norm_backward_variant(struct lab *lab, const int64_t size[2], float rate,
                                         enum norm_aliases aliases) {
    struct norm_setup s;
    norm_setup(lab, &s, size, rate);
    bool has_residual = aliases != NORM_APART || size[0] % 2;
    if (has_residual)
        s.op.dresidual = s.dresidual.t;
    if (aliases == NORM_DELTA_IS_DY)
        s.op.dx = s.op.dresidual;
    s.op.ddelta = aliases == NORM_DELTA_IS_DY   ? s.op.dy
                  : aliases == NORM_DELTA_IS_DX ? s.op.dx
                                                : lab_2d(lab, size[0], size[1], 1).t;
    s.op.ddelta_bias = s.ddelta_bias.t;
    s.op.dropout = s.dropout;
    s.op.y = aliases == NORM_DELTA_IS_DY ? lab_2d(lab, size[0], size[1], 1).t : s.op.dy;
    s.op.bias = s.bias.t;
    naive_norm_backward(lab, &s, has_residual);
    op_norm_backward(lab->device, &s.op);
    lab_expect(lab, s.op.dx, s.dx);
    lab_expect(lab, s.op.ddelta, s.ddelta);
    lab_expect(lab, s.op.dgain, s.new_dgain);
    lab_expect(lab, s.op.dbias, s.new_dbias);
    lab_expect(lab, s.op.ddelta_bias, s.new_ddelta_bias);
    lab_expect(lab, s.op.y, s.naive.y);
    lab_clear(lab);
}

static inline void case_norm_backward(struct lab *lab) {
    // Long rows, and enough rows for a GPU's blocks to process several in turn: some blocks one more than others.
    static const int64_t sizes[][2] = {{5, 4096},  {2, 9000},   {3, 9016},    {3, 5128},
                                       {2, 12288}, {13001, 40}, {1701, 1032}, {543, 3072}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        norm_backward_variant(lab, sizes[i], 0.3f, NORM_APART);
    for (int i = 2; i < LAYER_SIZES; i++) {
        norm_backward_variant(lab, layer_sizes[i], 0, NORM_APART);
        norm_backward_variant(lab, layer_sizes[i], 0.3f, NORM_APART);
        norm_backward_variant(lab, layer_sizes[i], 0.3f, NORM_DELTA_IS_DY);
        norm_backward_variant(lab, layer_sizes[i], 0, NORM_DELTA_IS_DX);
        // Neither residual nor delta: the last norm of a model.
        struct norm_setup s;
        norm_setup(lab, &s, layer_sizes[i], 0);
        naive_norm_backward(lab, &s, false);
        op_norm_backward(lab->device, &s.op);
        lab_expect(lab, s.op.dx, s.dx);
        lab_expect(lab, s.op.dgain, s.new_dgain);
        lab_clear(lab);
    }
}

// The loss sum(dy * y) as x and gain move along a random direction.
static inline double norm_loss(struct lab *lab, const struct norm_setup *s, const double *const direction[2],
                               double step) {
    struct naive_norm moved = s->naive;
    moved.x = lab_moved(lab, s->x.x, direction[0], step, moved.rows * moved.channels);
    moved.gain = lab_moved(lab, s->gain.x, direction[1], step, moved.channels);
    naive_norm(lab, &moved);
    return lab_inner(moved.y, s->dy.x, moved.rows * moved.channels);
}

static inline void case_norm_slope(struct lab *lab) {
    static const int64_t sizes[][2] = {{3, 17}, {17, 3}, {5, 65}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct norm_setup s;
        norm_setup(lab, &s, sizes[i], 0);
        int64_t channels = sizes[i][1], count = sizes[i][0] * channels;
        const double *direction[2] = {lab_direction(lab, count), lab_direction(lab, channels)};
        op_norm_backward(lab->device, &s.op);
        double *dgain = lab_moved(lab, lab_read(lab, s.op.dgain), s.dgain.x, -1, channels);
        double slope =
            lab_inner(lab_read(lab, s.op.dx), direction[0], count) + lab_inner(dgain, direction[1], channels);
        lab_expect_slope(lab, slope, norm_loss(lab, &s, direction, 1e-5), norm_loss(lab, &s, direction, -1e-5), 1e-5);
        lab_clear(lab);
    }
}

static inline void dropout_add_variant(struct lab *lab, const int64_t size[2], float rate, int aliases) {
    int64_t rows = size[0], channels = size[1];
    struct sample x = lab_2d(lab, rows, channels, 1), residual = lab_2d(lab, rows, channels, 1);
    struct sample bias = lab_1d(lab, channels, 1);
    bool has_bias = aliases != 1, has_residual = aliases != 2;
    struct op_dropout_add op = {.x = x.t, .dropout = lab_dropout(lab, rate, rows)};
    if (has_bias)
        op.bias = bias.t;
    if (has_residual)
        op.residual = residual.t;
    op.factor = aliases == 0 ? 0.3f : aliases == 1 ? 1 : 0;
    double factor = aliases == 0 ? (double)op.factor : 1;
    op.out = aliases == 0 ? lab_2d(lab, rows, channels, 1).t : aliases == 1 ? residual.t : x.t;
    double *expected = lab_doubles(lab, rows * channels);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t c = 0; c < channels; c++) {
            double value = x.x[i * channels + c] + (has_bias ? bias.x[c] : 0);
            expected[i * channels + c] = factor * value * lab_factor(&op.dropout, i, c, op.dropout.site) +
                                         (has_residual ? residual.x[i * channels + c] : 0);
        }
    }
    op_dropout_add(lab->device, &op);
    lab_expect(lab, op.out, expected);
    lab_clear(lab);
}

static inline void case_dropout_add(struct lab *lab) {
    for (int i = 0; i < LAYER_SIZES; i++) {
        for (int aliases = 0; aliases < 3; aliases++) {
            dropout_add_variant(lab, layer_sizes[i], 0, aliases);
            dropout_add_variant(lab, layer_sizes[i], 0.1f, aliases);
        }
    }
}

static inline void case_dropout_backward(struct lab *lab) {
    for (int i = 0; i < LAYER_SIZES; i++) {
        for (int variant = 0; variant < 4; variant++) {
            int64_t rows = layer_sizes[i][0], channels = layer_sizes[i][1];
            struct sample dy = lab_2d(lab, rows, channels, 1), dbias = lab_fp32_1d(lab, channels, 1);
            struct op_dropout_backward op = {.dy = dy.t, .dropout = lab_dropout(lab, variant & 1 ? 0.25f : 0, rows)};
            op.dx = variant & 2 ? dy.t : lab_2d(lab, rows, channels, 1).t;
            op.dbias = dbias.t;
            op.factor = variant >= 2 ? 2.5f : 0;
            double *expected = lab_doubles(lab, rows * channels), factor = variant >= 2 ? 2.5 : 1;
            for (int64_t n = 0; n < rows * channels; n++) {
                expected[n] = factor * dy.x[n] * lab_factor(&op.dropout, n / channels, n % channels, op.dropout.site);
                dbias.x[n % channels] += expected[n];
            }
            op_dropout_backward(lab->device, &op);
            lab_expect(lab, op.dx, expected);
            lab_expect(lab, op.dbias, dbias.x);
            lab_clear(lab);
        }
    }
}

// Dropped values must not be multiplied by 0: 0 times infinity is NaN.
static inline void case_dropout_not_finite(struct lab *lab) {
    enum { ROWS = 3, CHANNELS = 45 };
    static const double values[] = {INFINITY, -INFINITY, NAN};
    for (int v = 0; v < 3; v++) {
        struct tensor x = arena_2d(&lab->arena, lab->dtype, ROWS, CHANNELS), y = x;
        double *all = lab_doubles(lab, ROWS * CHANNELS);
        for (int64_t i = 0; i < ROWS * CHANNELS; i++)
            all[i] = values[v];
        lab_write(lab, x, all);
        y.data = arena_2d(&lab->arena, lab->dtype, ROWS, CHANNELS).data;
        struct dropout dropout = lab_dropout(lab, 0.5f, ROWS);
        op_dropout_add(lab->device, &(struct op_dropout_add){.out = y, .x = x, .dropout = dropout});
        op_dropout_backward(lab->device, &(struct op_dropout_backward){.dx = x, .dy = x, .dropout = dropout});
        double *forward = lab_read(lab, y), *backward = lab_read(lab, x);
        for (int64_t i = 0; i < ROWS * CHANNELS; i++) {
            double expected = values[v] * lab_factor(&dropout, i / CHANNELS, i % CHANNELS, dropout.site);
            EXPECT(isnan(expected) ? isnan(forward[i]) : forward[i] == expected);
            EXPECT(isnan(expected) ? isnan(backward[i]) : backward[i] == expected);
        }
        lab_clear(lab);
    }
}

enum { MASK_ROWS = 256, MASK_CHANNELS = 1000, MASK_COUNT = MASK_ROWS * MASK_CHANNELS };

// A mask over ones: 1 where it keeps and 0 where it drops.
static inline double *drawn_mask(struct lab *lab, const struct dropout *dropout, double scale) {
    struct tensor x = arena_2d(&lab->arena, lab->dtype, MASK_ROWS, MASK_CHANNELS);
    double *ones = lab_doubles(lab, MASK_COUNT);
    for (int64_t i = 0; i < MASK_COUNT; i++)
        ones[i] = 1;
    lab_write(lab, x, ones);
    op_dropout_add(lab->device, &(struct op_dropout_add){.out = x, .x = x, .dropout = *dropout});
    double *mask = lab_read(lab, x);
    for (int64_t i = 0; i < MASK_COUNT; i++) {
        EXPECT(mask[i] == 0 || fabs(mask[i] / scale - 1) < 1.0 / 200);  // bf16 has 8 bits
        mask[i] = mask[i] != 0;
    }
    return mask;
}

// The sum of products of deviations from the mean is within five standard deviations of 0.
static inline void expect_uncorrelated(const double *a, const double *b, int64_t count, double share) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (a[i] - share) * (b[i] - share);
    EXPECT(fabs(sum) < 5 * share * (1 - share) * sqrt((double)count));
}

// Masks keep the right share, and neighbouring columns (in a word, in a call and in the next), rows, sites and seeds
// are independent. Rows are numbered consecutively, like those of a batch.
static inline void case_dropout_statistics(struct lab *lab) {
    static const struct {
        float rate;
        double share;  // of dropped values
        int sites;
    } rates[] = {{0.1f, 6554.0 / 65536, 2}, {0.5f, 0.5, 2}, {0.999f, 65471.0 / 65536, 2}, {1e-5f, 1.0 / 65536, 16}};
    static const int64_t distances[] = {1, 2, 4, 8, MASK_CHANNELS, 8 * MASK_CHANNELS};
    for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++) {
        double kept_share = 1 - rates[r].share, kept = 0, count = (double)rates[r].sites * MASK_COUNT;
        for (int site = 0; site < rates[r].sites; site++) {
            struct dropout dropout = lab_dropout(lab, rates[r].rate, MASK_ROWS);
            int64_t *ids = lab_host(lab, MASK_ROWS * sizeof *ids);
            for (int64_t i = 0; i < MASK_ROWS; i++)
                ids[i] = 4096 + i;
            device_copy_in(lab->device, dropout.row_ids, ids);
            dropout.site = (uint32_t)site;
            double *mask = drawn_mask(lab, &dropout, 1 / kept_share);
            for (int64_t i = 0; i < MASK_COUNT; i++)
                kept += mask[i];
            // At the smallest rate so few are dropped that no two are neighbours.
            if (rates[r].share > 0.01) {
                for (size_t d = 0; d < sizeof distances / sizeof distances[0]; d++)
                    expect_uncorrelated(mask, mask + distances[d], MASK_COUNT - distances[d], kept_share);
                dropout.site++;
                expect_uncorrelated(mask, drawn_mask(lab, &dropout, 1 / kept_share), MASK_COUNT, kept_share);
                dropout.site--;
                dropout.seed++;
                expect_uncorrelated(mask, drawn_mask(lab, &dropout, 1 / kept_share), MASK_COUNT, kept_share);
            }
            lab_clear(lab);
        }
        EXPECT_NEAR(kept / count, kept_share, 5 * sqrt(kept_share * rates[r].share / count));
    }
}

// Rates are rounded up to multiples of 2^-16, but something is always kept, and the expectation is exact.
static inline void case_dropout_rates(struct lab *lab) {
    static const struct {
        float rate;
        uint32_t threshold;
    } rates[] = {{1e-30f, 1},   {1.0f / 65536, 1}, {1.001f / 65536, 2},       {0.1f, 6554},
                 {0.5f, 32768}, {0.75f, 49152},    {65535.0f / 65536, 65535}, {0.99999994f, 65535}};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        EXPECT_INT(dropout_threshold(rates[i].rate), rates[i].threshold);
        EXPECT_NEAR((double)dropout_scale(rates[i].rate) * (65536 - rates[i].threshold), 65536, 0.005);
        if (lab->dtype != DTYPE_F16)  // which ends below the largest scale
            dropout_add_variant(lab, (const int64_t[]){20, 77}, rates[i].rate, 0);
    }
}

#endif
