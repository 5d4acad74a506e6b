// Routing and the balance of experts against double-precision loops; gradients against finite differences of those.
// All tensors are fp32 or integers, so that one dtype is enough.
#ifndef TESTS_OPS_CASES_ROUTER_H
#define TESTS_OPS_CASES_ROUTER_H

#include "lab.h"

struct route_case {
    int64_t rows, experts, chosen;
    struct router_rule rule;
    bool has_bias, biases_logits;
    double step;  // logits are multiples of it, so that many are equal; 0: any
};

static inline double naive_score(enum router_score score, double x) {
    return score == ROUTER_SIGMOID ? 1 / (1 + exp(-x)) : sqrt(log1p(exp(x)));
}

static inline bool has_softmax(enum router_score score) {
    return score == ROUTER_SOFTMAX || score == ROUTER_SOFTMAX_ALL;
}

// Element e of softmax(x), or of scores divided by their sum, over all of them.
static inline double naive_share(enum router_score score, const double *x, int64_t count, int64_t e) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += has_softmax(score) ? exp(x[i] - x[e]) : naive_score(score, x[i]);
    return has_softmax(score) ? 1 / sum : naive_score(score, x[e]) / (sum + 1e-20);
}

// The weight of choice k of a row.
static inline double naive_weight(const struct route_case *c, const double *x, const int32_t *chosen, int64_t k) {
    double own[ROUTER_MOST_CHOSEN] = {0}, factor = (double)c->rule.factor;
    for (int64_t i = 0; i < c->chosen; i++)
        own[i] = x[chosen[i]];
    if (c->rule.score == ROUTER_SOFTMAX_ALL)
        return factor * naive_share(c->rule.score, x, c->experts, chosen[k]);
    if (c->chosen == 1 && !has_softmax(c->rule.score))
        return factor * naive_score(c->rule.score, own[0]);
    return factor * naive_share(c->rule.score, own, c->chosen, k);
}

// Number of allowed elements of x[0…count) that come before x[e].
static inline int64_t naive_rank(const double *x, const bool *is_allowed, int64_t count, int64_t e) {
    int64_t rank = 0;
    for (int64_t i = 0; i < count; i++)
        rank += (!is_allowed || is_allowed[i]) && (x[i] > x[e] || (x[i] == x[e] && i < e));
    return rank;
}

// The experts that a row may choose, by its groups.
static inline void naive_groups(const struct route_case *c, const double *worth, bool *is_allowed) {
    int64_t groups = c->rule.groups > 0 ? c->rule.groups : 1, size = c->experts / groups;
    double sums[ROUTER_MOST_EXPERTS] = {0};
    for (int64_t e = 0; e < c->experts && c->rule.groups > 0; e++) {
        int64_t g = e / size;
        if (naive_rank(worth + g * size, NULL, size, e % size) < router_group_best(&c->rule, c->chosen))
            sums[g] += worth[e];
    }
    for (int64_t e = 0; e < c->experts; e++)
        is_allowed[e] = c->rule.groups == 0 || naive_rank(sums, NULL, groups, e / size) < c->rule.chosen_groups;
}

static inline void naive_choice(const struct route_case *c, const double *x, const double *bias, int32_t *chosen) {
    double worth[ROUTER_MOST_EXPERTS];
    bool is_allowed[ROUTER_MOST_EXPERTS];
    for (int64_t e = 0; e < c->experts; e++) {
        worth[e] = c->biases_logits                      ? x[e]
                   : c->rule.score == ROUTER_SOFTMAX     ? x[e]
                   : c->rule.score == ROUTER_SOFTMAX_ALL ? naive_share(c->rule.score, x, c->experts, e)
                                                         : naive_score(c->rule.score, x[e]);
        worth[e] += c->has_bias ? bias[e] : 0;
    }
    naive_groups(c, worth, is_allowed);
    for (int64_t e = 0; e < c->experts; e++) {
        int64_t rank = naive_rank(worth, is_allowed, c->experts, e);
        if (is_allowed[e] && rank < c->chosen)
            chosen[rank] = (int32_t)e;
    }
}

static inline void expect_ints(struct lab *lab, struct tensor t, const int32_t *expected, const char *name) {
    int64_t count = tensor_count(t);
    int32_t *actual = lab_host(lab, tensor_bytes(t));
    device_copy_out(lab->device, actual, t);
    for (int64_t i = 0; i < count; i++) {
        if (actual[i] != expected[i])
            test_fail("%s[%" PRId64 "] is %" PRId32 ", expected %" PRId32 " (of %" PRId64 ")", name, i, actual[i],
                      expected[i], count);
    }
}

// Multiples of a step, moved so that scores of different ones do not add up to equal sums.
static inline void make_steps(struct lab *lab, struct sample *s, double step) {
    for (int64_t i = 0; i < tensor_count(s->t) && step > 0; i++)
        s->x[i] = step * nearbyint(s->x[i] / step) + 0.1;
    lab_write(lab, s->t, s->x);
}

// By finite differences of the weights.
static inline double *naive_route_gradient(struct lab *lab, const struct route_case *c, const double *logits,
                                           const int32_t *chosen, const double *dweights) {
    double *gradient = lab_doubles(lab, c->rows * c->experts), *moved = lab_doubles(lab, c->experts);
    const double step = 1e-5;
    for (int64_t n = 0; n < c->rows; n++) {
        memcpy(moved, logits + n * c->experts, (size_t)c->experts * sizeof *moved);
        for (int64_t e = 0; e < c->experts; e++) {
            bool is_chosen = c->rule.score == ROUTER_SOFTMAX_ALL;
            for (int64_t k = 0; k < c->chosen; k++)
                is_chosen = is_chosen || chosen[n * c->chosen + k] == e;
            for (int64_t k = 0; k < c->chosen && is_chosen; k++) {
                double x = moved[e], ahead, behind;
                moved[e] = x + step;
                ahead = naive_weight(c, moved, chosen + n * c->chosen, k);
                moved[e] = x - step;
                behind = naive_weight(c, moved, chosen + n * c->chosen, k);
                moved[e] = x;
                gradient[n * c->experts + e] += dweights[n * c->chosen + k] * (ahead - behind) / (2 * step);
            }
        }
    }
    return gradient;
}

static inline void route_variant(struct lab *lab, const struct route_case *c) {
    int64_t N = c->rows, E = c->experts, K = c->chosen;
    struct sample logits = lab_fp32_2d(lab, N, E, 3), bias = lab_fp32_1d(lab, E, 0.3), counts = lab_fp32_1d(lab, E, 0);
    make_steps(lab, &logits, c->step);
    make_steps(lab, &bias, c->step / 2);
    int32_t *expected = lab_host(lab, sizeof *expected * (size_t)(N * K));
    double *weights = lab_doubles(lab, N * K);
    for (int64_t n = 0; n < N; n++) {
        naive_choice(c, logits.x + n * E, bias.x, expected + n * K);
        for (int64_t k = 0; k < K; k++) {
            weights[n * K + k] = naive_weight(c, logits.x + n * E, expected + n * K, k);
            counts.x[expected[n * K + k]] += 2;
        }
    }
    struct op_route_forward forward = {.experts = arena_2d(&lab->arena, DTYPE_I32, N, K),
                                       .weights = arena_2d(&lab->arena, DTYPE_F32, N, K),
                                       .counts = counts.t,
                                       .logits = logits.t,
                                       .biases_logits = c->biases_logits,
                                       .rule = c->rule};
    if (c->has_bias)
        forward.bias = bias.t;
    op_route_forward(lab->device, &forward);
    op_route_forward(lab->device, &forward);  // counts are accumulated
    expect_ints(lab, forward.experts, expected, "experts");
    lab_expect(lab, forward.weights, weights);
    lab_expect(lab, counts.t, counts.x);
    struct sample dweights = lab_fp32_2d(lab, N, K, 1);
    struct op_route_backward backward = {.dlogits = lab_fp32_2d(lab, N, E, 1).t,
                                         .dweights = dweights.t,
                                         .logits = logits.t,
                                         .experts = forward.experts,
                                         .rule = c->rule};
    op_route_backward(lab->device, &backward);
    lab_expect(lab, backward.dlogits, naive_route_gradient(lab, c, logits.x, expected, dweights.x));
    lab_clear(lab);
}

static inline void case_route(struct lab *lab) {
    static const int64_t sizes[][3] = {{1, 1, 1},  {3, 2, 1},    {17, 3, 2},  {65, 8, 2},  {33, 8, 8},   {20, 60, 4},
                                       {9, 64, 6}, {40, 128, 8}, {5, 256, 8}, {7, 33, 32}, {1, 1024, 5}, {11, 5, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && lab->dtype == DTYPE_F32; i++) {
        for (int score = 0; score < ROUTER_SCORE_COUNT; score++) {
            struct route_case c = {.rows = sizes[i][0], .experts = sizes[i][1], .chosen = sizes[i][2]};
            c.rule = (struct router_rule){.score = (enum router_score)score, .factor = score % 2 ? 1.0f : 2.5f};
            for (int ties = 0; ties < 2; ties++) {
                c.step = ties ? 0.5 : 0;
                c.has_bias = false;
                route_variant(lab, &c);
                c.has_bias = true;
                if (!has_softmax(c.rule.score))
                    route_variant(lab, &c);
                c.biases_logits = !ties;  // sums that are equal in double may round to different ones
                if (c.biases_logits)
                    route_variant(lab, &c);
                c.biases_logits = false;
            }
        }
    }
}

static inline void case_route_groups(struct lab *lab) {
    static const int64_t sizes[][6] = {{17, 8, 2, 4, 2, 0},      {5, 256, 8, 8, 4, 0},   {30, 12, 6, 3, 2, 0},
                                       {9, 6, 2, 6, 2, 0},       {8, 64, 7, 4, 3, 0},    {4, 10, 4, 1, 1, 0},
                                       {3, 1024, 32, 64, 32, 0}, {17, 24, 6, 6, 3, 1},   {9, 20, 3, 4, 2, 2},
                                       {6, 120, 2, 3, 1, 39},    {2, 1024, 4, 2, 1, 512}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && lab->dtype == DTYPE_F32; i++) {
        for (int score = 0; score < ROUTER_SCORE_COUNT; score++) {
            struct route_case c = {.rows = sizes[i][0], .experts = sizes[i][1], .chosen = sizes[i][2]};
            c.rule = (struct router_rule){(enum router_score)score, 1.0f, sizes[i][3], sizes[i][4], sizes[i][5]};
            c.has_bias = !has_softmax(c.rule.score);
            if (score == ROUTER_SOFTMAX_ALL && c.experts * c.chosen > 4096)
                continue;  // its finite differences take too long
            route_variant(lab, &c);
            c.step = score == ROUTER_SOFTMAX_ALL ? 0 : 0.5;  // sums of its shares do not round alike
            route_variant(lab, &c);
        }
    }
}

// Logits far from 0, infinite and NaN: choices stay within the experts and differ, and NaN shows in the weights.
static inline void case_route_extremes(struct lab *lab) {
    enum { N = 5, E = 4, K = 2 };
    static const double rows[N][E] = {{-200, -300, -250, -220},
                                      {100, 90, 300, 80},
                                      {NAN, 1, 2, 3},
                                      {NAN, NAN, NAN, NAN},
                                      {-INFINITY, 2, 1, -INFINITY}};
    static const int32_t expected[N * K] = {0, 3, 2, 0, 0, 3, 0, 1, 1, 2};
    for (int score = 0; score < ROUTER_SCORE_COUNT && lab->dtype == DTYPE_F32; score++) {
        struct sample logits = lab_fp32_2d(lab, N, E, 1), dweights = lab_fp32_2d(lab, N, K, 1);
        memcpy(logits.x, rows, sizeof rows);
        lab_write(lab, logits.t, logits.x);
        struct router_rule rule = {.score = (enum router_score)score, .factor = 1};
        struct op_route_forward forward = {.experts = arena_2d(&lab->arena, DTYPE_I32, N, K),
                                           .weights = arena_2d(&lab->arena, DTYPE_F32, N, K),
                                           .logits = logits.t,
                                           .rule = rule};
        op_route_forward(lab->device, &forward);
        expect_ints(lab, forward.experts, expected, "experts");
        struct op_route_backward backward = {.dlogits = lab_fp32_2d(lab, N, E, 1).t,
                                             .dweights = dweights.t,
                                             .logits = logits.t,
                                             .experts = forward.experts,
                                             .rule = rule};
        op_route_backward(lab->device, &backward);
        const double *weights = lab_read(lab, forward.weights), *dlogits = lab_read(lab, backward.dlogits);
        EXPECT(isnan(weights[2 * K]) && isnan(weights[3 * K]) && isnan(dlogits[2 * E]));
        for (int n = 0; n < N; n += n == 1 ? 3 : 1)
            for (int e = 0; e < E; e++)
                EXPECT(isfinite(dlogits[n * E + e]) && isfinite(weights[n * K + e % K]));
        lab_clear(lab);
    }
}

// ---- balance ----

struct balance_case {
    int64_t sequences, length, experts, chosen;
    enum router_score score;
};

static inline double naive_lse(const double *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += exp(x[i]);
    return log(sum);
}

// The loss that op_balance_backward differentiates, of one row.
static inline double naive_balance(const struct balance_case *c, const double *x, const double *slopes, double z) {
    double lse = naive_lse(x, c->experts), sum = 0, weighted = 0;
    for (int64_t e = 0; e < c->experts; e++) {
        double score = has_softmax(c->score) ? exp(x[e]) : naive_score(c->score, x[e]);
        sum += score;
        weighted += slopes[e] * score;
    }
    return z * lse * lse + weighted / sum;
}

static inline void balance_backward_variant(struct lab *lab, const struct balance_case *c, struct sample logits) {
    int64_t E = c->experts, N = c->sequences * c->length;
    const double step = 1e-5, z_factor = 0.25;
    struct sample slopes = lab_fp32_2d(lab, c->sequences, E, 2), by = lab_fp32_1d(lab, 1, 1);
    struct sample dlogits = lab_fp32_2d(lab, N, E, 1);
    double *expected = lab_moved(lab, dlogits.x, dlogits.x, 0, N * E), *moved = lab_doubles(lab, E);
    for (int64_t n = 0; n < N; n++) {
        memcpy(moved, logits.x + n * E, (size_t)E * sizeof *moved);
        for (int64_t e = 0; e < E; e++) {
            const double *row = slopes.x + n / c->length * E;
            double x = moved[e], ahead, behind;
            moved[e] = x + step;
            ahead = naive_balance(c, moved, row, z_factor);
            moved[e] = x - step;
            behind = naive_balance(c, moved, row, z_factor);
            moved[e] = x;
            expected[n * E + e] += by.x[0] * (ahead - behind) / (2 * step);
        }
    }
    op_balance_backward(lab->device, &(struct op_balance_backward){.dlogits = dlogits.t,
                                                                   .logits = logits.t,
                                                                   .slopes = slopes.t,
                                                                   .by = by.t,
                                                                   .z_factor = (float)z_factor,
                                                                   .score = c->score});
    lab_expect(lab, dlogits.t, expected);
}

static inline void balance_variant(struct lab *lab, const struct balance_case *c) {
    int64_t E = c->experts, N = c->sequences * c->length;
    struct sample logits = lab_fp32_2d(lab, N, E, 3), sums = lab_fp32_2d(lab, c->sequences, E, 1);
    struct sample counts = lab_fp32_2d(lab, c->sequences, E, 0), z = lab_fp32_1d(lab, 1, 1);
    make_steps(lab, &logits, E % 2 ? 0.5 : 0);
    struct op_balance_forward op = {
        .sums = sums.t, .counts = counts.t, .z = z.t, .logits = logits.t, .score = c->score, .chosen = c->chosen};
    for (int64_t n = 0; n < N; n++) {
        const double *x = logits.x + n * E;
        z.x[0] += 2 * naive_lse(x, E) * naive_lse(x, E);
        for (int64_t e = 0; e < E; e++) {
            sums.x[n / c->length * E + e] += naive_share(c->score, x, E, e);
            counts.x[n / c->length * E + e] += naive_rank(x, NULL, E, e) < c->chosen ? 1 : 0;
        }
    }
    op_balance_forward(lab->device, &op);
    op_balance_forward(lab->device, &(struct op_balance_forward){.z = z.t, .logits = logits.t, .score = c->score});
    lab_expect(lab, sums.t, sums.x);
    lab_expect(lab, counts.t, counts.x);
    lab_expect(lab, z.t, z.x);
    balance_backward_variant(lab, c, logits);
    lab_clear(lab);
}

static inline void case_balance(struct lab *lab) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1},   {1, 200, 8, 2}, {3, 17, 5, 3},  {20, 4, 33, 4},
                                       {2, 30, 64, 6}, {16, 1, 3, 1},  {1, 5, 256, 8}, {1, 3, 1024, 32}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && lab->dtype == DTYPE_F32; i++) {
        for (int score = 0; score < ROUTER_SCORE_COUNT && (sizes[i][2] < 1024 || score < 2); score++)
            balance_variant(lab, &(struct balance_case){sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3],
                                                        (enum router_score)score});
    }
}

static inline void case_balance_bias(struct lab *lab) {
    enum { L = 3, E = 37 };
    const double rate = 0.0009765625;
    struct sample bias = lab_fp32_2d(lab, L, E, 0.1), counts = lab_fp32_2d(lab, L, E, 20);
    for (int64_t i = 0; i < L * E; i++)
        counts.x[i] = i < E ? 3 : floor(fabs(counts.x[i])) * 1000;
    counts.x[E + 1] = 16777215;
    lab_write(lab, counts.t, counts.x);
    for (int64_t l = 0; l < L; l++) {
        double mean = 0;
        for (int64_t e = 0; e < E; e++)
            mean += counts.x[l * E + e] / E;
        for (int64_t e = 0; e < E && l > 0; e++)
            bias.x[l * E + e] += counts.x[l * E + e] < mean ? rate : -rate;
    }
    op_balance_bias(lab->device, &(struct op_balance_bias){.bias = bias.t, .counts = counts.t, .rate = (float)rate});
    lab_expect(lab, bias.t, bias.x);
    lab_clear(lab);
}

static inline void case_balance_load(struct lab *lab) {
    enum { L = 3, E = 37 };
    struct sample load = lab_fp32_2d(lab, L, E, 1), counts = lab_fp32_2d(lab, L, E, 20);
    for (int64_t i = 0; i < L * E; i++)
        counts.x[i] = i < E ? 0 : floor(fabs(counts.x[i])) * 1000;
    lab_write(lab, counts.t, counts.x);
    for (int64_t l = 1; l < L; l++) {
        double mean = 0;
        for (int64_t e = 0; e < E; e++)
            mean += counts.x[l * E + e] / E;
        for (int64_t e = 0; e < E; e++)
            load.x[l * E + e] = counts.x[l * E + e] / mean;
    }
    op_balance_load(lab->device, &(struct op_balance_load){.load = load.t, .counts = counts.t});
    lab_expect(lab, load.t, load.x);
    lab_clear(lab);
}

// log(d) after the passes that Megatron-LM's loop makes, with the matrix kept whole.
static inline void naive_sinkhorn(struct lab *lab, double *bias, const double *logits, int64_t N, int64_t E) {
    double *cost = lab_doubles(lab, N * E), *d0 = lab_doubles(lab, N), *d1 = lab_doubles(lab, E), error = 1e9;
    for (int64_t i = 0; i < N * E; i++)
        cost[i] = exp(logits[i]);
    for (int64_t e = 0; e < E; e++)
        d1[e] = 1;
    for (int pass = 0; error > 1e-4 && pass < 100; pass++) {
        error = 0;
        for (int64_t n = 0; n < N; n++) {
            double sum = 0;
            for (int64_t e = 0; e < E; e++)
                sum += d1[e] * cost[n * E + e];
            d0[n] = 1.0 / (double)N / (sum + 1e-8);
        }
        for (int64_t e = 0; e < E; e++) {
            double sum = 0, old = d1[e];
            for (int64_t n = 0; n < N; n++)
                sum += d0[n] * cost[n * E + e];
            d1[e] = 1.0 / (double)E / (sum + 1e-8);
            error += fabs(d1[e] - old) / (double)E;
        }
    }
    for (int64_t e = 0; e < E; e++)
        bias[e] = log(d1[e]);
}

static inline void case_sinkhorn(struct lab *lab) {
    static const int64_t sizes[][2] = {{1, 1},    {1, 8},   {3, 3},    {17, 2},  {65, 8},
                                       {700, 16}, {40, 64}, {33, 300}, {9, 1024}};
    static const double scales[] = {0.1, 3, 30};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && lab->dtype == DTYPE_F32; i++)
        for (size_t k = 0; k < sizeof scales / sizeof scales[0]; k++) {
            int64_t N = sizes[i][0], E = sizes[i][1];
            struct sample logits = lab_fp32_2d(lab, N, E, scales[k]), bias = lab_fp32_1d(lab, E, 1);
            op_sinkhorn(lab->device, &(struct op_sinkhorn){.bias = bias.t, .logits = logits.t});
            naive_sinkhorn(lab, bias.x, logits.x, N, E);
            lab_expect(lab, bias.t, bias.x);
            lab_clear(lab);
        }
}

// Factors from the words that dropout draws, for rows and columns as in case_dropout_add.
static inline void case_jitter(struct lab *lab) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 17}, {17, 65}, {20, 77}, {5, 256}, {4, 1000}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int variant = 0; variant < 4; variant++) {
            int64_t N = sizes[i][0], C = sizes[i][1];
            struct sample x = lab_2d(lab, N, C, 1), residual = lab_2d(lab, N, C, 1);
            struct dropout keys = lab_dropout(lab, 0.5f, N);
            struct op_jitter op = {.out = variant == 0   ? lab_2d(lab, N, C, 1).t
                                          : variant == 1 ? residual.t
                                                         : x.t,
                                   .x = x.t,
                                   .residual = variant == 1 ? residual.t : (struct tensor){0},
                                   .row_ids = keys.row_ids,
                                   .seed = keys.seed,
                                   .site = keys.site,
                                   .epsilon = variant == 3 ? 0 : 0.25f};
            double *expected = lab_doubles(lab, N * C);
            for (int64_t n = 0; n < N; n++)
                for (int64_t c = 0; c < C; c++) {
                    double u = ((double)lab_drawn(&keys, n, c, keys.site) - 32767.5) / 32768;
                    expected[n * C + c] =
                        x.x[n * C + c] * (1 + (double)op.epsilon * u) + (variant == 1 ? residual.x[n * C + c] : 0);
                }
            op_jitter(lab->device, &op);
            lab_expect(lab, op.out, expected);
            lab_clear(lab);
        }
}

#endif
