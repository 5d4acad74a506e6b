// Attention, forward and backward, against the plain formula in double precision that stores the (Tq, Tk) matrix, and
// the backward pass against finite differences of that formula.
#ifndef TESTS_OPS_CASES_ATTENTION_H
#define TESTS_OPS_CASES_ATTENTION_H

#include "lab.h"

struct attention_case {
    int64_t B, Tq, Tk, H, G, D;
    bool is_causal;
    bool is_packed;  // q, k and v are views of one (B, T, H D + G D + G V) tensor, out of another; needs Tq = Tk
    float rate;
    // The mask: a window, samples of several lengths, documents that begin within the row, biases by distance.
    int64_t window;
    bool has_counts, has_starts, has_bias;
    bool is_fixed;  // no gradient of the bias is wanted
    float cap;
    bool has_sinks;
    int64_t V;  // the size of values; 0 for D
};

static inline int64_t attention_value_size(const struct attention_case *c) {
    return c->V > 0 ? c->V : c->D;
}

struct attention_setup {
    struct attention_case c;
    struct attention_mask mask;
    struct attention_scores scores;
    int32_t *counts, *starts;  // (B), (B, Tq)
    double *bias;              // (H, Tq + Tk - 1)
    struct dropout dropout;
    const unsigned char *kept;  // (B, H, Tq, Tk), or NULL: the mask is the one that ops.h defines
    struct tensor q, k, v, out, lse;
    struct tensor whole[4];  // contiguous tensors behind q, k, v, out: the same one if packed
    double *values[5];       // (B, Tq, H, D), (B, Tk, G, D), (B, Tk, G, V), the bias, the sinks
    double scale;
};

// A (B, T, heads, D) view that begins at column `first` of a (B, T, width) tensor.
static inline struct tensor heads_view(struct tensor whole, int64_t first, int64_t heads, int64_t head_size) {
    struct tensor t = tensor_slice(whole, 2, first, heads * head_size);
    t.rank = 4;
    t.shape[2] = heads;
    t.shape[3] = head_size;
    t.stride[2] = head_size;
    t.stride[3] = 1;
    return t;
}

// The content of a view, gathered from the doubles of the contiguous tensor behind it.
static inline double *heads_gather(struct lab *lab, struct tensor view, struct tensor whole, const double *x) {
    int64_t offset = ((unsigned char *)view.data - (unsigned char *)whole.data) / (int64_t)dtype_bytes(view.dtype);
    double *result = lab_doubles(lab, tensor_count(view)), *at = result;
    for (int64_t b = 0; b < view.shape[0]; b++)
        for (int64_t t = 0; t < view.shape[1]; t++)
            for (int64_t h = 0; h < view.shape[2]; h++)
                for (int64_t d = 0; d < view.shape[3]; d++)
                    *at++ = x[offset + b * view.stride[0] + t * view.stride[1] + h * view.stride[2] + d];
    return result;
}

static inline struct sample lab_3d(struct lab *lab, int64_t a, int64_t b, int64_t c, double scale) {
    return lab_sample(lab, arena_3d(&lab->arena, lab->dtype, a, b, c), scale);
}

// The larger b is, the fewer keys sample b has, down to none; documents begin at about every seventh key.
static inline void attention_set_mask(struct lab *lab, struct attention_setup *s) {
    const struct attention_case *c = &s->c;
    s->mask.window = c->window;
    if (c->has_counts) {
        s->counts = lab_host(lab, (size_t)c->B * sizeof *s->counts);
        for (int64_t b = 0; b < c->B; b++)
            s->counts[b] = (int32_t)(b == c->B - 1 && c->B > 2 ? 0 : c->Tk - 2 * b - 1);
        s->mask.key_counts = lab_ints(lab, c->B, s->counts);
    }
    if (c->has_starts) {
        s->starts = lab_host(lab, (size_t)(c->B * c->Tq) * sizeof *s->starts);
        for (int64_t n = 0; n < c->B * c->Tq; n++) {
            int64_t key = n % c->Tq + c->Tk - c->Tq;
            s->starts[n] = (int32_t)(key - key % (7 + n / c->Tq));
        }
        s->mask.first_keys = lab_ints(lab, c->B * c->Tq, s->starts);
    }
    if (c->has_bias) {
        struct sample bias = lab_fp32_2d(lab, c->H, c->Tq + c->Tk - 1, 2);
        s->mask.relative_bias = bias.t;
        s->bias = s->values[3] = bias.x;
    }
}

static inline bool attention_sees(const struct attention_setup *s, int64_t b, int64_t i, int64_t j) {
    const struct attention_case *c = &s->c;
    int64_t last = i + c->Tk - c->Tq;
    return !(c->is_causal && j > last) && !(c->window > 0 && j <= last - c->window) &&
           !(s->counts && j >= s->counts[b]) && !(s->starts && j < s->starts[b * c->Tq + i]);
}

static inline void attention_setup(struct lab *lab, struct attention_setup *s, const struct attention_case *c) {
    *s = (struct attention_setup){.c = *c, .scale = 1 / sqrt((double)c->D)};
    s->dropout = lab_dropout(lab, c->rate, c->B * c->Tq);
    struct sample whole[3];
    int64_t V = attention_value_size(c);
    if (c->is_packed) {
        whole[0] = lab_3d(lab, c->B, c->Tq, (c->H + c->G) * c->D + c->G * V, 2);
        whole[1] = whole[2] = whole[0];
        s->q = heads_view(whole[0].t, 0, c->H, c->D);
        s->k = heads_view(whole[0].t, c->H * c->D, c->G, c->D);
        s->v = heads_view(whole[0].t, (c->H + c->G) * c->D, c->G, V);
    } else {
        whole[0] = lab_3d(lab, c->B, c->Tq, c->H * c->D, 2);
        whole[1] = lab_3d(lab, c->B, c->Tk, c->G * c->D, 2);
        whole[2] = lab_3d(lab, c->B, c->Tk, c->G * V, 2);
        s->q = heads_view(whole[0].t, 0, c->H, c->D);
        s->k = heads_view(whole[1].t, 0, c->G, c->D);
        s->v = heads_view(whole[2].t, 0, c->G, V);
    }
    for (int i = 0; i < 3; i++)
        s->whole[i] = whole[i].t;
    s->values[0] = heads_gather(lab, s->q, s->whole[0], whole[0].x);
    s->values[1] = heads_gather(lab, s->k, s->whole[1], whole[1].x);
    s->values[2] = heads_gather(lab, s->v, s->whole[2], whole[2].x);
    s->whole[3] = lab_3d(lab, c->B, c->Tq, c->H * V + (c->is_packed ? 8 : 0), 1).t;
    s->out = heads_view(s->whole[3], 0, c->H, V);
    s->lse = arena_3d(&lab->arena, DTYPE_F32, c->B, c->H, c->Tq);
    device_zero(lab->device, s->lse);  // a library may write it unnoticed by a memory checker
    attention_set_mask(lab, s);
    s->scores.cap = c->cap;
    if (c->has_sinks) {
        struct sample sinks = lab_sample(lab, arena_1d(&lab->arena, lab->dtype, c->H), 2);
        s->scores.sinks = sinks.t;
        s->values[4] = sinks.x;
    }
}

// Probabilities of one query before dropout: (Tk), 0 for hidden keys; then the slopes of the cap, (Tk). Returns the
// log-sum-exp. x[3] is the bias, x[4] the sinks.
static inline double naive_probabilities(const struct attention_setup *s, double *const x[5], const int64_t at[3],
                                         double *p) {
    const struct attention_case *c = &s->c;
    int64_t b = at[0], h = at[1], i = at[2], g = h / (c->H / c->G);
    double max = s->values[4] ? x[4][h] : -INFINITY, sum = 0;
    for (int64_t j = 0; j < c->Tk; j++) {
        p[j] = -INFINITY;
        if (!attention_sees(s, b, i, j))
            continue;
        p[j] = s->scale *
               lab_inner(x[0] + ((b * c->Tq + i) * c->H + h) * c->D, x[1] + ((b * c->Tk + j) * c->G + g) * c->D, c->D);
        p[c->Tk + j] = c->cap > 0 ? 1 - pow(tanh(p[j] / (double)c->cap), 2) : 1;
        if (c->cap > 0)
            p[j] = (double)c->cap * tanh(p[j] / (double)c->cap);
        if (s->bias)
            p[j] += x[3][h * (c->Tq + c->Tk - 1) + j - i + c->Tq - 1];
        max = p[j] > max ? p[j] : max;
    }
    if (max == -INFINITY) {
        memset(p, 0, (size_t)c->Tk * sizeof *p);
        return -INFINITY;
    }
    if (s->values[4])
        sum = exp(x[4][h] - max);
    for (int64_t j = 0; j < c->Tk; j++) {
        p[j] = exp(p[j] - max);
        sum += p[j];
    }
    for (int64_t j = 0; j < c->Tk; j++)
        p[j] /= sum;
    return max + log(sum);
}

static inline double attention_factor(const struct attention_setup *s, int64_t b, int64_t h, int64_t i, int64_t j) {
    uint32_t site = s->dropout.site + ((uint32_t)(s->dropout.first_head + h) << 16);
    if (s->kept)
        return s->kept[((b * s->c.H + h) * s->c.Tq + i) * s->c.Tk + j] ? 1 / (1 - (double)s->dropout.rate) : 0;
    return lab_factor(&s->dropout, b * s->c.Tq + i, j, site);
}

static inline void naive_attention(struct lab *lab, const struct attention_setup *s, double *const x[5], double *out,
                                   double *lse) {
    const struct attention_case *c = &s->c;
    double *p = lab_doubles(lab, 2 * c->Tk);
    int64_t V = attention_value_size(c);
    memset(out, 0, (size_t)(c->B * c->Tq * c->H * V) * sizeof *out);
    for (int64_t n = 0; n < c->B * c->H * c->Tq; n++) {
        int64_t at[3] = {n / c->Tq / c->H, n / c->Tq % c->H, n % c->Tq}, g = at[1] / (c->H / c->G);
        lse[n] = naive_probabilities(s, x, at, p);
        for (int64_t j = 0; j < c->Tk; j++) {
            if (p[j] != 0)
                lab_add(out + ((at[0] * c->Tq + at[2]) * c->H + at[1]) * V,
                        p[j] * attention_factor(s, at[0], at[1], at[2], j), x[2] + ((at[0] * c->Tk + j) * c->G + g) * V,
                        V);
        }
    }
}

// gradient[0…4] of q, k, v, the bias and the sinks of each sample, zeroed by the caller. `out` is the result of
// forward: the sum of weights times their gradients is taken from it, as on devices, because its rounding to 16 bits
// matters if a query sees few keys.
static inline void naive_attention_backward(struct lab *lab, const struct attention_setup *s, const double *dout,
                                            const double *out, double *const gradient[5]) {
    const struct attention_case *c = &s->c;
    double *p = lab_doubles(lab, 2 * c->Tk), *dp = lab_doubles(lab, c->Tk);
    int64_t V = attention_value_size(c);
    for (int64_t n = 0; n < c->B * c->H * c->Tq; n++) {
        int64_t at[3] = {n / c->Tq / c->H, n / c->Tq % c->H, n % c->Tq}, g = at[1] / (c->H / c->G);
        int64_t query = ((at[0] * c->Tq + at[2]) * c->H + at[1]) * c->D, result = query / c->D * V;
        double dot = lab_inner(dout + result, out + result, V);
        double lse = naive_probabilities(s, s->values, at, p);
        if (s->values[4])
            gradient[4][at[0] * c->H + at[1]] -= exp(s->values[4][at[1]] - lse) * dot;
        for (int64_t j = 0; j < c->Tk; j++) {
            int64_t key = ((at[0] * c->Tk + j) * c->G + g) * V;
            double factor = p[j] != 0 ? attention_factor(s, at[0], at[1], at[2], j) : 0;
            dp[j] = factor != 0 ? factor * lab_inner(dout + result, s->values[2] + key, V) : 0;
            if (factor != 0)
                lab_add(gradient[2] + key, p[j] * factor, dout + result, V);
        }
        for (int64_t j = 0; j < c->Tk; j++) {
            int64_t key = ((at[0] * c->Tk + j) * c->G + g) * c->D;
            double ds = s->scale * p[j] * (dp[j] - dot) * p[c->Tk + j];
            if (s->bias)
                gradient[3][(at[0] * c->H + at[1]) * (c->Tq + c->Tk - 1) + j - at[2] + c->Tq - 1] +=
                    p[j] * (dp[j] - dot);
            if (ds != 0) {
                lab_add(gradient[0] + query, ds, s->values[1] + key, c->D);
                lab_add(gradient[1] + key, ds, s->values[0] + query, c->D);
            }
        }
    }
}

static inline void attention_run_forward(struct lab *lab, struct attention_setup *s, bool has_lse) {
    struct op_attention_forward op = {.out = s->out,
                                      .q = s->q,
                                      .k = s->k,
                                      .v = s->v,
                                      .scale = (float)s->scale,
                                      .scores = s->scores,
                                      .is_causal = s->c.is_causal,
                                      .mask = s->mask,
                                      .dropout = s->dropout};
    if (has_lse)
        op.lse = s->lse;
    op_attention_forward(lab->device, &op);
}

// Runs the backward pass; gradients[0…2] are then dq, dk and dv, gradients[3] what was added to that of
// the bias, gradients[4] dsinks.
static inline void attention_run_backward(struct lab *lab, struct attention_setup *s, struct sample dout,
                                          double *gradients[5]) {
    struct tensor whole[3];
    struct attention_case *c = &s->c;
    whole[0] = lab_sample(lab, arena_3d(&lab->arena, lab->dtype, c->B, c->Tq, s->whole[0].shape[2]), 1).t;
    whole[1] = c->is_packed ? whole[0] : lab_3d(lab, c->B, c->Tk, c->G * c->D, 1).t;
    int64_t V = attention_value_size(c);
    whole[2] = c->is_packed ? whole[0] : lab_3d(lab, c->B, c->Tk, c->G * V, 1).t;
    struct op_attention_backward op = {
        .dq = heads_view(whole[0], 0, c->H, c->D),
        .dk = heads_view(whole[1], c->is_packed ? c->H * c->D : 0, c->G, c->D),
        .dv = heads_view(whole[2], c->is_packed ? (c->H + c->G) * c->D : 0, c->G, V),
        .dout = heads_view(dout.t, 0, c->H, V),
        .out = s->out,
        .lse = s->lse,
        .scratch = arena_3d(&lab->arena, DTYPE_F32, c->B, c->H, c->Tq),
        .workspace = arena_1d(&lab->arena, DTYPE_U8, attention_workspace_bytes(s->q, s->k, s->v, &s->mask)),
        .q = s->q,
        .k = s->k,
        .v = s->v,
        .scale = (float)s->scale,
        .scores = s->scores,
        .is_causal = c->is_causal,
        .mask = s->mask,
        .dropout = s->dropout,
    };
    struct sample dbias = {0};
    int64_t width = c->Tq + c->Tk - 1, biases = c->B * c->H * width;
    if (c->has_bias && !c->is_fixed)
        dbias = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, c->B, c->H, width), 1);
    op.drelative_bias = dbias.t;
    if (c->has_sinks)
        op.dsinks = lab_fp32_2d(lab, c->B, c->H, 1).t;
    op_attention_backward(lab->device, &op);
    gradients[3] = dbias.x ? lab_moved(lab, lab_read(lab, dbias.t), dbias.x, -1, biases) : NULL;
    gradients[4] = c->has_sinks ? lab_read(lab, op.dsinks) : NULL;
    gradients[0] = heads_gather(lab, op.dq, whole[0], lab_read(lab, whole[0]));
    gradients[1] = heads_gather(lab, op.dk, whole[1], lab_read(lab, whole[1]));
    gradients[2] = heads_gather(lab, op.dv, whole[2], lab_read(lab, whole[2]));
}

// Both passes against the formula: three operations of the device.
static inline void attention_compare(struct lab *lab, struct attention_setup *s) {
    const struct attention_case *c = &s->c;
    int64_t queries = c->B * c->Tq * c->H * c->D, keys = c->B * c->Tk * c->G * c->D;
    int64_t V = attention_value_size(c), results = queries / c->D * V, values = keys / c->D * V;
    double *out = lab_doubles(lab, results), *lse = lab_doubles(lab, c->B * c->H * c->Tq);
    naive_attention(lab, s, s->values, out, lse);
    attention_run_forward(lab, s, false);
    double *actual_out = heads_gather(lab, s->out, s->whole[3], lab_read(lab, s->whole[3]));
    lab_expect_values(lab, actual_out, out, results);
    attention_run_forward(lab, s, true);
    // Queries that see nothing have minus infinity, which minus itself is NaN.
    double *actual_lse = lab_read(lab, s->lse);
    for (int64_t n = 0; n < c->B * c->H * c->Tq; n++)
        if (lse[n] == -INFINITY && actual_lse[n] == -INFINITY)
            lse[n] = actual_lse[n] = 0;
    lab_expect_values(lab, actual_lse, lse, c->B * c->H * c->Tq);
    struct sample dout = lab_3d(lab, c->B, c->Tq, c->H * V, 1);
    int64_t biases = c->B * c->H * (c->Tq + c->Tk - 1);
    double *expected[5] = {lab_doubles(lab, queries), lab_doubles(lab, keys), lab_doubles(lab, values),
                           lab_doubles(lab, biases), lab_doubles(lab, c->B * c->H)};
    naive_attention_backward(lab, s, dout.x, actual_out, expected);
    double *gradients[5];
    attention_run_backward(lab, s, dout, gradients);
    if (gradients[3])
        lab_expect_values(lab, gradients[3], expected[3], biases);
    if (c->has_sinks)
        lab_expect_values(lab, gradients[4], expected[4], c->B * c->H);
    lab_expect_values(lab, gradients[0], expected[0], queries);
    lab_expect_values(lab, gradients[1], expected[1], keys);
    lab_expect_values(lab, gradients[2], expected[2], values);
}

static inline bool attention_is_too_large(const struct lab *lab, const struct attention_case *c) {
    enum { TINY = 650000, TINY_FP32 = 100000 };  // multiplications: two tiles of a kernel, those in fp32 without copies
    int64_t most = lab->dtype == DTYPE_F32 ? TINY_FP32 : TINY;
    return lab_is_tiny() && c->B * c->H * c->Tq * c->Tk * c->D > most;
}

static inline void attention_variant(struct lab *lab, const struct attention_case *c) {
    struct attention_setup s;
    if (attention_is_too_large(lab, c))
        return;
    attention_setup(lab, &s, c);
    attention_compare(lab, &s);
    lab_clear(lab);
}

static inline void attention_variants(struct lab *lab, const struct attention_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++)
        attention_variant(lab, &cases[i]);
}

static inline void case_attention(struct lab *lab) {
    static const struct attention_case cases[] = {
        {1, 1, 1, 1, 1, 2, .is_causal = true},
        {1, 3, 3, 1, 1, 4, .is_causal = true},
        {2, 17, 17, 3, 3, 8, .is_causal = true, .is_packed = true},
        {1, 65, 65, 2, 2, 64, .is_causal = true, .is_packed = true},
        {2, 65, 65, 4, 2, 17, .is_causal = false},
        {1, 130, 130, 2, 1, 64, .is_causal = true, .is_packed = true},
        {1, 300, 300, 1, 1, 32, .is_causal = true},
        {1, 200, 200, 6, 2, 16, .is_causal = true, .is_packed = true},  // grouped queries
        {2, 1, 40, 2, 2, 16, .is_causal = true},                        // one new token and a cache
        {2, 3, 150, 2, 1, 16, .is_causal = true},
        {1, 70, 200, 2, 2, 16, .is_causal = true},
        {1, 130, 67, 2, 2, 16, .is_causal = false},
        {1, 70, 70, 1, 1, 128, .is_causal = true},
        {1, 20, 20, 1, 1, 256, .is_causal = true},
    };
    attention_variants(lab, cases, sizeof cases / sizeof cases[0]);
}

static inline void case_attention_dropout(struct lab *lab) {
    static const struct attention_case cases[] = {
        {1, 3, 3, 1, 1, 4, .is_causal = true, .rate = 0.2f},
        {2, 65, 65, 4, 2, 16, .is_causal = true, .is_packed = true, .rate = 0.1f},
        {1, 200, 200, 2, 2, 32, .is_causal = true, .rate = 0.1f},
        {1, 17, 150, 2, 2, 16, .is_causal = true, .rate = 0.3f},
        {2, 65, 131, 3, 1, 8, .is_causal = false, .rate = 0.1f},
    };
    attention_variants(lab, cases, sizeof cases / sizeof cases[0]);
}

static inline void case_attention_masks(struct lab *lab) {
    static const struct attention_case cases[] = {
        {1, 9, 9, 2, 1, 4, .is_causal = true, .window = 3},
        {2, 200, 200, 2, 1, 16, .is_causal = true, .is_packed = true, .window = 70},
        {1, 5, 150, 2, 2, 8, .is_causal = true, .window = 131},           // a cache longer than the window
        {3, 17, 17, 2, 2, 8, .is_causal = false, .has_counts = true},     // the last sample sees nothing
        {4, 130, 150, 4, 2, 16, .is_causal = false, .has_counts = true},  // cross-attention to padded keys
        {2, 150, 150, 2, 2, 16, .is_causal = true, .is_packed = true, .has_starts = true},
        {2, 140, 140, 2, 1, 32, .is_causal = true, .window = 5, .has_starts = true, .rate = 0.1f},
        {3, 17, 17, 3, 3, 8, .is_causal = false, .is_packed = true, .has_counts = true, .has_bias = true},
        {2, 131, 131, 2, 2, 16, .is_causal = true, .has_bias = true},
        {1, 1, 40, 4, 2, 16, .is_causal = true, .has_bias = true},
        {2, 70, 131, 2, 1, 5, .is_causal = false, .has_bias = true, .has_counts = true, .rate = 0.2f},
        {2, 150, 70, 4, 2, 40, .is_causal = false, .has_bias = true, .has_counts = true, .rate = 0.1f},
        {1, 130, 200, 2, 2, 24, .is_causal = true, .window = 90, .has_starts = true, .has_counts = true},
        // The last queries of a longer sequence, as when ranks share one.
        {2, 33, 132, 4, 2, 8, .is_causal = true, .window = 40, .has_starts = true, .rate = 0.1f},
        {2, 32, 160, 2, 2, 16, .is_causal = true, .has_bias = true, .rate = 0.1f},
        {2, 131, 131, 4, 2, 16, .is_causal = true, .is_packed = true, .has_bias = true, .is_fixed = true, .rate = 0.1f},
        {2, 40, 140, 2, 2, 24, .is_causal = true, .window = 50, .has_starts = true, .has_bias = true, .is_fixed = true},
    };
    attention_variants(lab, cases, sizeof cases / sizeof cases[0]);
}

// Caps from those that nearly all scores reach to those that change little, and sinks.
static inline void case_attention_scores(struct lab *lab) {
    static const struct attention_case cases[] = {
        {1, 1, 1, 1, 1, 2, .is_causal = true, .cap = 1, .has_sinks = true},
        {2, 17, 17, 3, 3, 8, .is_causal = true, .is_packed = true, .cap = 0.5f},
        {2, 65, 65, 4, 2, 16, .is_causal = true, .is_packed = true, .has_sinks = true},
        {1, 200, 200, 2, 1, 32, .is_causal = true, .cap = 3, .has_sinks = true, .rate = 0.1f},
        {2, 150, 150, 2, 1, 16, .is_causal = true, .window = 20, .cap = 50, .has_sinks = true},
        {2, 1, 40, 4, 2, 16, .is_causal = true, .window = 7, .has_sinks = true},
        {4, 33, 70, 4, 2, 8, .is_causal = false, .has_counts = true, .has_sinks = true},  // some see only the sink
        {1, 66, 131, 2, 1, 256, .is_causal = true, .cap = 2, .has_sinks = true},
        {2, 17, 17, 3, 3, 8, .is_causal = true, .has_bias = true, .has_sinks = true},
    };
    attention_variants(lab, cases, sizeof cases / sizeof cases[0]);
}

// Heads of any width, for devices without a limit: less than one slice of the CPU's matmuls, one more, several.
static inline void case_attention_wide(struct lab *lab) {
    static const struct attention_case cases[] = {
        {1, 20, 20, 1, 1, 257, .is_causal = true},
        {2, 17, 17, 4, 2, 300, .is_causal = true, .is_packed = true},
        {1, 70, 140, 2, 1, 512, .is_causal = true},
        {1, 5, 5, 1, 1, 1030, .is_causal = false},
        {2, 66, 131, 2, 1, 320, .is_causal = false, .has_bias = true, .has_counts = true, .rate = 0.2f},
        {1, 140, 140, 2, 2, 264, .is_causal = true, .window = 5, .has_starts = true, .rate = 0.1f},
        {2, 1, 40, 2, 2, 384, .is_causal = true},
    };
    int most = lab->device->ops->most_head_size;
    double tolerance = lab->tolerance;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (most > 0 && cases[i].D > most)
            continue;
        // Dot products along a head are longer sums, whose differences are taken.
        lab->tolerance = tolerance * sqrt((double)cases[i].D / 64);
        attention_variant(lab, &cases[i]);
    }
    lab->tolerance = tolerance;
}

// Cases with longer sums than others; all with dropout, or as they say.
static inline void attention_long_variants(struct lab *lab, const struct attention_case *cases, size_t count,
                                           bool has_dropout) {
    double tolerance = lab->tolerance;
    lab->tolerance = 3 * tolerance;
    for (size_t i = 0; i < count; i++) {
        struct attention_case c = cases[i];
        c.rate = has_dropout ? 0.1f : c.rate;
        attention_variant(lab, &c);
    }
    lab->tolerance = tolerance;
}

// Several tiles of the heads that have kernels of their own on some GPUs, whole ones and parts.
static inline void case_attention_tiles(struct lab *lab) {
    static const struct attention_case cases[] = {
        {1, 17, 17, 1, 1, 64, .is_causal = true, .rate = 0.1f},
        {1, 99, 99, 1, 1, 64, .is_causal = true},
        {1, 70, 70, 1, 1, 128, .is_causal = true, .rate = 0.1f},
        {1, 129, 129, 2, 2, 64, .is_causal = true, .is_packed = true, .rate = 0.1f},
        {2, 300, 300, 4, 2, 64, .is_causal = true, .is_packed = true, .rate = 0.2f},
        {1, 300, 300, 2, 1, 128, .is_causal = true, .is_packed = true, .rate = 0.1f},
        {1, 150, 150, 2, 2, 64, .is_causal = true, .rate = 0.7f},
        {1, 257, 400, 2, 2, 64, .is_causal = true},
        {2, 70, 391, 2, 2, 128, .is_causal = false, .rate = 0.3f},
        {2, 270, 270, 2, 1, 64, .is_causal = true, .window = 100, .has_starts = true, .rate = 0.1f},
        {3, 200, 333, 2, 2, 64, .is_causal = false, .has_counts = true, .rate = 0.1f},
        {2, 390, 390, 2, 2, 128, .is_causal = true, .has_starts = true},
        {1, 200, 530, 4, 1, 128, .is_causal = true, .window = 150, .rate = 0.1f},
        {1, 300, 130, 2, 1, 64, .is_causal = false},
        {70, 17, 17, 8, 4, 64, .is_causal = true, .is_packed = true, .rate = 0.1f},  // more heads than processors
        {9, 33, 33, 16, 16, 128, .is_causal = false, .has_counts = true, .rate = 0.1f},
        {2, 270, 270, 4, 2, 64, .is_causal = true, .is_packed = true, .window = 100, .has_sinks = true, .rate = 0.1f},
        {3, 130, 200, 4, 2, 128, .is_causal = false, .has_counts = true, .has_sinks = true},
        {1, 150, 150, 2, 1, 128, .is_causal = true, .is_packed = true, .cap = 5, .has_sinks = true, .rate = 0.1f},
        {2, 130, 130, 4, 2, 256, .is_causal = true, .is_packed = true, .window = 70, .cap = 5},
        {1, 70, 200, 4, 2, 256, .is_causal = true, .rate = 0.1f},
        {2, 131, 131, 2, 1, 192, .is_causal = true, .has_starts = true, .rate = 0.1f},
        {2, 130, 70, 2, 2, 200, .is_causal = false, .has_counts = true, .has_bias = true, .rate = 0.1f},
        {1, 130, 130, 4, 4, 192, .is_causal = true, .rate = 0.1f, .V = 128},
    };
    attention_long_variants(lab, cases, sizeof cases / sizeof cases[0], false);
}

// As few scores as make those kernels use all of their memory again: for keys, for queries, and for the rows of blocks,
// which have several heads each. Small enough for a race checker.
static inline void case_attention_rings(struct lab *lab) {
    static const struct attention_case cases[] = {
        {1, 9, 700, 1, 1, 64, .is_causal = false},   {1, 330, 17, 1, 1, 64, .is_causal = false},
        {50, 1, 3, 8, 8, 64, .is_causal = true},     {1, 9, 400, 1, 1, 128, .is_causal = false},
        {1, 230, 17, 1, 1, 128, .is_causal = false}, {50, 1, 3, 8, 4, 128, .is_causal = true},
        {1, 9, 140, 1, 1, 256, .is_causal = false},  {1, 140, 9, 1, 1, 256, .is_causal = false, .cap = 5},
    };
    attention_long_variants(lab, cases, sizeof cases / sizeof cases[0], false);
    attention_long_variants(lab, cases, sizeof cases / sizeof cases[0], true);
}

// Values of another size than keys, as in latent attention.
static inline void case_attention_values(struct lab *lab) {
    static const struct attention_case cases[] = {
        {1, 1, 1, 1, 1, 2, .is_causal = true, .V = 1},
        {2, 17, 17, 3, 3, 12, .is_causal = true, .is_packed = true, .V = 8},
        {1, 65, 65, 2, 2, 24, .is_causal = true, .is_packed = true, .V = 16},
        {2, 65, 131, 4, 2, 8, .is_causal = false, .rate = 0.1f, .V = 40},
        {1, 130, 130, 2, 2, 192, .is_causal = true, .is_packed = true, .V = 128},
        {1, 130, 130, 2, 1, 64, .is_causal = true, .V = 96},
        {2, 1, 40, 4, 4, 24, .is_causal = true, .V = 16},  // one new token and a cache
        {2, 140, 140, 2, 1, 32, .is_causal = true, .window = 5, .has_starts = true, .rate = 0.1f, .V = 24},
        {3, 33, 70, 4, 4, 10, .is_causal = false, .has_counts = true, .cap = 3, .V = 6},
        {1, 20, 70, 2, 1, 128, .is_causal = true, .V = 256},
        {1, 20, 70, 4, 1, 576, .is_causal = true, .V = 512},  // of latents themselves
    };
    int most = lab->device->ops->most_head_size;
    double tolerance = lab->tolerance;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (most > 0 && cases[i].D > most)
            continue;
        lab->tolerance = tolerance * fmax(1, sqrt((double)cases[i].D / 64));
        attention_variant(lab, &cases[i]);
    }
    lab->tolerance = tolerance;
}

static inline double attention_loss(struct lab *lab, const struct attention_setup *s, double *const direction[5],
                                    const double *dout, double step) {
    const struct attention_case *c = &s->c;
    int64_t queries = c->B * c->Tq * c->H * c->D, keys = c->B * c->Tk * c->G * c->D;
    int64_t biases = c->H * (c->Tq + c->Tk - 1);
    double *moved[5] = {lab_moved(lab, s->values[0], direction[0], step, queries),
                        lab_moved(lab, s->values[1], direction[1], step, keys),
                        lab_moved(lab, s->values[2], direction[2], step, keys),
                        s->bias ? lab_moved(lab, s->bias, direction[3], step, biases) : NULL,
                        s->values[4] ? lab_moved(lab, s->values[4], direction[4], step, c->H) : NULL};
    double *out = lab_doubles(lab, queries), *lse = lab_doubles(lab, c->B * c->H * c->Tq);
    naive_attention(lab, s, moved, out, lse);
    return lab_inner(out, dout, queries);
}

static inline void case_attention_slope(struct lab *lab) {
    static const struct attention_case cases[] = {
        {2, 17, 17, 2, 2, 8, .is_causal = true},
        {1, 9, 21, 4, 2, 3, .is_causal = true, .rate = 0.2f},
        {1, 65, 65, 2, 1, 16, .is_causal = false},
        {2, 17, 17, 2, 2, 8, .is_causal = true, .window = 4, .has_starts = true},
        {2, 12, 19, 2, 1, 4, .is_causal = false, .has_counts = true, .has_bias = true},
        {2, 17, 17, 4, 2, 8, .is_causal = true, .cap = 1.5f},
        {2, 17, 17, 4, 2, 8, .is_causal = true, .has_sinks = true, .rate = 0.2f},
        {2, 9, 21, 4, 2, 3, .is_causal = true, .window = 4, .cap = 0.7f, .has_sinks = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct attention_case *c = &cases[i];
        struct attention_setup s;
        attention_setup(lab, &s, c);
        int64_t queries = c->B * c->Tq * c->H * c->D, keys = c->B * c->Tk * c->G * c->D;
        struct sample dout = lab_3d(lab, c->B, c->Tq, c->H * c->D, 1);
        double *gradients[5];
        int64_t biases = c->H * (c->Tq + c->Tk - 1);
        double *direction[5] = {lab_direction(lab, queries), lab_direction(lab, keys), lab_direction(lab, keys),
                                lab_direction(lab, biases), lab_direction(lab, c->H)};
        attention_run_forward(lab, &s, true);
        attention_run_backward(lab, &s, dout, gradients);
        double slope = lab_inner(gradients[0], direction[0], queries) + lab_inner(gradients[1], direction[1], keys) +
                       lab_inner(gradients[2], direction[2], keys);
        for (int64_t b = 0; b < c->B && c->has_bias; b++)
            slope += lab_inner(gradients[3] + b * biases, direction[3], biases);
        for (int64_t b = 0; b < c->B && c->has_sinks; b++)
            slope += lab_inner(gradients[4] + b * c->H, direction[4], c->H);
        lab_expect_slope(lab, slope, attention_loss(lab, &s, direction, dout.x, 1e-5),
                         attention_loss(lab, &s, direction, dout.x, -1e-5), 1e-5);
        lab_clear(lab);
    }
}

#endif
