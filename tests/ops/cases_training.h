// Loss, sums, the choice of learning rates and copies, against double-precision loops.
#ifndef TESTS_OPS_CASES_TRAINING_H
#define TESTS_OPS_CASES_TRAINING_H

#include "lab.h"

struct loss_setup {
    struct sample logits, weights;
    struct op_softmax_stats stats;
    struct op_cross_entropy loss;
    int32_t *labels;
    double *max, *sum, *target, *losses, *gradient;  // expected; the gradient is of the local columns
};

// Labels over a vocabulary of which the local columns are [start, start + columns); other ranks hold the rest.
static inline void loss_setup(struct lab *lab, struct loss_setup *s, const int64_t size[2], int64_t start) {
    int64_t rows = size[0], columns = size[1];
    s->logits = lab_2d(lab, rows, columns, 8);
    s->weights = lab_fp32_1d(lab, rows, 1);
    s->labels = lab_host(lab, (size_t)rows * sizeof *s->labels);
    for (int64_t n = 0; n < rows; n++)
        s->labels[n] = (int32_t)(start + (start > 0 && n % 3 == 1 ? -1 : n * 7 % columns));
    s->weights.x[rows / 2] = 0;
    lab_write(lab, s->weights.t, s->weights.x);
    struct tensor labels = lab_ints(lab, rows, s->labels);
    s->stats = (struct op_softmax_stats){.row_max = lab_fp32_1d(lab, rows, 1).t,
                                         .row_sum = lab_fp32_1d(lab, rows, 1).t,
                                         .row_target = lab_fp32_1d(lab, rows, 1).t,
                                         .logits = s->logits.t,
                                         .labels = labels,
                                         .vocabulary_start = start};
    s->loss = (struct op_cross_entropy){.losses = lab_fp32_1d(lab, rows, 1).t,
                                        .logits = s->logits.t,
                                        .row_max = s->stats.row_max,
                                        .row_sum = s->stats.row_sum,
                                        .row_target = s->stats.row_target,
                                        .labels = labels,
                                        .vocabulary_start = start};
}

static inline void naive_loss(struct lab *lab, struct loss_setup *s, int64_t start, const double *logits) {
    int64_t rows = s->logits.t.shape[0], columns = s->logits.t.shape[1];
    s->max = lab_doubles(lab, rows);
    s->sum = lab_doubles(lab, rows);
    s->target = lab_doubles(lab, rows);
    s->losses = lab_doubles(lab, rows);
    s->gradient = lab_doubles(lab, rows * columns);
    for (int64_t n = 0; n < rows; n++) {
        const double *x = logits + n * columns;
        int64_t label = s->labels[n] - start;
        s->max[n] = x[0];
        for (int64_t c = 0; c < columns; c++)
            s->max[n] = x[c] > s->max[n] ? x[c] : s->max[n];
        for (int64_t c = 0; c < columns; c++)
            s->sum[n] += exp(x[c] - s->max[n]);
        s->target[n] = label >= 0 && label < columns ? x[label] : 0;
        s->losses[n] = log(s->sum[n]) + s->max[n] - s->target[n];
        for (int64_t c = 0; c < columns; c++)
            s->gradient[n * columns + c] = s->weights.x[n] * (exp(x[c] - s->max[n]) / s->sum[n] - (c == label));
    }
}

static inline void case_cross_entropy(struct lab *lab) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 17}, {17, 3}, {65, 65}, {5, 2048}, {3, 5001}, {40, 1000}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t rows = sizes[i][0], columns = sizes[i][1];
        struct loss_setup s;
        loss_setup(lab, &s, sizes[i], 0);
        naive_loss(lab, &s, 0, s.logits.x);
        double *direction = lab_direction(lab, rows * columns);
        op_softmax_stats(lab->device, &s.stats);
        lab_expect(lab, s.stats.row_max, s.max);
        lab_expect(lab, s.stats.row_sum, s.sum);
        lab_expect(lab, s.stats.row_target, s.target);
        op_cross_entropy(lab->device, &s.loss);
        lab_expect(lab, s.loss.losses, s.losses);
        lab_expect(lab, s.loss.logits, s.logits.x);  // without weights nothing is overwritten
        s.loss.weights = s.weights.t;
        op_cross_entropy(lab->device, &s.loss);
        lab_expect(lab, s.loss.losses, s.losses);
        lab_expect(lab, s.loss.logits, s.gradient);
        double slope = lab_inner(lab_read(lab, s.loss.logits), direction, rows * columns), loss[2];
        for (int side = 0; side < 2; side++) {
            naive_loss(lab, &s, 0, lab_moved(lab, s.logits.x, direction, side == 0 ? 1e-5 : -1e-5, rows * columns));
            loss[side] = lab_inner(s.losses, s.weights.x, rows);
        }
        lab_expect_slope(lab, slope, loss[0], loss[1], 1e-5);
        lab_clear(lab);
    }
}

// Two ranks with half the vocabulary each, with merged statistics, give the same as one rank.
static inline void case_cross_entropy_parts(struct lab *lab) {
    int64_t size[2] = {9, 33}, rows = 9, columns = 33;
    struct loss_setup s;
    loss_setup(lab, &s, size, 40);
    naive_loss(lab, &s, 40, s.logits.x);
    op_softmax_stats(lab->device, &s.stats);
    lab_expect(lab, s.stats.row_target, s.target);
    // The other rank's largest logit is 1 above ours, its sum is 3, and its target, where we do not have it, is 2.
    double *max = lab_doubles(lab, rows), *sum = lab_doubles(lab, rows), *target = lab_doubles(lab, rows);
    double *losses = lab_doubles(lab, rows), *gradient = lab_doubles(lab, rows * columns);
    for (int64_t n = 0; n < rows; n++) {
        int64_t label = s.labels[n] - 40;
        max[n] = s.max[n] + 1;
        sum[n] = s.sum[n] * exp(-1) + 3;
        target[n] = label >= 0 ? s.target[n] : 2;
        losses[n] = log(sum[n]) + max[n] - target[n];
        for (int64_t c = 0; c < columns; c++)
            gradient[n * columns + c] =
                s.weights.x[n] * (exp(s.logits.x[n * columns + c] - max[n]) / sum[n] - (c == label));
    }
    const double *own[3] = {lab_read(lab, s.stats.row_max), lab_read(lab, s.stats.row_sum),
                            lab_read(lab, s.stats.row_target)};
    struct sample parts = lab_fp32_1d(lab, 6 * rows, 1);
    for (int64_t n = 0; n < rows; n++) {
        double others[3] = {s.max[n] + 1, 3, s.labels[n] >= 40 ? 0 : 2};
        for (int64_t which = 0; which < 3; which++) {
            parts.x[which * rows + n] = own[which][n];
            parts.x[(3 + which) * rows + n] = others[which];
        }
    }
    lab_write(lab, parts.t, parts.x);
    op_softmax_merge(lab->device, &(struct op_softmax_merge){.row_max = s.stats.row_max,
                                                             .row_sum = s.stats.row_sum,
                                                             .row_target = s.stats.row_target,
                                                             .parts = tensor_3d(parts.t.data, DTYPE_F32, 2, 3, rows)});
    lab_expect(lab, s.stats.row_max, max);
    lab_expect(lab, s.stats.row_sum, sum);
    lab_expect(lab, s.stats.row_target, target);
    s.loss.weights = s.weights.t;
    op_cross_entropy(lab->device, &s.loss);
    lab_expect(lab, s.loss.losses, losses);
    lab_expect(lab, s.loss.logits, gradient);
}

// One NaN among the logits, at any place, makes the loss NaN: a run that went wrong must show it. Columns of minus
// infinity are normal and count as probability 0.
static inline void case_cross_entropy_nan(struct lab *lab) {
    enum { ROWS = 5, COLUMNS = 5000 };
    struct loss_setup s;
    loss_setup(lab, &s, (int64_t[]){ROWS, COLUMNS}, 0);
    s.logits.x[0 * COLUMNS + 3] = NAN;
    s.logits.x[1 * COLUMNS + COLUMNS - 1] = NAN;
    for (int64_t c = 0; c < 2500; c++) {
        s.logits.x[2 * COLUMNS + c] = NAN;
        s.logits.x[3 * COLUMNS + c] = -INFINITY;
    }
    s.labels[3] = COLUMNS - 1;
    s.stats.labels = s.loss.labels = lab_ints(lab, ROWS, s.labels);
    lab_write(lab, s.logits.t, s.logits.x);
    naive_loss(lab, &s, 0, s.logits.x);
    op_softmax_stats(lab->device, &s.stats);
    op_cross_entropy(lab->device, &s.loss);
    double *losses = lab_read(lab, s.loss.losses);
    EXPECT(isnan(losses[0]) && isnan(losses[1]) && isnan(losses[2]));
    EXPECT_NEAR(losses[3], s.losses[3], lab->tolerance);
    EXPECT_NEAR(losses[4], s.losses[4], lab->tolerance);
}

// Both halves at once, as in training with the whole vocabulary on one rank: rows of even and of odd length, more of
// them than a GPU has multiprocessors, and a vocabulary of the usual size.
static inline void case_cross_entropy_whole(struct lab *lab) {
    static const int64_t sizes[][2] = {{3, 17}, {65, 64}, {300, 1000}, {300, 999}, {3, 50304}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (lab_is_tiny() && sizes[i][0] * sizes[i][1] > 10000)
            continue;
        struct loss_setup s;
        loss_setup(lab, &s, sizes[i], 0);
        naive_loss(lab, &s, 0, s.logits.x);
        s.loss.makes_stats = true;
        op_cross_entropy(lab->device, &s.loss);
        lab_expect(lab, s.loss.losses, s.losses);
        lab_expect(lab, s.loss.logits, s.logits.x);  // without weights nothing is overwritten
        s.loss.weights = s.weights.t;
        op_cross_entropy(lab->device, &s.loss);
        lab_expect(lab, s.loss.losses, s.losses);
        lab_expect(lab, s.loss.row_max, s.max);
        lab_expect(lab, s.loss.row_sum, s.sum);
        lab_expect(lab, s.loss.row_target, s.target);
        lab_expect(lab, s.loss.logits, s.gradient);
        lab_clear(lab);
    }
}

// Logits through a cap: the gradient is that of what the cap was given.
static inline void case_cross_entropy_capped(struct lab *lab) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 17}, {17, 64}, {65, 65}, {5, 2049}, {40, 1000}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t rows = sizes[i][0], columns = sizes[i][1], count = rows * columns;
        const double cap = 3;
        struct loss_setup s;
        loss_setup(lab, &s, sizes[i], 0);
        double *capped = lab_doubles(lab, count);
        for (int64_t n = 0; n < count; n++)
            capped[n] = cap * tanh(s.logits.x[n] / cap);
        op_softcap(lab->device, &(struct op_softcap){.x = s.logits.t, .cap = (float)cap});
        lab_expect(lab, s.logits.t, capped);
        capped = lab_read(lab, s.logits.t);  // rounded: from here on these are the logits
        naive_loss(lab, &s, 0, capped);
        for (int64_t n = 0; n < count; n++)
            s.gradient[n] *= 1 - pow(capped[n] / cap, 2);
        s.loss.makes_stats = true;
        s.loss.cap = (float)cap;
        s.loss.weights = s.weights.t;
        op_cross_entropy(lab->device, &s.loss);
        lab_expect(lab, s.loss.losses, s.losses);
        lab_expect(lab, s.loss.logits, s.gradient);
        lab_clear(lab);
    }
}

// With a z-loss, of the whole vocabulary and of a part of it whose statistics are those of all.
static inline void case_cross_entropy_z(struct lab *lab) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 17}, {17, 64}, {65, 65}, {5, 2049}, {40, 1000}};
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t *size = sizes[i / 2], rows = size[0], columns = size[1], start = i % 2 ? 5 : 0;
        const double z = 0.03;
        struct loss_setup s;
        loss_setup(lab, &s, size, start);
        naive_loss(lab, &s, start, s.logits.x);
        for (int64_t n = 0; n < rows; n++) {
            double all = log(s.sum[n]) + s.max[n];
            s.losses[n] += z * all * all;
            for (int64_t c = 0; c < columns; c++)
                s.gradient[n * columns + c] += s.weights.x[n] * 2 * z * all * exp(s.logits.x[n * columns + c] - all);
        }
        s.loss.makes_stats = start == 0;
        if (start > 0)
            op_softmax_stats(lab->device, &s.stats);
        s.loss.z = (float)z;
        s.loss.weights = s.weights.t;
        op_cross_entropy(lab->device, &s.loss);
        lab_expect(lab, s.loss.losses, s.losses);
        lab_expect(lab, s.loss.logits, s.gradient);
        lab_clear(lab);
    }
}

// NaN where NaN is expected, the same infinity where that is expected, and all other numbers within the tolerance.
static inline void expect_kinds(struct lab *lab, const char *name, const double *actual, const double *expected,
                                int64_t count) {
    double squares = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(expected[i])) {
            squares += expected[i] * expected[i];
            finite++;
        }
    double size = sqrt(squares / (double)(finite > 0 ? finite : 1));
    for (int64_t i = 0; i < count; i++) {
        bool is_right = isnan(expected[i]) ? isnan(actual[i])
                        : isinf(expected[i])
                            ? actual[i] == expected[i]
                            : fabs(actual[i] - expected[i]) <= lab->tolerance * (fabs(expected[i]) + size);
        if (!is_right)
            test_fail("%s[%" PRId64 "] is %.9g, expected %.9g", name, i, actual[i], expected[i]);
    }
}

// With fp16 an overflow leaves infinities and NaN among the logits. Such a row must show it in its loss and in all of
// its gradient, unless its weight is 0, and no other row may.
static inline void expect_not_finite(struct lab *lab, int64_t columns, bool is_whole) {
    enum { NAN_EARLY, NAN_LAST, HALF_NAN, HALF_LOW, USUAL, LOW_LABEL, ALL_LOW, HIGH, NAN_UNWEIGHTED, ROWS };
    static const double weights[ROWS] = {1, -0.5, 2, 1.5, -1, 0.75, 1, 1, 0};
    struct loss_setup s;
    loss_setup(lab, &s, (int64_t[]){ROWS, columns}, 0);
    double *x = s.logits.x;
    x[NAN_EARLY * columns + 3] = x[NAN_LAST * columns + columns - 1] = x[NAN_UNWEIGHTED * columns + 5] = NAN;
    x[HIGH * columns + columns / 3] = INFINITY;
    for (int64_t c = 0; c < columns; c++) {
        x[ALL_LOW * columns + c] = -INFINITY;
        if (c < columns / 2) {
            x[HALF_NAN * columns + c] = NAN;
            x[HALF_LOW * columns + c] = x[LOW_LABEL * columns + c] = -INFINITY;
        }
    }
    memcpy(s.weights.x, weights, sizeof weights);
    s.labels[HALF_LOW] = (int32_t)columns - 1;
    s.labels[LOW_LABEL] = 4;
    s.stats.labels = s.loss.labels = lab_ints(lab, ROWS, s.labels);
    lab_write(lab, s.logits.t, x);
    lab_write(lab, s.weights.t, s.weights.x);
    naive_loss(lab, &s, 0, x);
    EXPECT(isnan(s.losses[NAN_EARLY]) && isnan(s.losses[ALL_LOW]) && isnan(s.losses[HIGH]));
    EXPECT(s.losses[LOW_LABEL] == (double)INFINITY && isfinite(s.losses[HALF_LOW]) && isfinite(s.losses[USUAL]));
    memset(s.gradient + NAN_UNWEIGHTED * columns, 0, (size_t)columns * sizeof *s.gradient);
    s.loss.weights = s.weights.t;
    s.loss.makes_stats = is_whole;
    if (!is_whole)
        op_softmax_stats(lab->device, &s.stats);
    op_cross_entropy(lab->device, &s.loss);
    expect_kinds(lab, "losses", lab_read(lab, s.loss.losses), s.losses, ROWS);
    expect_kinds(lab, "gradient", lab_read(lab, s.loss.logits), s.gradient, ROWS * columns);
    lab_clear(lab);
}

static inline void case_cross_entropy_not_finite(struct lab *lab) {
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        expect_not_finite(lab, 64, is_whole);
        expect_not_finite(lab, 5000, is_whole);
        expect_not_finite(lab, 5001, is_whole);
    }
}

// Logits that are all far below 0 give the same losses as near 0, even if a row is so short that most threads of a
// block have nothing to add.
static inline void case_cross_entropy_low(struct lab *lab) {
    enum { ROWS = 3, COLUMNS = 17 };
    struct loss_setup s;
    loss_setup(lab, &s, (int64_t[]){ROWS, COLUMNS}, 0);
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
        s.logits.x[i] -= 200;
    lab_write(lab, s.logits.t, s.logits.x);
    naive_loss(lab, &s, 0, s.logits.x);
    op_softmax_stats(lab->device, &s.stats);
    lab_expect(lab, s.stats.row_sum, s.sum);
    op_cross_entropy(lab->device, &s.loss);
    lab_expect(lab, s.loss.losses, s.losses);
}

// Counts labels among the largest logits, including equal logits and NaN.
static inline void case_top_hits(struct lab *lab) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 17}, {17, 3}, {65, 65}, {5, 2048}, {200, 500}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t rows = sizes[i][0], columns = sizes[i][1];
        struct sample logits = lab_fp32_1d(lab, rows * columns, 4), hits = lab_fp32_1d(lab, 3, 1);
        int32_t *labels = lab_host(lab, (size_t)rows * sizeof *labels);
        struct op_top_hits op = {.tops = {1, 2, columns / 2 + 1}, .count = 3, .hits = hits.t};
        for (int64_t n = 0; n < rows * columns; n++)
            logits.x[n] = n % 11 == 5 && columns > 1 ? NAN : (double)(float)(round(4 * logits.x[n]) / 4);
        lab_write(lab, logits.t, logits.x);
        for (int64_t n = 0; n < rows; n++) {
            labels[n] = (int32_t)(n * 5 % columns);
            const double *x = logits.x + n * columns;
            for (int k = 0; k < op.count && !isnan(x[labels[n]]); k++) {
                int64_t larger = 0;
                for (int64_t c = 0; c < columns; c++)
                    larger += x[c] > x[labels[n]] || (c < labels[n] && x[c] == x[labels[n]]);
                hits.x[k] += larger < op.tops[k];
            }
        }
        op.labels = lab_ints(lab, rows, labels);
        op.logits = tensor_reshape_2d(logits.t, rows, columns);
        op_top_hits(lab->device, &op);
        lab_expect(lab, hits.t, hits.x);
        lab_clear(lab);
    }
}

static inline void case_sums(struct lab *lab) {
    static const int64_t sizes[][2] = {{1, 1},     {3, 17},      {17, 3},     {65, 65},   {1000, 100},
                                       {7, 20000}, {130, 10000}, {3001, 264}, {999, 1000}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t rows = sizes[i][0], columns = sizes[i][1], count = rows * columns;
        struct sample x = lab_2d(lab, rows, columns, 1), out = lab_fp32_1d(lab, columns, 1);
        op_column_sum(lab->device, &(struct op_column_sum){.out = out.t, .x = x.t});
        for (int64_t n = 0; n < count; n++)
            out.x[n % columns] += x.x[n];
        lab_expect(lab, out.t, out.x);
        struct sample a = lab_fp32_1d(lab, count, 1), b = lab_fp32_1d(lab, count, 1), sum = lab_fp32_1d(lab, 1, 1);
        struct sample squares = lab_fp32_1d(lab, 1, 1);
        op_dot(lab->device, &(struct op_dot){.out = sum.t, .a = a.t, .b = b.t});
        op_sum_squares(lab->device, &(struct op_sum_squares){.out = squares.t, .x = a.t});
        // The terms of a dot product cancel: the error is measured against the sum of their magnitudes.
        double size = 0;
        for (int64_t n = 0; n < count; n++) {
            sum.x[0] += a.x[n] * b.x[n];
            size += fabs(a.x[n] * b.x[n]);
            squares.x[0] += a.x[n] * a.x[n];
        }
        EXPECT(fabs(lab_read(lab, sum.t)[0] - sum.x[0]) <= 1e-6 * (1 + size));
        EXPECT_NEAR(lab_read(lab, squares.t)[0], squares.x[0], 2e-6);
        lab_clear(lab);
    }
}

// The digest of formulas.h, byte by byte: words of eight bytes, the last padded with zeros.
static inline uint64_t plain_digest(const unsigned char *bytes, size_t count, uint64_t seed) {
    uint64_t sum = 0;
    for (size_t first = 0; first < count; first += 8) {
        uint64_t word = 0;
        for (size_t i = 0; i < 8 && first + i < count; i++)
            word |= (uint64_t)bytes[first + i] << 8 * i;
        word = (word ^ (seed + first / 8 * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;
        sum += word ^ (word >> 32);
    }
    return sum;
}

static inline uint64_t lab_digest(struct lab *lab, struct tensor x, uint64_t seed) {
    struct tensor out = arena_1d(&lab->arena, DTYPE_I64, 1);
    int64_t value = 1000;
    device_copy_in(lab->device, out, &value);
    device_synchronize(lab->device);
    op_digest(lab->device, &(struct op_digest){.out = out, .x = x, .seed = seed});
    device_copy_out(lab->device, &value, out);
    return (uint64_t)value - 1000;
}

static inline void case_digest(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 65, 16384, 70001, 1200007};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct sample x = lab_1d(lab, counts[i], 1);
        size_t size = dtype_bytes(lab->dtype), bytes = (size_t)counts[i] * size;
        unsigned char *host = lab_host(lab, bytes);
        device_copy_out(lab->device, host, x.t);
        uint64_t whole = plain_digest(host, bytes, 77);
        EXPECT(lab_digest(lab, x.t, 77) == whole);
        EXPECT(lab_digest(lab, x.t, 78) != whole);
        // A range that does not begin at a multiple of eight bytes.
        if (counts[i] > 1)
            EXPECT(lab_digest(lab, tensor_rows(x.t, 1, counts[i] - 1), 5) ==
                   plain_digest(host + size, bytes - size, 5));
        // The lowest bit of the last element, and two elements that change places.
        host[bytes - size] ^= 1;
        device_copy_in(lab->device, x.t, host);
        EXPECT(lab_digest(lab, x.t, 77) != whole);
        host[bytes - size] ^= 1;
        bool is_same = counts[i] == 1 || memcmp(host, host + bytes - size, size) == 0;
        for (size_t k = 0; k < size; k++) {
            unsigned char byte = host[k];
            host[k] = host[bytes - size + k];
            host[bytes - size + k] = byte;
        }
        device_copy_in(lab->device, x.t, host);
        EXPECT((lab_digest(lab, x.t, 77) == whole) == is_same);
        lab_clear(lab);
    }
}

static inline void case_clip_scale(struct lab *lab) {
    // sum of squares, largest norm, expected scale
    static const double rows[][3] = {{4, 1, 1 / 2.000001}, {0.25, 1, 1},       {100, 0, 1},   {0, 1, 1},
                                     {9, -1, 1},           {INFINITY, 1, NAN}, {NAN, 1, NAN}, {NAN, 0, NAN}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sample scale = lab_fp32_1d(lab, 1, 1), norm = lab_fp32_1d(lab, 1, 1), squares = lab_fp32_1d(lab, 1, 1);
        double value = rows[i][0];
        lab_write(lab, squares.t, &value);
        op_clip_scale(lab->device,
                      &(struct op_clip_scale){
                          .scale = scale.t, .norm = norm.t, .sum_squares = squares.t, .max_norm = (float)rows[i][1]});
        double actual = lab_read(lab, scale.t)[0];
        if (isnan(rows[i][2])) {
            EXPECT(!isfinite(actual));
        } else {
            EXPECT_NEAR(actual, rows[i][2], 1e-6);
            EXPECT_NEAR(lab_read(lab, norm.t)[0], sqrt(rows[i][0]), 1e-6);
        }
        lab_clear(lab);
    }
}

// The row of rates for the number of skipped steps is used, and a norm that is not finite counts as one.
static inline void case_rates(struct lab *lab) {
    static const double squares[] = {1, NAN, 4, INFINITY, NAN, 9};
    static const double before[] = {5, 5, 6, 6, 7, 8};  // skipped ones
    struct sample scale = lab_fp32_1d(lab, 1, 1), norm = lab_fp32_1d(lab, 1, 1), sum = lab_fp32_1d(lab, 1, 1);
    struct sample skipped = lab_fp32_1d(lab, 1, 1), rate = lab_fp32_1d(lab, RATE_LENGTH, 1);
    struct sample rates = lab_fp32_1d(lab, 4 * RATE_LENGTH, 1);
    lab_write(lab, skipped.t, (double[]){5});
    for (int row = 0; row < 4; row++)
        rates.x[row * RATE_LENGTH + RATE_SKIPPED] = 5 + row;
    lab_write(lab, rates.t, rates.x);
    for (size_t i = 0; i < sizeof squares / sizeof squares[0]; i++) {
        lab_write(lab, sum.t, (double[]){squares[i]});
        op_clip_scale(lab->device, &(struct op_clip_scale){.scale = scale.t,
                                                           .norm = norm.t,
                                                           .sum_squares = sum.t,
                                                           .rate = rate.t,
                                                           .rates = tensor_2d(rates.t.data, DTYPE_F32, 4, RATE_LENGTH),
                                                           .skipped = skipped.t});
        double *row = rates.x + (int)(before[i] - 5) * RATE_LENGTH, *now = lab_read(lab, rate.t);
        for (int n = 0; n < RATE_LENGTH; n++)
            EXPECT(now[n] == (double)(float)row[n]);
        EXPECT(lab_read(lab, skipped.t)[0] == before[i] + !isfinite(squares[i]));
    }
    lab_clear(lab);
}

// Copies with any strides keep every element, and do not change what is between the rows of the target.
static inline void case_copy(struct lab *lab) {
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {3, 1, 17, 2}, {2, 65, 3, 5}, {2, 3, 4, 700}, {1, 200, 3, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t *shape = shapes[i];
        int64_t wide[4] = {shape[0], shape[1] + 2, shape[2] + 1, shape[3]};
        for (int variant = 0; variant < 4; variant++) {
            struct sample small = lab_4d(lab, shape, 1), large = lab_4d(lab, wide, 1);
            struct tensor view = tensor_slice(tensor_slice(large.t, 1, 1, shape[1]), 2, 0, shape[2]);
            bool is_gather = variant & 1;
            if (variant & 2)
                view = small.t;  // contiguous on both sides
            struct sample target = lab_4d(lab, shape, 1);
            struct tensor dst = is_gather ? target.t : view, src = is_gather ? view : target.t;
            op_copy(lab->device, &(struct op_copy){.dst = dst, .src = src});
            double *now = lab_read(lab, variant & 2 ? small.t : large.t), *other = lab_read(lab, target.t);
            for (int64_t n = 0; n < wide[0] * wide[1] * wide[2] * wide[3] && !(variant & 2); n++) {
                int64_t d = n % wide[3], h = n / wide[3] % wide[2], t = n / wide[3] / wide[2] % wide[1] - 1;
                int64_t b = n / wide[3] / wide[2] / wide[1];
                bool is_inside = h < shape[2] && t >= 0 && t < shape[1];
                if (is_inside)
                    EXPECT(now[n] == other[((b * shape[1] + t) * shape[2] + h) * shape[3] + d]);
                if (!is_inside || is_gather)
                    EXPECT(now[n] == large.x[n]);
            }
            for (int64_t n = 0; n < tensor_count(target.t) && (variant & 2); n++)
                EXPECT(now[n] == other[n]);
            lab_clear(lab);
        }
    }
    // To fp32 and back: values that the dtype can hold survive.
    struct sample x = lab_2d(lab, 33, 70, 1);
    struct tensor single = arena_2d(&lab->arena, DTYPE_F32, 33, 70), back = arena_2d(&lab->arena, lab->dtype, 33, 70);
    op_copy(lab->device, &(struct op_copy){.dst = single, .src = x.t});
    op_copy(lab->device, &(struct op_copy){.dst = back, .src = single});
    double *first = lab_read(lab, single), *second = lab_read(lab, back);
    for (int64_t n = 0; n < 33 * 70; n++)
        EXPECT(first[n] == x.x[n] && second[n] == x.x[n]);
}

static inline void case_scale(struct lab *lab) {
    static const int64_t counts[] = {1, 3, 17, 65, 70001, 200000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct sample x = lab_fp32_1d(lab, counts[i], 1);
        op_scale(lab->device, &(struct op_scale){.x = x.t, .factor = 0.3f});
        for (int64_t n = 0; n < counts[i]; n++)
            x.x[n] *= (double)0.3f;
        lab_expect(lab, x.t, x.x);
        lab_clear(lab);
    }
}

#endif
