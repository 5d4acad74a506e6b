// fp8 of experts: rows at their places, what is between the matmuls, and matmuls over ragged groups, against loops in
// double over the values of the codes. Inputs are bf16, the only dtype that all devices quantize.
#ifndef TESTS_OPS_CASES_EXPERTS8_H
#define TESTS_OPS_CASES_EXPERTS8_H

#include "cases_experts.h"
#include "cases_float8.h"

// Once, whatever dtypes a program runs its cases in, and where such matmuls are.
static inline bool has_experts8(struct lab *lab) {
    return lab->dtype == DTYPE_F32 && device_supports(lab->device, DTYPE_E4M3) &&
           device_multiplies_groups8(lab->device, SCALING_TENSOR);
}

// The sources of slots for a multiple of 16 places; those behind the others have none.
struct places8 {
    int64_t count;
    int32_t *source;
    struct tensor sources;
};
static inline struct places8 make_places8(struct lab *lab, const struct slots *s) {
    struct places8 p = {.count = (s->places + 15) / 16 * 16};
    p.source = lab_host(lab, sizeof *p.source * (size_t)p.count);
    for (int64_t r = 0; r < p.count; r++)
        p.source[r] = r < s->places ? s->source[r] : -1;
    p.sources = lab_ints(lab, p.count, p.source);
    return p;
}

static inline void quantize_slots_variant(struct lab *lab, const struct slots_case *c, int64_t C, enum dtype dtype) {
    struct slots s = make_slots(lab, c);
    struct places8 p = make_places8(lab, &s);
    struct sample x = float8_bf16(lab, s.rows, C, 3);
    struct operand y = float8_operand(lab, dtype, p.count, C, 2);
    op_quantize_slots(lab->device,
                      &(struct op_quantize_slots){.y = y, .x = x.t, .sources = p.sources, .per_row = s.chosen});
    const uint8_t *codes = float8_codes(lab, y.value), *turned = float8_codes(lab, y.transposed);
    const double *numbers = lab_read(lab, y.range), *rows = gathered_rows(lab, &s, &x, p.source, p.count);
    double most = 0;
    for (int64_t at = 0; at < p.count * C; at++) {
        most = fmax(most, fabs(rows[at]));
        EXPECT_INT(codes[at], float8_encode(dtype, (float)rows[at] * (float)numbers[RANGE_SCALE]));
        EXPECT_INT(turned[at % C * p.count + at / C], codes[at]);
    }
    EXPECT(numbers[RANGE_SEEN] == most);
    lab_clear(lab);
}

static inline void case_quantize_slots(struct lab *lab) {
    static const int64_t columns[] = {16, 48, 144, 1040};
    for (int i = 0; i < SLOTS_CASES && has_experts8(lab); i++)
        quantize_slots_variant(lab, &slots_cases[i], slots_cases[i].rows > 100 ? 32 : columns[i % 4],
                               i % 2 ? DTYPE_E5M2 : DTYPE_E4M3);
}

// A stored matrix in both orders, and the largest magnitude that its range saw: `most`, or none.
static inline void expect_operand8(struct lab *lab, const struct operand *to, const double *expected, int64_t rows,
                                   double largest, bool sees) {
    const uint8_t *codes = float8_codes(lab, to->value), *turned = float8_codes(lab, to->transposed);
    const double *numbers = lab_read(lab, to->range);
    int64_t columns = to->value.shape[1], all = to->value.shape[0];
    double most = 0;
    for (int64_t r = 0; r < all; r++)
        for (int64_t c = 0; c < columns; c++) {
            double value = r < rows ? expected[r * columns + c] : 0;
            most = fmax(most, fabs(value));
            expect_stored(to->value.dtype, codes[r * columns + c], numbers[RANGE_FACTOR], largest, value);
            EXPECT_INT(turned[c * all + r], codes[r * columns + c]);
        }
    EXPECT(sees ? fabs(numbers[RANGE_SEEN] - most) <= 1e-3 * most + 1e-9 : numbers[RANGE_SEEN] == 0);
}

static inline void quantize_expert_variant(struct lab *lab, const struct slots_case *c, int64_t F,
                                           const struct expert_unit *unit) {
    struct slots s = make_slots(lab, c);
    struct places8 p = make_places8(lab, &s);
    int64_t W = unit->is_gated ? 2 * F : F;
    struct sample x = float8_bf16(lab, p.count, W, 2), dy = float8_bf16(lab, p.count, F, 1);
    leave_limit(lab, &x, (double)unit->rule.limit);
    struct expert_numbers expected = {.F = F, .x = x.x, .dy = dy.x, .dbias = lab_doubles(lab, s.experts * W)};
    naive_experts(lab, unit, &s, &expected);
    struct operand y = float8_operand(lab, DTYPE_E4M3, p.count, F, 2),
                   again = float8_operand(lab, DTYPE_E4M3, p.count, F, 2);
    struct operand dx = float8_operand(lab, DTYPE_E5M2, p.count, W, 2);
    struct tensor dweights = lab_fp32_2d(lab, s.rows, s.chosen, 1).t;
    op_quantize_expert_forward(lab->device, &(struct op_quantize_expert_forward){.y = y,
                                                                                 .x = x.t,
                                                                                 .weights = s.weights.t,
                                                                                 .offsets = s.offsets_t,
                                                                                 .sources = p.sources,
                                                                                 .activation = unit->activation,
                                                                                 .is_gated = unit->is_gated,
                                                                                 .rule = unit->rule});
    op_quantize_expert_backward(lab->device, &(struct op_quantize_expert_backward){.dx = dx,
                                                                                   .y = again,
                                                                                   .dweights = dweights,
                                                                                   .dy = dy.t,
                                                                                   .x = x.t,
                                                                                   .weights = s.weights.t,
                                                                                   .offsets = s.offsets_t,
                                                                                   .sources = p.sources,
                                                                                   .activation = unit->activation,
                                                                                   .is_gated = unit->is_gated,
                                                                                   .rule = unit->rule});
    expect_operand8(lab, &y, expected.y, s.places, 2, true);
    expect_operand8(lab, &again, expected.y, s.places, 2, false);
    expect_operand8(lab, &dx, expected.dx, s.places, 2, true);
    double tolerance = lab->tolerance;
    lab->tolerance = 1e-3;  // exponentials with few bits
    lab_expect(lab, dweights, expected.dweights);
    lab->tolerance = tolerance;
    lab_clear(lab);
}

static inline void case_quantize_experts(struct lab *lab) {
    static const struct expert_unit units[] = {
        {ACTIVATION_SILU, true, false, {0, 0}},          {ACTIVATION_GELU_TANH, false, false, {0, 0}},
        {ACTIVATION_SQUARED_RELU, false, false, {0, 0}}, {ACTIVATION_QUICK_GELU, true, false, {1.5f, 1}},
        {ACTIVATION_GELU, true, false, {0, 0}},          {ACTIVATION_SILU, false, false, {0, 0}},
        {ACTIVATION_SILU, true, false, {1, 0}}};
    static const int64_t columns[] = {16, 64, 304};
    enum { UNITS = sizeof units / sizeof units[0] };
    for (int i = 0; i < SLOTS_CASES && has_experts8(lab); i++)
        quantize_expert_variant(lab, &slots_cases[i], slots_cases[i].rows > 100 ? 32 : columns[i % 3],
                                &units[i % UNITS]);
}

// ---- matmuls over groups ----

enum { GROUPED8_MOST = 256, GROUPED8_STAGE = 128 };

// A sum over products of fp8. Tensor cores align 32 products and the sum so far to the largest of them and cut off what
// is more than 13 bits below it; gradients begin anew every GROUPED8_STAGE steps and add what they had in fp32.
struct sum8 {
    double total, part;  // part: since the sum began anew
    double most;         // of the products' and parts' magnitudes
    int64_t count;
};
static inline void sum8_add(struct sum8 *s, double product, bool begins) {
    s->total += product;
    s->part = (begins ? 0 : s->part) + product;
    s->most = fmax(s->most, fmax(fabs(product), fabs(s->part)));
    s->count++;
}

// Each of the numbers that are aligned loses less than a unit, on average of squares a third of one. Their signs
// differ, so the sum is off by a random walk: six standard deviations are allowed. The CPU's units are those of fp32.
static inline double sum8_error(const struct lab *lab, const struct sum8 *s) {
    double unit = ldexp(s->most, strcmp(lab->device->ops->name, "cpu") == 0 ? -22 : -13);
    double numbers = (double)(s->count + (s->count + 31) / 32 + 1);
    return unit * fmin(numbers, 6 * sqrt(numbers / 3));
}

// `rounding` is that of the result's dtype. What has no sum is as it was.
static inline void expect_sums8(struct lab *lab, struct tensor t, const double *expected, const struct sum8 *sums,
                                double rounding) {
    const double *actual = lab_read(lab, t);
    for (int64_t i = 0; i < tensor_count(t); i++) {
        double error = sum8_error(lab, &sums[i]);
        double allowed = error + rounding * (fabs(expected[i]) + error);
        if (!(fabs(actual[i] - expected[i]) <= allowed))
            test_fail("sum %" PRId64 " of %" PRId64 " is %.9g, expected %.9g within %.3g", i, tensor_count(t),
                      actual[i], expected[i], allowed);
    }
}

// Results of the three kinds of matmuls.
struct grouped8_sums {
    struct sum8 *y, *dx, *dw;  // (R, O), (R, I), (E, O, I)
};
static inline struct grouped8_sums grouped8_naive(struct lab *lab, const int32_t *offsets, const struct sample *x,
                                                  const struct sample *dy, const struct sample *w) {
    int64_t R = x->t.shape[0], I = x->t.shape[1], O = dy->t.shape[1], E = w->t.shape[0] / O;
    struct grouped8_sums s = {.y = lab_host(lab, sizeof *s.y * (size_t)(R * O)),
                              .dx = lab_host(lab, sizeof *s.dx * (size_t)(R * I)),
                              .dw = lab_host(lab, sizeof *s.dw * (size_t)(E * O * I))};
    memset(s.y, 0, sizeof *s.y * (size_t)(R * O));
    memset(s.dx, 0, sizeof *s.dx * (size_t)(R * I));
    memset(s.dw, 0, sizeof *s.dw * (size_t)(E * O * I));
    for (int64_t e = 0; e < E; e++)
        for (int64_t r = offsets[e]; r < offsets[e + 1]; r++)
            for (int64_t i = 0; i < O * I; i++) {
                int64_t o = i / I, c = i % I, step = r - offsets[e] / 16 * 16;
                sum8_add(&s.y[r * O + o], x->x[r * I + c] * w->x[e * O * I + i], false);
                sum8_add(&s.dx[r * I + c], dy->x[r * O + o] * w->x[e * O * I + i], o % GROUPED8_STAGE == 0);
                sum8_add(&s.dw[e * O * I + i], dy->x[r * O + o] * x->x[r * I + c], step % GROUPED8_STAGE == 0);
            }
    return s;
}

// The totals, times 1, of sums that have products; the others are as they were, as are those that are added to.
static inline const double *sums8_expected(struct lab *lab, const struct sum8 *sums, const double *before,
                                           int64_t count, bool adds) {
    double *expected = lab_doubles(lab, count);
    for (int64_t i = 0; i < count; i++)
        expected[i] = sums[i].total + (before && (adds || sums[i].count == 0) ? before[i] : 0);
    return expected;
}

static inline void grouped8_variant(struct lab *lab, int64_t E, int64_t O, int64_t I, const int32_t *sizes) {
    int32_t offsets[GROUPED8_MOST + 1] = {0};
    for (int64_t e = 0; e < E; e++)
        offsets[e + 1] = offsets[e] + sizes[e];
    int64_t R = (offsets[E] + 31) / 16 * 16;  // the last ones belong to no expert
    struct tensor starts = lab_ints(lab, E + 1, offsets), of_x = float8_range(lab, DTYPE_E4M3, 2);
    struct tensor of_w = float8_range(lab, DTYPE_E4M3, 3), of_dy = float8_range(lab, DTYPE_E5M2, 2);
    struct sample x = float8_factor(lab, DTYPE_E4M3, of_x, R, I), dy = float8_factor(lab, DTYPE_E5M2, of_dy, R, O);
    struct sample w = float8_factor(lab, DTYPE_E4M3, of_w, E * O, I);
    struct tensor xt = arena_2d(&lab->arena, DTYPE_E4M3, I, R), dyt = arena_2d(&lab->arena, DTYPE_E5M2, O, R);
    struct tensor wt = arena_2d(&lab->arena, DTYPE_E4M3, I, E * O);
    op_transpose(lab->device, &(struct op_transpose){.y = xt, .x = x.t});
    op_transpose(lab->device, &(struct op_transpose){.y = dyt, .x = dy.t});
    op_transpose(lab->device, &(struct op_transpose){.y = wt, .x = w.t});
    struct sample dw = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, E, O, I), 1);
    struct sample y = float8_bf16(lab, R, O, 1), dx = float8_bf16(lab, R, I, 1);
    struct grouped8_sums sums = grouped8_naive(lab, offsets, &x, &dy, &w);
    const double of_bf16 = ldexp(1, -8), of_fp32 = ldexp(1, -22);
    struct op_grouped_matmul op = {.kind = GROUPED_FORWARD, .d = y.t, .a = x.t, .offsets = starts};
    op.b = tensor_3d(w.t.data, DTYPE_E4M3, E, O, I);
    op.a_range = of_x;
    op.b_range = of_w;
    op_grouped_matmul(lab->device, &op);
    expect_sums8(lab, y.t, sums8_expected(lab, sums.y, y.x, R * O, false), sums.y, of_bf16);
    op = (struct op_grouped_matmul){.kind = GROUPED_INPUT, .d = dx.t, .a = dy.t, .b = wt, .offsets = starts};
    op.a_range = of_dy;
    op.b_range = of_w;
    op_grouped_matmul(lab->device, &op);
    expect_sums8(lab, dx.t, sums8_expected(lab, sums.dx, dx.x, R * I, false), sums.dx, of_bf16);
    op = (struct op_grouped_matmul){.kind = GROUPED_WEIGHT, .d = dw.t, .a = dyt, .b = xt, .offsets = starts};
    op.a_range = of_dy;
    op.b_range = of_x;
    op.beta = 1;
    op_grouped_matmul(lab->device, &op);
    expect_sums8(lab, dw.t, sums8_expected(lab, sums.dw, dw.x, E * O * I, true), sums.dw, of_fp32);
    op.beta = 0;
    op_grouped_matmul(lab->device, &op);
    expect_sums8(lab, dw.t, sums8_expected(lab, sums.dw, NULL, E * O * I, false), sums.dw, of_fp32);
    lab_clear(lab);
}

// Gradients of weights sum over all rows of an expert. With 14 bits a sum of ones would end at 2^14; it must be exact.
static inline void grouped8_many_rows(struct lab *lab) {
    enum { E = 2, SIZE = 16, FIRST = 5, R = 40016 };
    const int32_t offsets[E + 1] = {0, FIRST, R};
    uint8_t *codes = lab_host(lab, SIZE * R);
    struct op_grouped_matmul op = {.kind = GROUPED_WEIGHT,
                                   .d = arena_3d(&lab->arena, DTYPE_F32, E, SIZE, SIZE),
                                   .a = arena_2d(&lab->arena, DTYPE_E5M2, SIZE, R),
                                   .b = arena_2d(&lab->arena, DTYPE_E4M3, SIZE, R),
                                   .a_range = float8_range(lab, DTYPE_E5M2, (double)float8_kind(DTYPE_E5M2).largest),
                                   .b_range = float8_range(lab, DTYPE_E4M3, (double)float8_kind(DTYPE_E4M3).largest),
                                   .offsets = lab_ints(lab, E + 1, offsets)};
    memset(codes, float8_encode(DTYPE_E5M2, 1), SIZE * R);
    device_copy_in(lab->device, op.a, codes);
    device_synchronize(lab->device);
    memset(codes, float8_encode(DTYPE_E4M3, 1), SIZE * R);
    device_copy_in(lab->device, op.b, codes);
    op_grouped_matmul(lab->device, &op);
    const double *actual = lab_read(lab, op.d);
    for (int i = 0; i < E * SIZE * SIZE; i++)
        EXPECT(actual[i] == (i < SIZE * SIZE ? FIRST : R - FIRST));
    lab_clear(lab);
}

// Experts without rows, one that takes all, rows that end anywhere, and 256 experts.
static inline void case_grouped_float8(struct lab *lab) {
    static const struct grouped_case cases[] = {
        {1, 16, 16, {1}},
        {1, 16, 32, {0}},
        {3, 48, 16, {0, 5, 1}},
        {4, 64, 32, {0, 64, 1, 33}},
        {2, 48, 1040, {3, 200}},
        {8, 96, 144, {1, 0, 7, 65, 0, 0, 129, 2}},
        {5, 144, 80, {0, 0, 300, 0, 0}},
        {4, 256, 64, {128, 127, 129, 256}},
        {4, 368, 336, {130, 0, 1, 66}},
        {3, 272, 528, {63, 64, 65}},
    };
    if (!has_experts8(lab))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        grouped8_variant(lab, cases[i].experts, cases[i].outputs, cases[i].inputs, cases[i].sizes);
    int32_t sizes[GROUPED8_MOST];
    for (int i = 0; i < GROUPED8_MOST; i++)
        sizes[i] = i % 7 == 3 ? 0 : i % 5;
    grouped8_variant(lab, GROUPED8_MOST, 32, 48, sizes);
    grouped8_many_rows(lab);
}

#endif
