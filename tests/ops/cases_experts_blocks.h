// fp8 of experts by blocks: places that begin at multiples of a block, rows and what is between the matmuls, weights of
// several matrices, and matmuls over ragged groups, against loops in double that lay out factors themselves.
#ifndef TESTS_OPS_CASES_EXPERTS_BLOCKS_H
#define TESTS_OPS_CASES_EXPERTS_BLOCKS_H

#include "cases_blocks.h"
#include "cases_experts8.h"

static inline bool has_expert_blocks(struct lab *lab, enum scaling scaling) {
    return has_experts8(lab) && device_multiplies_groups8(lab->device, scaling);
}

static inline int64_t blocks_up(int64_t count, int64_t step) {
    return (count + step - 1) / step * step;
}

// Elements of a block down and across.
static inline int64_t block_height(enum scaling scaling) {
    return scaling == SCALING_BLOCK128 ? 128 : 1;
}
static inline int64_t block_width(enum scaling scaling) {
    return scaling == SCALING_VECTOR32 ? 32 : 128;
}

// Place of the factor of a matrix's element, and the number of places.
static inline int64_t naive_factor_place(enum scaling scaling, const int64_t size[2], int64_t r, int64_t c) {
    if (scaling == SCALING_VECTOR128)
        return c / 128 * blocks_up(size[0], 4) + r;
    if (scaling == SCALING_BLOCK128)
        return r / 128 * blocks_up(blocks_up(size[1], 128) / 128, 4) + c / 128;
    int64_t across = blocks_up(blocks_up(size[1], 32) / 32, 4) / 4, block = c / 32;
    return (r / 128 * across + block / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + block % 4;
}
static inline int64_t naive_factor_count(enum scaling scaling, const int64_t size[2]) {
    if (scaling == SCALING_VECTOR128)
        return blocks_up(size[1], 128) / 128 * blocks_up(size[0], 4);
    if (scaling == SCALING_BLOCK128)
        return blocks_up(size[0], 128) / 128 * blocks_up(blocks_up(size[1], 128) / 128, 4);
    return blocks_up(size[0], 128) * blocks_up(blocks_up(size[1], 32) / 32, 4);
}

static inline double *blocks_factors(struct lab *lab, struct tensor scales) {
    int64_t count = tensor_count(scales);
    double *out = lab_doubles(lab, count);
    void *raw = lab_host(lab, tensor_bytes(scales));
    device_copy_out(lab->device, raw, scales);
    for (int64_t i = 0; i < count; i++)
        out[i] = scales.dtype == DTYPE_F32 ? (double)((float *)raw)[i] : ldexp(1, ((uint8_t *)raw)[i] - 127);
    return out;
}

// One order of an operand: parts of `size` numbers each, one below the other or side by side.
struct blocks_view {
    enum scaling scaling;
    enum dtype dtype;
    const uint8_t *codes;
    const double *factors;
    int64_t size[2], part_stride, stride;  // of codes
};
static inline struct blocks_view view_of(struct lab *lab, const struct operand *y, bool is_turned, int64_t parts) {
    struct tensor t = is_turned ? y->transposed : y->value;
    struct blocks_view v = {.scaling = y->scaling, .dtype = t.dtype, .codes = float8_codes(lab, t)};
    v.factors = blocks_factors(lab, is_turned ? y->transposed_range : y->range);
    v.size[0] = is_turned ? t.shape[0] : t.shape[0] / parts;
    v.size[1] = is_turned ? t.shape[1] / parts : t.shape[1];
    v.part_stride = is_turned ? v.size[1] : v.size[0] * v.size[1];
    v.stride = t.shape[1];
    return v;
}
static inline double view_factor(const struct blocks_view *v, int64_t part, int64_t r, int64_t c) {
    return v->factors[part * naive_factor_count(v->scaling, v->size) + naive_factor_place(v->scaling, v->size, r, c)];
}
static inline uint8_t view_code(const struct blocks_view *v, int64_t part, int64_t r, int64_t c) {
    return v->codes[part * v->part_stride + r * v->stride + c];
}
static inline double view_number(const struct blocks_view *v, int64_t part, int64_t r, int64_t c) {
    return (double)float8_decode(v->dtype, view_code(v, part, r, c)) * view_factor(v, part, r, c);
}

// The smallest power of two with which `most` is within the dtype.
static inline double naive_factor(enum dtype dtype, double most) {
    double factor = ldexp(1, -127), largest = dtype == DTYPE_E4M3 ? 448 : 57344;
    while (most > largest * factor)
        factor *= 2;
    return most == 0 ? 1 : factor;
}

// What was stored of numbers x[part][r][c], given by their strides. If they are not exact, a factor may be the next one
// where the largest of a block is at a border.
struct blocks_numbers_view {
    const double *x;
    int64_t part_stride, row_stride, column_stride;
};
static inline void expect_block(const struct blocks_view *v, const struct blocks_numbers_view *n, const int64_t at[3],
                                bool is_exact) {
    int64_t last_row = at[1] + block_height(v->scaling), last = at[2] + block_width(v->scaling);
    double most = 0, factor = view_factor(v, at[0], at[1], at[2]);
    last_row = last_row < v->size[0] ? last_row : v->size[0];
    last = last < v->size[1] ? last : v->size[1];
    const double *x = n->x + at[0] * n->part_stride;
    for (int64_t r = at[1]; r < last_row; r++)
        for (int64_t c = at[2]; c < last; c++)
            most = fmax(most, fabs(x[r * n->row_stride + c * n->column_stride]));
    bool is_right = factor == naive_factor(v->dtype, most);
    if (!is_exact)
        is_right = is_right || factor == naive_factor(v->dtype, 0.998 * most) ||
                   factor == naive_factor(v->dtype, 1.002 * most);
    if (!is_right)
        test_fail("factor of part %" PRId64 " at (%" PRId64 ", %" PRId64 ") is %g, expected %g", at[0], at[1], at[2],
                  factor, naive_factor(v->dtype, most));
    for (int64_t r = at[1]; r < last_row; r++)
        for (int64_t c = at[2]; c < last; c++) {
            double value = x[r * n->row_stride + c * n->column_stride];
            if (is_exact)
                EXPECT_INT(view_code(v, at[0], r, c), float8_encode(v->dtype, (float)(value / factor)));
            else
                expect_stored(v->dtype, view_code(v, at[0], r, c), factor, INFINITY, value);
        }
}
static inline void expect_order(const struct blocks_view *v, const struct blocks_numbers_view *n, int64_t parts,
                                bool is_exact) {
    for (int64_t part = 0; part < parts; part++)
        for (int64_t r = 0; r < v->size[0]; r += block_height(v->scaling))
            for (int64_t c = 0; c < v->size[1]; c += block_width(v->scaling))
                expect_block(v, n, (const int64_t[3]){part, r, c}, is_exact);
}

// Both orders of an operand, of the matrices x (parts * rows, columns).
static inline void expect_blocks(struct lab *lab, const struct operand *y, const double *x, int64_t parts,
                                 bool is_exact) {
    struct blocks_view value = view_of(lab, y, false, parts), turned = view_of(lab, y, true, parts);
    int64_t rows = value.size[0], columns = value.size[1];
    expect_order(&value, &(struct blocks_numbers_view){x, rows * columns, columns, 1}, parts, is_exact);
    expect_order(&turned, &(struct blocks_numbers_view){x, rows * columns, 1, columns}, parts, is_exact);
}

// An operand whose factors have room for several matrices.
static inline struct operand blocks_parts(struct lab *lab, enum scaling scaling, enum dtype dtype, int64_t rows,
                                          const int64_t columns_and_parts[2]) {
    int64_t columns = columns_and_parts[0], parts = columns_and_parts[1];
    struct operand y = blocks_operand(lab, scaling, dtype, rows, columns);
    struct scales_shape value = scales_shape(scaling, rows / parts, columns);
    struct scales_shape turned = scales_shape(scaling, columns, rows / parts);
    y.range = arena_2d(&lab->arena, value.dtype, parts * value.rows, value.columns);
    y.transposed_range = arena_2d(&lab->arena, turned.dtype, parts * turned.rows, turned.columns);
    return y;
}

// Numbers of very different sizes, so that blocks have different factors.
static inline struct sample uneven_rows(struct lab *lab, int64_t rows, int64_t columns) {
    struct sample x = float8_bf16(lab, rows, columns, 1);
    for (int64_t i = 0; i < rows * columns; i++)
        x.x[i] = ldexp(x.x[i], (int)((i / columns * 5 + i % columns / 16 * 3) % 23) - 11);
    lab_write(lab, x.t, x.x);
    return x;
}

static const enum scaling expert_scalings[] = {SCALING_VECTOR128, SCALING_VECTOR32};
enum { EXPERT_SCALINGS = 2 };

// Weights of experts: matrices whose heights are no multiples of a block.
static inline void case_quantize_parts_blocks(struct lab *lab) {
    static const int64_t sizes[][3] = {{1, 128, 128}, {3, 48, 144}, {2, 272, 160}, {5, 16, 16}, {4, 144, 272}};
    static const enum scaling scalings[] = {SCALING_BLOCK128, SCALING_VECTOR32, SCALING_VECTOR128};
    for (int i = 0; i < 15; i++) {
        enum scaling scaling = scalings[i % 3];
        if (!has_expert_blocks(lab, scaling == SCALING_VECTOR32 ? SCALING_VECTOR32 : SCALING_VECTOR128))
            continue;
        const int64_t *size = sizes[i / 3], parts = size[0];
        struct sample x = uneven_rows(lab, parts * size[1], size[2]);
        struct operand y = blocks_parts(lab, scaling, i % 2 ? DTYPE_E5M2 : DTYPE_E4M3, parts * size[1],
                                        (const int64_t[2]){size[2], parts});
        op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = y, .x = x.t, .parts = parts});
        expect_blocks(lab, &y, x.x, parts, true);
        lab_clear(lab);
    }
}

// The cases of slots, aligned to a block.
static inline struct slots_case aligned_case(int i, enum scaling scaling) {
    struct slots_case c = slots_cases[i];
    c.aligned = block_width(scaling);
    return c;
}

// Places of which nearly all are empty take most of the time.
static inline bool has_too_many(const struct slots_case *c) {
    return c->experts * c->aligned > 10000;
}

static inline void case_quantize_slots_blocks(struct lab *lab) {
    static const int64_t columns[] = {16, 144, 272};
    for (int i = 0; i < EXPERT_SCALINGS * SLOTS_CASES; i++) {
        enum scaling scaling = expert_scalings[i / SLOTS_CASES];
        struct slots_case c = aligned_case(i % SLOTS_CASES, scaling);
        if (!has_expert_blocks(lab, scaling) || has_too_many(&c))
            continue;
        int64_t C = c.rows > 100 || c.experts > 10 ? 32 : columns[i % 3];
        struct slots s = make_slots(lab, &c);
        struct sample x = uneven_rows(lab, s.rows, C);
        struct operand y = blocks_operand(lab, scaling, i % 2 ? DTYPE_E5M2 : DTYPE_E4M3, s.places, C);
        op_quantize_slots(lab->device,
                          &(struct op_quantize_slots){.y = y, .x = x.t, .sources = s.sources_t, .per_row = s.chosen});
        expect_blocks(lab, &y, gathered_rows(lab, &s, &x, s.source, s.places), 1, true);
        lab_clear(lab);
    }
}

static inline void expert_blocks_variant(struct lab *lab, const struct slots_case *c, const struct expert_unit *unit,
                                         enum scaling scaling, int64_t F) {
    struct slots s = make_slots(lab, c);
    int64_t W = unit->is_gated ? 2 * F : F;
    struct sample x = float8_bf16(lab, s.places, W, 2), dy = float8_bf16(lab, s.places, F, 1);
    leave_limit(lab, &x, (double)unit->rule.limit);
    struct expert_numbers expected = {.F = F, .x = x.x, .dy = dy.x, .dbias = lab_doubles(lab, s.experts * W)};
    naive_experts(lab, unit, &s, &expected);
    struct operand y = blocks_operand(lab, scaling, DTYPE_E4M3, s.places, F),
                   again = blocks_operand(lab, scaling, DTYPE_E4M3, s.places, F);
    struct operand dx = blocks_operand(lab, scaling, F % 32 ? DTYPE_E5M2 : DTYPE_E4M3, s.places, W);
    struct tensor dweights = lab_fp32_2d(lab, s.rows, s.chosen, 1).t;
    op_quantize_expert_forward(lab->device, &(struct op_quantize_expert_forward){.y = y,
                                                                                 .x = x.t,
                                                                                 .weights = s.weights.t,
                                                                                 .offsets = s.offsets_t,
                                                                                 .sources = s.sources_t,
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
                                                                                   .sources = s.sources_t,
                                                                                   .activation = unit->activation,
                                                                                   .is_gated = unit->is_gated,
                                                                                   .rule = unit->rule});
    expect_blocks(lab, &y, expected.y, 1, false);
    expect_blocks(lab, &again, expected.y, 1, false);
    expect_blocks(lab, &dx, expected.dx, 1, false);
    double tolerance = lab->tolerance;
    lab->tolerance = 1e-3;  // exponentials with few bits
    lab_expect(lab, dweights, expected.dweights);
    lab->tolerance = tolerance;
    lab_clear(lab);
}

static inline void case_quantize_experts_blocks(struct lab *lab) {
    static const struct expert_unit units[] = {
        {ACTIVATION_SILU, true, false, {0, 0}},    {ACTIVATION_GELU_TANH, false, false, {0, 0}},
        {ACTIVATION_SILU, true, false, {0, 0}},    {ACTIVATION_QUICK_GELU, true, false, {1.5f, 1}},
        {ACTIVATION_SILU, false, false, {0, 0}},   {ACTIVATION_SQUARED_RELU, false, false, {0, 0}},
        {ACTIVATION_SILU, true, false, {1.5f, 0}},
    };
    static const int64_t columns[] = {16, 128, 144, 256};
    enum { UNITS = sizeof units / sizeof units[0] };
    for (int i = 0; i < EXPERT_SCALINGS * SLOTS_CASES; i++) {
        enum scaling scaling = expert_scalings[i / SLOTS_CASES];
        struct slots_case c = aligned_case(i % SLOTS_CASES, scaling);
        if (has_expert_blocks(lab, scaling) && !has_too_many(&c))
            expert_blocks_variant(lab, &c, &units[i % UNITS], scaling,
                                  c.rows > 100 || c.experts > 10 ? 32 : columns[i % 4]);
    }
}

// ---- matmuls over groups ----

// The numbers that one order of an operand stands for, those of all parts; laid out as its codes are.
static inline const double *view_numbers(struct lab *lab, const struct blocks_view *v, int64_t parts) {
    double *out = lab_doubles(lab, parts * v->size[0] * v->size[1]);
    for (int64_t part = 0; part < parts; part++)
        for (int64_t i = 0; i < v->size[0] * v->size[1]; i++)
            out[part * v->part_stride + i / v->size[1] * v->stride + i % v->size[1]] =
                view_number(v, part, i / v->size[1], i % v->size[1]);
    return out;
}

struct group_blocks {
    int64_t E, O, I, R;
    const int32_t *offsets;
    enum scaling scaling;
};

// Result of one kind: sums of products of the operands' values.
static inline struct sum8 *group_blocks_naive(struct lab *lab, const struct group_blocks *g, enum grouped_kind kind,
                                              const double *a, const double *b) {
    int64_t E = g->E, O = g->O, I = g->I, step = block_width(g->scaling);
    int64_t count = kind == GROUPED_WEIGHT ? E * O * I : g->R * (kind == GROUPED_FORWARD ? O : I);
    struct sum8 *sums = lab_host(lab, sizeof *sums * (size_t)count);
    memset(sums, 0, sizeof *sums * (size_t)count);
    for (int64_t e = 0; e < E; e++)
        for (int64_t r = g->offsets[e]; r < g->offsets[e + 1]; r++)
            for (int64_t o = 0; o < O; o++)
                for (int64_t i = 0; i < I; i++) {
                    if (kind == GROUPED_FORWARD)
                        sum8_add(&sums[r * O + o], a[r * I + i] * b[(e * O + o) * I + i], i % step == 0);
                    else if (kind == GROUPED_INPUT)
                        sum8_add(&sums[r * I + i], a[r * O + o] * b[i * E * O + e * O + o], o % step == 0);
                    else
                        sum8_add(&sums[(e * O + o) * I + i], a[o * g->R + r] * b[i * g->R + r], r % step == 0);
                }
    return sums;
}

// An operand of random numbers, in both orders.
static inline struct operand group_operand(struct lab *lab, enum scaling scaling, enum dtype dtype, int64_t rows,
                                           const int64_t columns_and_parts[2]) {
    struct sample x = uneven_rows(lab, rows, columns_and_parts[0]);
    struct operand y = blocks_parts(lab, scaling, dtype, rows, columns_and_parts);
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = y, .x = x.t, .parts = columns_and_parts[1]});
    return y;
}

static inline void expect_group_blocks(struct lab *lab, const struct group_blocks *g, struct op_grouped_matmul *op,
                                       const struct operand *a, const struct operand *b) {
    const double of_bf16 = ldexp(1, -8), of_fp32 = ldexp(1, -22);
    bool is_weight = op->kind == GROUPED_WEIGHT, turns_b = op->kind != GROUPED_FORWARD;
    int64_t parts = is_weight ? 1 : g->E;
    struct blocks_view of_a = view_of(lab, a, is_weight, 1), of_b = view_of(lab, b, turns_b, parts);
    struct sum8 *sums =
        group_blocks_naive(lab, g, op->kind, view_numbers(lab, &of_a, 1), view_numbers(lab, &of_b, parts));
    op->a = is_weight ? a->transposed : a->value;
    op->a_range = is_weight ? a->transposed_range : a->range;
    op->a_scaling = a->scaling;
    op->b = turns_b ? b->transposed : tensor_3d(b->value.data, b->value.dtype, g->E, g->O, g->I);
    op->b_range = turns_b ? b->transposed_range : b->range;
    op->b_scaling = b->scaling;
    const double *before = lab_read(lab, op->d);
    op_grouped_matmul(lab->device, op);
    const double *expected =
        sums8_expected(lab, sums, is_weight && op->beta == 0 ? NULL : before, tensor_count(op->d), is_weight);
    expect_sums8(lab, op->d, expected, sums, is_weight ? of_fp32 : of_bf16);
}

// Sizes of groups are in blocks.
static inline void group_blocks_variant(struct lab *lab, enum scaling scaling, enum dtype gradients,
                                        const struct grouped_case *c) {
    int32_t offsets[GROUPED_MOST + 1] = {0};
    struct group_blocks g = {.E = c->experts, .O = c->outputs, .I = c->inputs, .offsets = offsets, .scaling = scaling};
    for (int64_t e = 0; e < g.E; e++)
        offsets[e + 1] = offsets[e] + c->sizes[e] * (int32_t)block_width(scaling);
    g.R = offsets[g.E] + block_width(scaling);  // the last ones belong to no expert
    enum scaling weights = scaling == SCALING_VECTOR128 ? SCALING_BLOCK128 : scaling;
    struct operand x = group_operand(lab, scaling, DTYPE_E4M3, g.R, (const int64_t[2]){g.I, 1});
    struct operand dy = group_operand(lab, scaling, gradients, g.R, (const int64_t[2]){g.O, 1});
    struct operand w = group_operand(lab, weights, DTYPE_E4M3, g.E * g.O, (const int64_t[2]){g.I, g.E});
    struct op_grouped_matmul op = {.kind = GROUPED_FORWARD, .offsets = lab_ints(lab, g.E + 1, offsets)};
    op.d = float8_bf16(lab, g.R, g.O, 1).t;
    expect_group_blocks(lab, &g, &op, &x, &w);
    op.kind = GROUPED_INPUT;
    op.d = float8_bf16(lab, g.R, g.I, 1).t;
    expect_group_blocks(lab, &g, &op, &dy, &w);
    op.kind = GROUPED_WEIGHT;
    op.d = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, g.E, g.O, g.I), 1).t;
    op.beta = 1;
    expect_group_blocks(lab, &g, &op, &dy, &x);
    op.beta = 0;
    expect_group_blocks(lab, &g, &op, &dy, &x);
    lab_clear(lab);
}

// Experts without rows, one that takes all, and widths that are no multiples of a block.
static inline void case_grouped_blocks(struct lab *lab) {
    static const struct grouped_case cases[] = {
        {1, 128, 128, {1}},      {1, 16, 32, {0}},           {3, 48, 16, {0, 2, 1}},
        {4, 128, 64, {0, 0, 3}}, {5, 144, 80, {0, 1, 0, 1}}, {2, 272, 160, {1, 1}},
        {1, 32, 528, {1}},       {2, 16, 272, {6, 5}},       {1, 656, 16, {2}},
    };
    for (size_t i = 0; i < 4 * (sizeof cases / sizeof cases[0]); i++) {
        enum scaling scaling = expert_scalings[i % 2];
        if (has_expert_blocks(lab, scaling))
            group_blocks_variant(lab, scaling, i / 2 % 2 ? DTYPE_E4M3 : DTYPE_E5M2, &cases[i / 4]);
    }
}

#endif
