// What other model families add to a GPT: RMSNorm, activations, gated units, rotary positions and relative biases,
// against double-precision loops and finite differences of them.
#ifndef TESTS_OPS_CASES_MODELS_H
#define TESTS_OPS_CASES_MODELS_H

#include "cases_attention.h"
#include "cases_layers.h"

// ---- RMSNorm ----

struct naive_rms {
    int64_t rows, channels;
    const double *x, *gain;
};

static inline double rms_rstd(const struct naive_rms *n, int64_t row) {
    double squares = 0;
    for (int64_t c = 0; c < n->channels; c++)
        squares += n->x[row * n->channels + c] * n->x[row * n->channels + c] / (double)n->channels;
    return 1 / sqrt(squares + 1e-5);
}

static inline double *rms_forward(struct lab *lab, const struct naive_rms *n) {
    double *y = lab_doubles(lab, n->rows * n->channels);
    for (int64_t i = 0; i < n->rows; i++) {
        double rstd = rms_rstd(n, i);
        for (int64_t c = 0; c < n->channels; c++)
            y[i * n->channels + c] = n->x[i * n->channels + c] * rstd * n->gain[c];
    }
    return y;
}

// dx; dgain is added to the existing values.
static inline double *rms_backward(struct lab *lab, const struct naive_rms *n, const double *dy, double *dgain) {
    double *dx = lab_doubles(lab, n->rows * n->channels);
    for (int64_t i = 0; i < n->rows; i++) {
        const double *x = n->x + i * n->channels, *d = dy + i * n->channels;
        double rstd = rms_rstd(n, i), product = 0;
        for (int64_t c = 0; c < n->channels; c++) {
            product += d[c] * n->gain[c] * x[c] * rstd / (double)n->channels;
            dgain[c] += d[c] * x[c] * rstd;
        }
        for (int64_t c = 0; c < n->channels; c++)
            dx[i * n->channels + c] = rstd * (d[c] * n->gain[c] - x[c] * rstd * product);
    }
    return dx;
}

// With a residual and its dropout if has_delta.
static inline void rms_norm_variant(struct lab *lab, const int64_t size[2], bool has_delta) {
    int64_t rows = size[0], channels = size[1], count = rows * channels;
    struct sample x = lab_2d(lab, rows, channels, 2), gain = lab_1d(lab, channels, 1);
    struct sample delta = lab_2d(lab, rows, channels, 1), dy = lab_2d(lab, rows, channels, 1);
    struct sample dgain = lab_fp32_1d(lab, channels, 1), dresidual = lab_2d(lab, rows, channels, 1);
    struct dropout dropout = lab_dropout(lab, 0.3f, rows);
    struct op_norm_forward forward = {.kind = NORM_RMS,
                                      .y = lab_2d(lab, rows, channels, 1).t,
                                      .rstd = lab_fp32_1d(lab, rows, 1).t,
                                      .x = x.t,
                                      .gain = gain.t,
                                      .gain_offset = keep_gains(&gain, rows, channels),
                                      .epsilon = 1e-5f};
    if (has_delta) {
        forward.delta = delta.t;
        forward.sum = x.t;
        forward.dropout = dropout;
        for (int64_t i = 0; i < count; i++)
            x.x[i] += delta.x[i] * lab_factor(&dropout, i / channels, i % channels, dropout.site);
    }
    op_norm_forward(lab->device, &forward);
    lab_expect(lab, x.t, x.x);
    double *sum = lab_read(lab, x.t);  // as stored
    struct naive_rms naive = {rows, channels, sum, gain.x};
    lab_expect(lab, forward.y, rms_forward(lab, &naive));
    double *dx = rms_backward(lab, &naive, dy.x, dgain.x);
    struct op_norm_backward backward = {.kind = NORM_RMS,
                                        .dx = dresidual.t,
                                        .dgain = dgain.t,
                                        .dy = dy.t,
                                        .x = x.t,
                                        .gain = gain.t,
                                        .gain_offset = forward.gain_offset,
                                        .rstd = forward.rstd,
                                        .dresidual = dresidual.t};
    double *ddelta = lab_doubles(lab, count);
    for (int64_t i = 0; i < count; i++) {
        dx[i] += dresidual.x[i];
        ddelta[i] = dx[i] * lab_factor(&dropout, i / channels, i % channels, dropout.site);
    }
    backward.y = has_delta ? lab_2d(lab, rows, channels, 1).t : dy.t;
    if (has_delta) {
        backward.ddelta = dy.t;
        backward.dropout = dropout;
    }
    op_norm_backward(lab->device, &backward);
    lab_expect(lab, backward.dx, dx);
    lab_expect(lab, backward.dgain, dgain.x);
    lab_expect(lab, backward.y, rms_forward(lab, &naive));
    if (has_delta)
        lab_expect(lab, backward.ddelta, ddelta);
    lab_clear(lab);
}

static inline void case_rms_norm(struct lab *lab) {
    static const int64_t many_rows[2] = {1701, 1032}, long_rows[2] = {3, 5128};
    for (int i = 0; i < LAYER_SIZES; i++) {
        rms_norm_variant(lab, layer_sizes[i], false);
        rms_norm_variant(lab, layer_sizes[i], true);
    }
    rms_norm_variant(lab, many_rows, true);
    rms_norm_variant(lab, long_rows, true);
}

static inline void case_rms_norm_slope(struct lab *lab) {
    int64_t rows = 5, channels = 33, count = rows * channels;
    struct sample x = lab_2d(lab, rows, channels, 2), gain = lab_1d(lab, channels, 1),
                  dy = lab_2d(lab, rows, channels, 1);
    const double *direction[2] = {lab_direction(lab, count), lab_direction(lab, channels)};
    double *dgain = lab_doubles(lab, channels), loss[2];
    struct naive_rms naive = {rows, channels, x.x, gain.x};
    double *dx = rms_backward(lab, &naive, dy.x, dgain);
    for (int i = 0; i < 2; i++) {
        double step = i ? -1e-5 : 1e-5;
        struct naive_rms moved = {rows, channels, lab_moved(lab, x.x, direction[0], step, count),
                                  lab_moved(lab, gain.x, direction[1], step, channels)};
        loss[i] = lab_inner(rms_forward(lab, &moved), dy.x, count);
    }
    double slope = lab_inner(dx, direction[0], count) + lab_inner(dgain, direction[1], channels);
    lab_expect_slope(lab, slope, loss[0], loss[1], 1e-5);
}

// ---- activations ----

static inline double naive_activation(enum activation activation, double x) {
    switch (activation) {
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case ACTIVATION_GELU:
        return 0.5 * x * erfc(-x / 1.4142135623730951);
    case ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case ACTIVATION_SQUARED_RELU:
        return x > 0 ? x * x : 0;
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case ACTIVATION_COUNT:
        break;
    }
    return NAN;
}

// The derivative by finite differences of the function itself.
static inline double naive_slope(enum activation activation, double x) {
    return (naive_activation(activation, x + 1e-6) - naive_activation(activation, x - 1e-6)) / 2e-6;
}

// Values over the whole range of interest; none so close to the corner of the ReLU that its slope would be undefined.
static inline struct sample activation_inputs(struct lab *lab, int64_t rows, int64_t columns) {
    struct sample x = lab_2d(lab, rows, columns, 4);
    for (int64_t i = 0; i < rows * columns; i++)
        x.x[i] += x.x[i] < 0 ? -0.01 : 0.01;
    lab_write(lab, x.t, x.x);
    return x;
}

static inline void activation_variant(struct lab *lab, const int64_t size[2], enum activation activation) {
    int64_t rows = size[0], columns = size[1], count = rows * columns;
    struct sample x = activation_inputs(lab, rows, columns), dy = lab_2d(lab, rows, columns, 1);
    struct tensor y = lab_2d(lab, rows, columns, 1).t;
    double *expected = lab_doubles(lab, count), *gradient = lab_doubles(lab, count);
    for (int64_t i = 0; i < count; i++) {
        expected[i] = naive_activation(activation, x.x[i]);
        gradient[i] = dy.x[i] * naive_slope(activation, x.x[i]);
    }
    op_activation_forward(lab->device, &(struct op_activation_forward){.y = y, .x = x.t, .activation = activation});
    lab_expect(lab, y, expected);
    op_activation_backward(
        lab->device, &(struct op_activation_backward){.dx = dy.t, .dy = dy.t, .x = x.t, .activation = activation});
    lab_expect(lab, dy.t, gradient);
    lab_write(lab, dy.t, dy.x);
    struct tensor again = rows % 2 ? dy.t : lab_2d(lab, rows, columns, 1).t;
    op_activation_backward(lab->device, &(struct op_activation_backward){
                                            .dx = x.t, .y = again, .dy = dy.t, .x = x.t, .activation = activation});
    lab_expect(lab, x.t, gradient);
    lab_expect(lab, again, expected);
    lab_write(lab, x.t, x.x);
    op_activation_forward(lab->device, &(struct op_activation_forward){.y = x.t, .x = x.t, .activation = activation});
    lab_expect(lab, x.t, expected);
    lab_clear(lab);
}

static inline void case_activation(struct lab *lab) {
    for (int i = 0; i < LAYER_SIZES; i++)
        for (int activation = 0; activation < ACTIVATION_COUNT; activation++)
            activation_variant(lab, layer_sizes[i], (enum activation)activation);
}

// A gated unit at a gate and what it multiplies, by its rule.
static inline double naive_glu(enum activation activation, struct glu_rule rule, double gate, double up) {
    double limit = rule.limit > 0 ? (double)rule.limit : INFINITY;
    return naive_activation(activation, fmin(gate, limit)) * (fmin(fmax(up, -limit), limit) + (double)rule.offset);
}

// Its slopes by finite differences.
static inline double naive_glu_slope(enum activation activation, struct glu_rule rule, double gate, double up,
                                     bool is_up) {
    double step = 1e-6, dgate = is_up ? 0 : step, dup = is_up ? step : 0;
    return (naive_glu(activation, rule, gate + dgate, up + dup) - naive_glu(activation, rule, gate - dgate, up - dup)) /
           (2 * step);
}

// Inputs that lie beside the limit and not on it.
static inline void leave_limit(struct lab *lab, struct sample *x, double limit) {
    for (int64_t i = 0; i < tensor_count(x->t); i++)
        if (limit > 0 && fabs(fabs(x->x[i]) - limit) < 0.03)
            x->x[i] += x->x[i] < 0 ? -0.125 : 0.125;
    lab_write(lab, x->t, x->x);
}

static inline struct sample glu_inputs(struct lab *lab, int64_t rows, int64_t columns, double limit) {
    struct sample x = activation_inputs(lab, rows, columns);
    leave_limit(lab, &x, limit);
    return x;
}

static inline void glu_variant(struct lab *lab, const int64_t size[2], enum activation activation,
                               struct glu_rule rule) {
    int64_t rows = size[0], width = size[1];
    struct sample x = glu_inputs(lab, rows, 2 * width, (double)rule.limit), dy = lab_2d(lab, rows, width, 1);
    struct tensor y = lab_2d(lab, rows, width, 1).t;
    double *expected = lab_doubles(lab, rows * width), *gradient = lab_doubles(lab, rows * 2 * width);
    for (int64_t i = 0; i < rows * width; i++) {
        int64_t at = i / width * 2 * width + i % width;
        double gate = x.x[at], up = x.x[at + width];
        expected[i] = naive_glu(activation, rule, gate, up);
        gradient[at] = dy.x[i] * naive_glu_slope(activation, rule, gate, up, false);
        gradient[at + width] = dy.x[i] * naive_glu_slope(activation, rule, gate, up, true);
    }
    op_glu_forward(lab->device, &(struct op_glu_forward){.y = y, .x = x.t, .activation = activation, .rule = rule});
    lab_expect(lab, y, expected);
    struct tensor dx = rows % 2 ? x.t : lab_2d(lab, rows, 2 * width, 1).t;
    struct op_glu_backward backward = {.dx = dx, .dy = dy.t, .x = x.t, .activation = activation, .rule = rule};
    op_glu_backward(lab->device, &backward);
    lab_expect(lab, dx, gradient);
    lab_write(lab, x.t, x.x);
    backward.y = width % 2 ? dy.t : lab_2d(lab, rows, width, 1).t;
    op_glu_backward(lab->device, &backward);
    lab_expect(lab, dx, gradient);
    lab_expect(lab, backward.y, expected);
    lab_clear(lab);
}

static inline void case_glu(struct lab *lab) {
    static const enum activation activations[] = {ACTIVATION_SILU, ACTIVATION_GELU,         ACTIVATION_GELU_TANH,
                                                  ACTIVATION_RELU, ACTIVATION_SQUARED_RELU, ACTIVATION_QUICK_GELU};
    for (int i = 0; i < LAYER_SIZES; i++) {
        for (size_t k = 0; k < sizeof activations / sizeof activations[0]; k++)
            glu_variant(lab, layer_sizes[i], activations[k], (struct glu_rule){0});
        glu_variant(lab, layer_sizes[i], ACTIVATION_QUICK_GELU, (struct glu_rule){.limit = 1.5f, .offset = 1});
        glu_variant(lab, layer_sizes[i], ACTIVATION_SILU, (struct glu_rule){.limit = 1});
        glu_variant(lab, layer_sizes[i], ACTIVATION_SILU, (struct glu_rule){.offset = -0.5f});
    }
}

// ---- positions ----

struct rope_case {
    int64_t B, T, H, D, pairs;
    bool is_interleaved;
    float factor;
};

// The first H of H + 2 heads of a packed tensor are rotated; the others are unchanged.
static inline void rope_variant(struct lab *lab, const struct rope_case *c) {
    int64_t width = (c->H + 2) * c->D;
    struct sample whole = lab_3d(lab, c->B, c->T, width, 2);
    double *original = lab_moved(lab, whole.x, whole.x, 0, c->B * c->T * width);
    double frequencies[ROPE_MOST_PAIRS];
    int32_t positions[64];
    EXPECT(c->B * c->T <= 64);
    for (int64_t j = 0; j < c->pairs; j++)
        frequencies[j] = pow(100, -(double)j / (double)c->pairs);
    for (int64_t n = 0; n < c->B * c->T; n++)
        positions[n] = (int32_t)(n * 37 % 1000 * (n % 3 == 2 ? 1000 : 1));  // up to a million
    struct op_rope op = {.x = heads_view(whole.t, 0, c->H, c->D),
                         .positions = lab_ints(lab, c->B * c->T, positions),
                         .frequencies = frequencies,
                         .pairs = c->pairs,
                         .is_interleaved = c->is_interleaved,
                         .factor = c->factor};
    double factor = c->factor == 0.0f ? 1 : (double)c->factor;
    for (int64_t n = 0; n < c->B * c->T; n++) {
        for (int64_t i = 0; i < c->H * c->pairs; i++) {
            int64_t head = i / c->pairs, j = i % c->pairs, step = c->is_interleaved ? 1 : c->pairs;
            double *a = whole.x + n * width + head * c->D + (c->is_interleaved ? 2 * j : j), first = a[0];
            double angle = positions[n] * frequencies[j];
            a[0] = factor * (first * cos(angle) - a[step] * sin(angle));
            a[step] = factor * (a[step] * cos(angle) + first * sin(angle));
            double *o = original + (a - whole.x);
            o[0] *= factor * factor;
            o[step] *= factor * factor;
        }
    }
    op_rope(lab->device, &op);
    lab_expect(lab, whole.t, whole.x);
    op.is_inverse = true;
    op_rope(lab->device, &op);
    lab_expect(lab, whole.t, original);
    lab_clear(lab);
}

static inline void case_rope(struct lab *lab) {
    static const struct rope_case cases[] = {
        {1, 1, 1, 2, 1, false, 1},      {2, 7, 3, 8, 4, false, 1},    {2, 7, 3, 8, 4, true, 1},
        {1, 9, 5, 10, 3, false, 1},     {1, 9, 5, 10, 3, true, 1},    {3, 20, 2, 64, 32, false, 1},
        {1, 3, 2, 256, 128, true, 1},   {3, 7, 70, 64, 32, false, 1}, {1, 5, 33, 80, 32, false, 1},
        {2, 7, 3, 16, 8, false, 1.25f}, {2, 7, 3, 10, 4, true, 0.8f}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        rope_variant(lab, &cases[i]);
    static const struct rope_case wide[] = {{2, 5, 2, 300, 150, false, 1}, {1, 3, 2, 1024, 512, true, 1}};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0] && lab->device->ops->most_head_size == 0; i++)
        rope_variant(lab, &wide[i]);
}

// The rule of Raffel et al. (2020), in doubles; test_formulas.c tests the exact borders.
static inline int64_t naive_bucket(const struct relative_rule *rule, int64_t distance) {
    int64_t side = rule->is_bidirectional ? rule->buckets / 2 : rule->buckets, exact = side / 2;
    int64_t start = rule->is_bidirectional && distance > 0 ? side : 0;
    int64_t far = distance < 0 ? -distance : rule->is_bidirectional ? distance : 0;
    if (far < exact)
        return start + far;
    double place = log((double)far / (double)exact) / log((double)rule->max_distance / (double)exact);
    int64_t bucket = exact + (int64_t)(place * (double)(side - exact) + 1e-6);
    return start + (bucket < side ? bucket : side - 1);
}

static inline void relative_bias_variant(struct lab *lab, const struct relative_rule *rule, int64_t heads,
                                         int64_t width) {
    int64_t B = 3;
    struct sample table = lab_2d(lab, rule->buckets, heads, 1), dtable = lab_fp32_2d(lab, rule->buckets, heads, 1);
    struct tensor bias = lab_fp32_2d(lab, heads, width, 1).t;
    struct sample dbias = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, B, heads, width), 1);
    double *expected = lab_doubles(lab, heads * width);
    for (int64_t i = 0; i < heads * width; i++) {
        int64_t place = naive_bucket(rule, rule->first_distance + i % width) * heads + i / width;
        expected[i] = table.x[place];
        for (int64_t b = 0; b < B; b++)
            dtable.x[place] += dbias.x[b * heads * width + i];
    }
    op_relative_bias_forward(lab->device,
                             &(struct op_relative_bias_forward){.bias = bias, .table = table.t, .rule = *rule});
    lab_expect(lab, bias, expected);
    op_relative_bias_backward(lab->device,
                              &(struct op_relative_bias_backward){.dtable = dtable.t, .dbias = dbias.t, .rule = *rule});
    lab_expect(lab, dtable.t, dtable.x);
    lab_clear(lab);
}

static inline void case_relative_bias(struct lab *lab) {
    static const struct relative_rule rules[] = {
        {.first_distance = -299, .buckets = 32, .max_distance = 128, .is_bidirectional = true},
        {.first_distance = -299, .buckets = 32, .max_distance = 128},
        {.first_distance = -10, .buckets = 8, .max_distance = 9, .is_bidirectional = true},
        {.first_distance = 0, .buckets = 4, .max_distance = 5},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        relative_bias_variant(lab, &rules[i], 3, 599);
        relative_bias_variant(lab, &rules[i], 1, 1);
    }
}

// Slopes of 2^(-x), with x as Press et al. (2022) list them for 8 heads, their program computes them for 16, 12 and 3
// heads, and one head.
static inline void alibi_variant(struct lab *lab, const double *exponents, int64_t heads, int64_t first_head) {
    enum { WIDTH = 77, FIRST = -70 };
    int64_t H = heads - first_head;
    struct tensor bias = lab_fp32_2d(lab, H, WIDTH, 1).t;
    double *expected = lab_doubles(lab, H * WIDTH);
    for (int64_t i = 0; i < H * WIDTH; i++)
        expected[i] = -0.25 * pow(2, -exponents[first_head + i / WIDTH]) * fabs((double)(FIRST + i % WIDTH));
    op_alibi(lab->device,
             &(struct op_alibi){
                 .bias = bias, .heads = heads, .first_head = first_head, .first_distance = FIRST, .scale = 0.25f});
    lab_expect(lab, bias, expected);
    lab_clear(lab);
}

static inline void case_alibi(struct lab *lab) {
    static const double eight[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const double sixteen[] = {0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8};
    static const double twelve[] = {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5};
    static const double three[] = {4, 8, 2}, one[] = {8};
    alibi_variant(lab, eight, 8, 0);
    alibi_variant(lab, sixteen, 16, 0);
    alibi_variant(lab, sixteen, 16, 12);
    alibi_variant(lab, twelve, 12, 0);
    alibi_variant(lab, twelve, 12, 9);
    alibi_variant(lab, three, 3, 0);
    alibi_variant(lab, one, 1, 0);
}

// ---- Latent attention ----

// One row after the other, as the contract says.
static inline void latent_variant(struct lab *lab, int64_t N, int64_t H, const int64_t sizes[3]) {
    int64_t P = sizes[0], R = sizes[1], V = sizes[2], width = H * (P + R + V), gap = 3;
    struct sample up = lab_2d(lab, N, H * (P + V), 1), shared = lab_2d(lab, N, gap + R, 1);
    struct sample kv = lab_2d(lab, N, width, 1), dkv = lab_2d(lab, N, width, 1);
    struct sample dup = lab_2d(lab, N, H * (P + V), 1), dshared = lab_2d(lab, N, gap + R, 1);
    for (int64_t n = 0; n < N; n++) {
        for (int64_t i = 0; i < R; i++)
            dshared.x[n * (gap + R) + gap + i] = 0;
        for (int64_t h = 0; h < H; h++) {
            int64_t key = n * width + h * (P + R), value = n * width + H * (P + R) + h * V, own = (n * H + h) * (P + V);
            for (int64_t i = 0; i < P + V; i++) {
                int64_t to = i < P ? key + i : value + i - P;
                kv.x[to] = up.x[own + i];
                dup.x[own + i] = dkv.x[to];
            }
            for (int64_t i = 0; i < R; i++) {
                kv.x[key + P + i] = shared.x[n * (gap + R) + gap + i];
                dshared.x[n * (gap + R) + gap + i] += dkv.x[key + P + i];
            }
        }
    }
    op_latent_forward(
        lab->device,
        &(struct op_latent_forward){
            .kv = kv.t, .up = up.t, .shared = tensor_slice(shared.t, 1, gap, R), .heads = H, .value_size = V});
    lab_expect(lab, kv.t, kv.x);
    op_latent_backward(
        lab->device,
        &(struct op_latent_backward){
            .dup = dup.t, .dshared = tensor_slice(dshared.t, 1, gap, R), .dkv = dkv.t, .heads = H, .value_size = V});
    lab_expect(lab, dup.t, dup.x);
    lab_expect(lab, dshared.t, dshared.x);
    lab_clear(lab);
}

static inline void case_latent(struct lab *lab) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 2, 5}, {16, 8, 12}, {128, 64, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        latent_variant(lab, 1, 1, sizes[i]);
        latent_variant(lab, 17, 3, sizes[i]);
        latent_variant(lab, 65, 16, sizes[i]);
    }
}

#endif
