// Slots sorted by expert, rows that move there and back, what is between the matmuls of experts, and matmuls over
// ragged groups, against plain loops.
#ifndef TESTS_OPS_CASES_EXPERTS_H
#define TESTS_OPS_CASES_EXPERTS_H

#include "cases_models.h"
#include "cases_router.h"

enum spread { SPREAD_EVEN, SPREAD_ONE, SPREAD_FEW, SPREAD_FOREIGN, SPREAD_COUNT };
struct slots_case {
    int64_t rows, chosen, experts, capacity;
    bool by_weight, is_padded;
    enum spread spread;  // all experts; one takes all; most have none; some slots belong to other ranks
    int64_t aligned;
};

// Slots of random experts, sorted by a plain loop.
struct slots {
    int64_t rows, chosen, experts, places;
    int32_t *expert, *source, *place, *offset;  // of slots; of places; of slots; of experts
    struct sample weights;                      // (N, K) fp32
    struct tensor experts_t, sources_t, places_t, offsets_t;
};

static inline int32_t slot_expert(const struct slots_case *c, uint32_t random) {
    int32_t experts = (int32_t)c->experts, any = (int32_t)(random >> 8) % experts;
    if (c->spread == SPREAD_ONE)
        return experts / 2;
    if (c->spread == SPREAD_FEW)
        return any % 3 * (experts - 1) / 2;
    return c->spread == SPREAD_FOREIGN && random % 4 == 0 ? (random % 8 == 0 ? -1 : experts + any) : any;
}

static inline bool slot_is_kept(const struct slots *s, const struct slots_case *c, int64_t slot) {
    int64_t before = 0;
    for (int64_t i = 0; i < s->rows * s->chosen; i++) {
        double difference = c->by_weight ? s->weights.x[i] - s->weights.x[slot] : 0;
        before += s->expert[i] == s->expert[slot] && (difference > 0 || (difference == 0 && i < slot));
    }
    return c->capacity == 0 || before < c->capacity;
}

static inline struct tensor slots_ints(struct lab *lab, int64_t a, int64_t b, const int32_t *values) {
    return tensor_reshape_2d(lab_ints(lab, a * b, values), a, b);
}

static inline struct slots make_slots(struct lab *lab, const struct slots_case *c) {
    int64_t count = c->rows * c->chosen, room = c->experts * c->capacity;
    struct slots s = {.rows = c->rows, .chosen = c->chosen, .experts = c->experts};
    // Two places more than are needed, unless all are.
    s.places = c->is_padded ? room : c->capacity > 0 && room < count ? room + 2 : count + 2;
    if (c->aligned > 1) {
        int64_t each = (c->capacity + c->aligned - 1) / c->aligned * c->aligned;
        s.places = c->is_padded ? c->experts * each
                                : (count + c->experts * (c->aligned - 1) + c->aligned - 1) / c->aligned * c->aligned;
    }
    s.expert = lab_host(lab, sizeof *s.expert * (size_t)count);
    s.place = lab_host(lab, sizeof *s.place * (size_t)count);
    s.source = lab_host(lab, sizeof *s.source * (size_t)s.places);
    s.offset = lab_host(lab, sizeof *s.offset * (size_t)(c->experts + 1));
    s.weights = lab_fp32_2d(lab, c->rows, c->chosen, 1);
    for (int64_t i = 0; i < count; i++) {
        s.expert[i] = slot_expert(c, philox4x32(lab->seed, (uint32_t)i, 0, 0, 3).word[0]);
        s.weights.x[i] = nearbyint(s.weights.x[i] * 8) / 8;  // many are equal
        s.place[i] = -1;
    }
    lab_write(lab, s.weights.t, s.weights.x);
    for (int64_t r = 0; r < s.places; r++)
        s.source[r] = -1;
    int32_t place = 0;
    for (int64_t e = 0; e < c->experts; e++) {
        s.offset[e] = place;
        for (int64_t i = 0; i < count; i++) {
            if (s.expert[i] != e || !slot_is_kept(&s, c, i))
                continue;
            s.place[i] = place;
            s.source[place++] = (int32_t)i;
        }
        if (c->is_padded)
            place = s.offset[e] + (int32_t)c->capacity;
        while (c->aligned > 1 && place % c->aligned != 0)
            place++;
    }
    s.offset[c->experts] = place;
    s.experts_t = slots_ints(lab, c->rows, c->chosen, s.expert);
    s.places_t = slots_ints(lab, c->rows, c->chosen, s.place);
    s.sources_t = lab_ints(lab, s.places, s.source);
    s.offsets_t = lab_ints(lab, c->experts + 1, s.offset);
    return s;
}

static const struct slots_case slots_cases[] = {
    {1, 1, 1, 0, false, false, SPREAD_EVEN, 0},       {17, 2, 4, 0, false, false, SPREAD_EVEN, 0},
    {40, 3, 5, 0, false, false, SPREAD_FOREIGN, 0},   {65, 2, 3, 0, false, false, SPREAD_ONE, 0},
    {50, 4, 64, 0, false, false, SPREAD_FEW, 0},      {33, 8, 256, 0, false, false, SPREAD_EVEN, 0},
    {40, 2, 5, 9, false, false, SPREAD_EVEN, 0},      {40, 2, 5, 9, true, false, SPREAD_EVEN, 0},
    {40, 2, 5, 11, false, true, SPREAD_FEW, 0},       {40, 2, 5, 11, true, true, SPREAD_FEW, 0},
    {30, 3, 7, 1, true, false, SPREAD_ONE, 0},        {30, 3, 7, 200, true, true, SPREAD_FOREIGN, 0},
    {700, 8, 37, 0, false, false, SPREAD_FOREIGN, 0}, {900, 6, 8, 500, true, false, SPREAD_EVEN, 0},
    {900, 6, 8, 700, false, true, SPREAD_FEW, 0},     {800, 4, 3, 900, true, true, SPREAD_ONE, 0},
};
enum { SLOTS_CASES = sizeof slots_cases / sizeof slots_cases[0] };

static inline void sort_slots_variant(struct lab *lab, const struct slots_case *c) {
    struct slots s = make_slots(lab, c);
    struct op_sort_slots op = {.offsets = arena_1d(&lab->arena, DTYPE_I32, s.experts + 1),
                               .sources = arena_1d(&lab->arena, DTYPE_I32, s.places),
                               .places = arena_2d(&lab->arena, DTYPE_I32, s.rows, s.chosen),
                               .experts = s.experts_t,
                               .capacity = c->capacity,
                               .aligned = c->aligned,
                               .is_padded = c->is_padded};
    if (c->by_weight)
        op.weights = s.weights.t;
    op_sort_slots(lab->device, &op);
    expect_ints(lab, op.offsets, s.offset, "offsets");
    expect_ints(lab, op.sources, s.source, "sources");
    expect_ints(lab, op.places, s.place, "places");
    if (!c->is_padded) {
        // Slots that were dropped before have no place without a capacity either.
        struct op_sort_slots again = {.offsets = arena_1d(&lab->arena, DTYPE_I32, s.experts + 1),
                                      .places = arena_2d(&lab->arena, DTYPE_I32, s.rows, s.chosen),
                                      .experts = s.experts_t,
                                      .kept = op.places,
                                      .aligned = c->aligned};
        again.sources = arena_1d(&lab->arena, DTYPE_I32, c->aligned > 1 ? s.places : s.rows * s.chosen);
        op_sort_slots(lab->device, &again);
        int64_t filled = s.offset[s.experts];
        expect_ints(lab, again.offsets, s.offset, "offsets of kept slots");
        expect_ints(lab, tensor_rows(again.sources, 0, filled), s.source, "sources of kept slots");
        expect_ints(lab, again.places, s.place, "places of kept slots");
    }
    lab_clear(lab);
}

static inline void case_sort_slots(struct lab *lab) {
    for (int i = 0; i < SLOTS_CASES && lab->dtype == DTYPE_F32; i++)
        sort_slots_variant(lab, &slots_cases[i]);
}

static inline void case_sort_slots_aligned(struct lab *lab) {
    static const int64_t steps[] = {1, 7, 32, 128};
    bool has_blocks = device_multiplies_groups8(lab->device, SCALING_VECTOR128);
    for (int i = 0; i < 4 * SLOTS_CASES && lab->dtype == DTYPE_F32 && has_blocks; i++) {
        struct slots_case c = slots_cases[i % SLOTS_CASES];
        c.aligned = steps[i / SLOTS_CASES];
        sort_slots_variant(lab, &c);
    }
}

// Experts as biases are looked up by: those of slots without a place are not read.
static inline void sum_slots_variant(struct lab *lab, const struct slots_case *c, int64_t C) {
    struct slots s = make_slots(lab, c);
    struct sample y = lab_2d(lab, s.places, C, 1), bias = lab_2d(lab, s.experts, C, 1),
                  addend = lab_2d(lab, s.rows, C, 1);
    double *plain = lab_doubles(lab, s.rows * C), *full = lab_doubles(lab, s.rows * C);
    for (int64_t i = 0; i < s.rows * s.chosen * C; i++) {
        int64_t slot = i / C, at = slot / s.chosen * C + i % C;
        if (s.place[slot] < 0)
            continue;
        plain[at] += y.x[s.place[slot] * C + i % C];
        full[at] += y.x[s.place[slot] * C + i % C] + s.weights.x[slot] * bias.x[s.expert[slot] * C + i % C];
    }
    struct op_sum_slots op = {.out = lab_2d(lab, s.rows, C, 1).t, .y = y.t, .places = s.places_t};
    op_sum_slots(lab->device, &op);
    lab_expect(lab, op.out, plain);
    op.out = op.addend = addend.t;
    op.bias = bias.t;
    op.experts = s.experts_t;
    op.weights = s.weights.t;
    op_sum_slots(lab->device, &op);
    lab_expect(lab, op.out, lab_moved(lab, full, addend.x, 1, s.rows * C));
    struct sample dout = lab_2d(lab, s.rows, C, 1), dbias = lab_fp32_2d(lab, s.experts, C, 1);
    struct sample dweights = lab_fp32_2d(lab, s.rows, s.chosen, 1);
    op_slot_bias_backward(lab->device, &(struct op_slot_bias_backward){.dbias = dbias.t,
                                                                       .dweights = dweights.t,
                                                                       .dout = dout.t,
                                                                       .bias = bias.t,
                                                                       .weights = s.weights.t,
                                                                       .offsets = s.offsets_t,
                                                                       .sources = s.sources_t});
    for (int64_t i = 0; i < s.rows * s.chosen * C; i++) {
        int64_t slot = i / C, c_at = i % C;
        if (s.place[slot] < 0)
            continue;
        dbias.x[s.expert[slot] * C + c_at] += s.weights.x[slot] * dout.x[slot / s.chosen * C + c_at];
        dweights.x[slot] += dout.x[slot / s.chosen * C + c_at] * bias.x[s.expert[slot] * C + c_at];
    }
    lab_expect(lab, dbias.t, dbias.x);
    lab_expect(lab, dweights.t, dweights.x);
    lab_clear(lab);
}

static inline void case_sum_slots(struct lab *lab) {
    static const int64_t columns[] = {1, 17, 64, 300};
    for (int i = 0; i < SLOTS_CASES; i++)
        sum_slots_variant(lab, &slots_cases[i], slots_cases[i].rows > 100 ? 24 : columns[i % 4]);
}

// Rows of x (rows, C) at their places; 0 where there is no source.
static inline double *gathered_rows(struct lab *lab, const struct slots *s, const struct sample *x,
                                    const int32_t *source, int64_t places) {
    int64_t C = x->t.shape[1];
    double *y = lab_doubles(lab, places * C);
    for (int64_t at = 0; at < places * C; at++)
        y[at] = source[at / C] < 0 ? 0 : x->x[source[at / C] / s->chosen * C + at % C];
    return y;
}

static inline void case_gather_slots(struct lab *lab) {
    static const int64_t columns[] = {1, 17, 64, 1030};
    for (int i = 0; i < SLOTS_CASES; i++) {
        struct slots s = make_slots(lab, &slots_cases[i]);
        int64_t C = s.rows > 100 ? 24 : columns[i % 4];
        struct sample x = lab_2d(lab, s.rows, C, 1), y = lab_2d(lab, s.places, C, 1);
        op_gather_slots(lab->device,
                        &(struct op_gather_slots){.y = y.t, .x = x.t, .sources = s.sources_t, .per_row = s.chosen});
        lab_expect(lab, y.t, gathered_rows(lab, &s, &x, s.source, s.places));
        lab_clear(lab);
    }
}

// ---- what is between the matmuls ----

struct expert_unit {
    enum activation activation;
    bool is_gated, has_bias;
    struct glu_rule rule;
};

// y without its weight, and its slopes by gate and up, at column f of place r.
struct expert_value {
    double y, dgate, dup;
};
static inline struct expert_value naive_expert(const struct expert_unit *unit, const double *x, const double *bias,
                                               int64_t f, int64_t F) {
    double gate = x[f] + (unit->has_bias ? bias[f] : 0);
    double value = naive_activation(unit->activation, gate), slope = naive_slope(unit->activation, gate);
    if (!unit->is_gated)
        return (struct expert_value){value, slope, 0};
    double up = x[F + f] + (unit->has_bias ? bias[F + f] : 0);
    return (struct expert_value){naive_glu(unit->activation, unit->rule, gate, up),
                                 naive_glu_slope(unit->activation, unit->rule, gate, up, false),
                                 naive_glu_slope(unit->activation, unit->rule, gate, up, true)};
}

struct expert_numbers {
    int64_t F;
    const double *x, *bias, *dy;  // bias: only if the unit has one
    double *dbias;                // added to
    double *y, *dx, *dweights;    // out, in the lab's memory
};

static inline void naive_experts(struct lab *lab, const struct expert_unit *unit, const struct slots *s,
                                 struct expert_numbers *n) {
    int64_t F = n->F, W = unit->is_gated ? 2 * F : F;
    n->y = lab_doubles(lab, s->places * F);
    n->dx = lab_doubles(lab, s->places * W);
    n->dweights = lab_doubles(lab, s->rows * s->chosen);
    for (int64_t slot = 0; slot < s->rows * s->chosen; slot++) {
        int64_t r = s->place[slot], e = s->expert[slot];
        for (int64_t f = 0; f < F && r >= 0; f++) {
            double weight = s->weights.x[slot];
            struct expert_value at = naive_expert(unit, n->x + r * W, n->bias ? n->bias + e * W : NULL, f, F);
            n->y[r * F + f] = weight * at.y;
            n->dweights[slot] += n->dy[r * F + f] * at.y;
            n->dx[r * W + f] = weight * n->dy[r * F + f] * at.dgate;
            n->dbias[e * W + f] += n->dx[r * W + f];
            if (!unit->is_gated)
                continue;
            n->dx[r * W + F + f] = weight * n->dy[r * F + f] * at.dup;
            n->dbias[e * W + F + f] += n->dx[r * W + F + f];
        }
    }
}

static inline void expert_activation_variant(struct lab *lab, const struct slots_case *c, int64_t F,
                                             const struct expert_unit *unit) {
    struct slots s = make_slots(lab, c);
    int64_t W = unit->is_gated ? 2 * F : F;
    struct sample x = glu_inputs(lab, s.places, W, (double)unit->rule.limit), bias = lab_2d(lab, s.experts, W, 0);
    if (unit->has_bias && unit->activation != ACTIVATION_RELU && unit->rule.limit == 0)
        bias = lab_2d(lab, s.experts, W, 1);
    struct sample dy = lab_2d(lab, s.places, F, 1), dbias = lab_fp32_2d(lab, s.experts, W, 1);
    struct expert_numbers expected = {.F = F, .x = x.x, .bias = bias.x, .dy = dy.x, .dbias = dbias.x};
    naive_experts(lab, unit, &s, &expected);
    struct op_expert_activation_forward forward = {.y = lab_2d(lab, s.places, F, 1).t,
                                                   .x = x.t,
                                                   .weights = s.weights.t,
                                                   .offsets = s.offsets_t,
                                                   .sources = s.sources_t,
                                                   .activation = unit->activation,
                                                   .is_gated = unit->is_gated,
                                                   .rule = unit->rule};
    if (unit->has_bias)
        forward.bias = bias.t;
    op_expert_activation_forward(lab->device, &forward);
    lab_expect(lab, forward.y, expected.y);
    bool is_in_place = F % 2 == 0;
    struct op_expert_activation_backward backward = {.dx = is_in_place ? x.t : lab_2d(lab, s.places, W, 1).t,
                                                     .y = is_in_place ? dy.t : lab_2d(lab, s.places, F, 1).t,
                                                     .dweights = lab_fp32_2d(lab, s.rows, s.chosen, 1).t,
                                                     .dy = dy.t,
                                                     .x = x.t,
                                                     .bias = forward.bias,
                                                     .weights = s.weights.t,
                                                     .offsets = s.offsets_t,
                                                     .sources = s.sources_t,
                                                     .activation = unit->activation,
                                                     .is_gated = unit->is_gated,
                                                     .rule = unit->rule};
    if (unit->has_bias)
        backward.dbias = dbias.t;
    op_expert_activation_backward(lab->device, &backward);
    lab_expect(lab, backward.dx, expected.dx);
    lab_expect(lab, backward.y, expected.y);
    lab_expect(lab, backward.dweights, expected.dweights);
    if (unit->has_bias)
        lab_expect(lab, dbias.t, dbias.x);
    lab_clear(lab);
}

static inline void case_expert_activation(struct lab *lab) {
    static const struct expert_unit units[] = {
        {ACTIVATION_SILU, true, false, {0, 0}},          {ACTIVATION_GELU_TANH, false, true, {0, 0}},
        {ACTIVATION_SILU, true, true, {0, 0}},           {ACTIVATION_RELU, false, false, {0, 0}},
        {ACTIVATION_GELU, true, true, {0, 0}},           {ACTIVATION_GELU, false, false, {0, 0}},
        {ACTIVATION_SQUARED_RELU, false, false, {0, 0}}, {ACTIVATION_QUICK_GELU, true, true, {1.5f, 1}},
        {ACTIVATION_QUICK_GELU, true, true, {0, 0}},     {ACTIVATION_SILU, true, false, {1, 0}}};
    static const int64_t columns[] = {1, 17, 64, 300, 8};
    enum { UNITS = sizeof units / sizeof units[0] };
    for (int i = 0; i < SLOTS_CASES; i++) {
        int64_t F = slots_cases[i].rows > 100 ? 24 : columns[i % 5];
        expert_activation_variant(lab, &slots_cases[i], F, &units[i % UNITS]);
        expert_activation_variant(lab, &slots_cases[i], F, &units[(i + 2) % UNITS]);
    }
}

// ---- matmuls over groups ----

enum { GROUPED_MOST = 8 };
struct grouped_case {
    int64_t experts, outputs, inputs;
    int32_t sizes[GROUPED_MOST];
};

static inline void grouped_variant(struct lab *lab, const struct grouped_case *c) {
    int64_t O = c->outputs, I = c->inputs, E = c->experts;
    int32_t offsets[GROUPED_MOST + 1] = {0};
    for (int64_t e = 0; e < E; e++)
        offsets[e + 1] = offsets[e] + c->sizes[e];
    int64_t R = offsets[E] + 3;  // the last three belong to no expert
    struct tensor starts = lab_ints(lab, E + 1, offsets);
    struct sample x = lab_2d(lab, R, I, 1), dy = lab_2d(lab, R, O, 1);
    struct sample w = lab_sample(lab, arena_3d(&lab->arena, lab->dtype, E, O, I), 1);
    struct sample dw = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, E, O, I), 1);
    struct sample y = lab_2d(lab, R, O, 1), dx = lab_2d(lab, R, I, 1);
    double *sums = lab_doubles(lab, E * O * I);
    for (int64_t e = 0; e < E; e++) {
        for (int64_t r = offsets[e]; r < offsets[e + 1]; r++) {
            memset(y.x + r * O, 0, sizeof *y.x * (size_t)O);
            memset(dx.x + r * I, 0, sizeof *dx.x * (size_t)I);
            for (int64_t i = 0; i < O * I; i++) {
                y.x[r * O + i / I] += x.x[r * I + i % I] * w.x[e * O * I + i];
                dx.x[r * I + i % I] += dy.x[r * O + i / I] * w.x[e * O * I + i];
                sums[e * O * I + i] += dy.x[r * O + i / I] * x.x[r * I + i % I];
            }
        }
    }
    struct op_grouped_matmul op = {.kind = GROUPED_FORWARD, .d = y.t, .a = x.t, .b = w.t, .offsets = starts};
    op_grouped_matmul(lab->device, &op);
    lab_expect(lab, y.t, y.x);
    op_grouped_matmul(lab->device, &(struct op_grouped_matmul){
                                       .kind = GROUPED_INPUT, .d = dx.t, .a = dy.t, .b = w.t, .offsets = starts});
    lab_expect(lab, dx.t, dx.x);
    op = (struct op_grouped_matmul){
        .kind = GROUPED_WEIGHT, .d = dw.t, .a = dy.t, .b = x.t, .offsets = starts, .beta = 1};
    op_grouped_matmul(lab->device, &op);
    lab_expect(lab, dw.t, lab_moved(lab, sums, dw.x, 1, E * O * I));
    op.beta = 0;
    op_grouped_matmul(lab->device, &op);
    lab_expect(lab, dw.t, sums);
    lab_clear(lab);
}

static inline void case_grouped_matmul(struct lab *lab) {
    static const struct grouped_case cases[] = {
        {1, 1, 1, {1}},
        {1, 16, 24, {0}},
        {3, 17, 3, {0, 5, 1}},
        {4, 64, 32, {0, 64, 1, 33}},
        {2, 40, 1032, {3, 200}},
        {8, 96, 130, {1, 0, 7, 65, 0, 0, 129, 2}},
        {5, 130, 72, {0, 0, 300, 0, 0}},
        {3, 33, 257, {31, 32, 17}},
        {4, 256, 64, {128, 127, 129, 256}},
        {4, 360, 344, {130, 0, 1, 66}},
        {3, 256, 520, {63, 64, 65}},
        {2, 24, 264, {3, 330}},  // sums over more rows than are copied ahead
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        grouped_variant(lab, &cases[i]);
}

#endif
