// Multi-head latent attention (DeepSeek-V2, 2024): keys and values of all heads are computed from one narrow latent per
// token, queries from another latent or directly from the token. Rotary positions use separate channels, which the keys
// of all heads share. While text is generated, only the latent and the shared channels of a token are kept.
//
// Ranks that share the layer split the heads. Each holds the latents' matrices whole and computes the latents of its
// rows of the residual stream; the matmuls after the latents gather rows and sum gradients like any first matmul.
//
// In fp8 all five matmuls are quantized; the two that read the sublayer's input share its range and its codes.
#include "base/error.h"
#include "base/memory.h"
#include "model/attention.h"
#include "model/qk_clip.h"

#include <stdlib.h>

struct latent_attention {
    struct attention attention;
    struct linear q_down;          // (Rq, C), if queries have a latent
    struct linear q;               // (H D, Rq), or (H D, C) without a latent
    struct linear kv_down;         // (Rkv + R, C): the latent, then the channels that heads share
    struct linear kv_up;           // (H (P + V), Rkv): a head's keys without shared channels, then its values
    struct norm q_norm, kv_norm;   // of the latents; without gains: none
    struct latent_choices widths;  // Rq, Rkv, P, R
    struct rope rope;
};
// Rows of the stream: n; all rows of the pass: N.
struct latent_saved {
    struct attention_saved attention;
    struct tensor q;                    // (N, H D)
    struct tensor kv;                   // (N, H (D + V)): keys, then values; neither is kept if heads were exchanged
    struct tensor q_latent, kv_latent;  // (n, Rq) or none, (n, Rkv): before their norms
    struct tensor shared;               // (n, R): shared channels of keys, not rotated; only to recompute kv
    struct operand q_input, kv_input;   // of the matmuls after the latents; kept if linear_keeps_norm
    struct norm_saved q_norm, kv_norm;
};

static void build_linear(struct linear *linear, struct param_list *params, const char *name, const char *own,
                         const struct linear_options *options) {
    char *whole = memory_printf("%s.%s", name, own);
    linear_build(linear, params, whole, options);
    free(whole);
}

static void build_latent_norm(struct norm *norm, struct param_list *params, const char *name, const char *own,
                              const struct choices *choices, int64_t width) {
    struct norm_options options = choices->norm;
    options.C = width;
    options.epsilon = choices->latent.epsilon;
    char *whole = memory_printf("%s.%s", name, own);
    norm_build(norm, params, whole, &options);
    free(whole);
}

// A head's own channels of queries and keys share the factor. The other channels of keys belong to all heads, so the
// queries take the whole factor there.
static void clip_projections(struct latent_attention *self, const struct choices *choices) {
    struct attention *attention = &self->attention;
    int64_t H = attention->H, D = attention->D, own = choices->latent.own;
    attention_clip(attention, choices);
    double alpha = choices->qk_clip ? choices->qk_clip->alpha : 0;
    struct param_clip rows = {.units = H, .unit_rows = D, .count = own, .power = alpha};
    attention_clip_rows(attention, self->q.weight, &rows);
    rows.first = own;
    rows.count = D - own;
    rows.power = 1;
    attention_clip_rows(attention, self->q.weight, &rows);
    attention_clip_rows(
        attention, self->kv_up.weight,
        &(struct param_clip){.units = H, .unit_rows = own + attention->V, .count = own, .power = 1 - alpha});
}

static void build(struct sublayer *sublayer, struct param_list *params, const char *name,
                  const struct sublayer_options *options) {
    struct latent_attention *self = (struct latent_attention *)sublayer;
    const struct choices *choices = options->choices;
    const struct latent_choices *widths = &choices->latent;
    int64_t queries = choices->H * choices->D, heads = choices->H * (widths->own + choices->V);
    struct linear_options whole = attention_projection(options), split = whole;
    whole.has_bias = split.has_bias = false;
    whole.sums_gradient = choices->splits_rows;
    if (widths->q_rank > 0) {
        whole.weight = shard_whole(2, widths->q_rank, choices->C);
        build_linear(&self->q_down, params, name, "linear_q_down_proj", &whole);
        if (choices->has_head_norm)
            build_latent_norm(&self->q_norm, params, name, "q_layernorm", choices, widths->q_rank);
    }
    bool has_latent = widths->q_rank > 0;
    split.weight = choices_split(choices, shard_whole(2, queries, has_latent ? widths->q_rank : choices->C), 0);
    build_linear(&self->q, params, name, has_latent ? "linear_q_up_proj" : "linear_q_proj", &split);
    whole.weight = shard_whole(2, widths->kv_rank + widths->shared, choices->C);
    whole.shares_input = has_latent ? &self->q_down : &self->q;
    build_linear(&self->kv_down, params, name, "linear_kv_down_proj", &whole);
    if (choices->has_head_norm)
        build_latent_norm(&self->kv_norm, params, name, "kv_layernorm", choices, widths->kv_rank);
    split.weight = choices_split(choices, shard_whole(2, heads, widths->kv_rank), 0);
    build_linear(&self->kv_up, params, name, "linear_kv_up_proj", &split);
    attention_build(&self->attention, params, name, options);
    clip_projections(self, choices);
    self->attention.is_causal = options->is_causal;
    self->attention.recomputes_input = choices->recomputes_up;
    self->attention.window = options->layer->window;
    self->widths = *widths;
    self->rope = choices->rope;
    sublayer->first = has_latent ? &self->q_down : &self->q;
    sublayer->second = &self->kv_down;
    sublayer->dropout_layer = options->dropout_layer;
}

// Rotates heads (B, T, heads, R), or undoes the rotation if is_inverse.
static void turn(const struct latent_attention *self, const struct pass *pass, struct tensor heads, bool is_inverse) {
    op_rope(pass->device, &(struct op_rope){.x = heads,
                                            .positions = pass_input(pass, BATCH_POSITIONS),
                                            .frequencies = self->rope.frequencies,
                                            .pairs = self->rope.pairs,
                                            .is_interleaved = self->rope.is_interleaved,
                                            .is_inverse = is_inverse,
                                            .factor = self->rope.factor});
}

// The last channels of each head of queries (N, H D), which have positions.
static struct tensor turned_queries(const struct latent_attention *self, const struct pass *pass, struct tensor q) {
    struct tensor heads = attention_heads(&self->attention, q, pass->B, 0, self->attention.H);
    return tensor_slice(heads, 3, self->widths.own, self->widths.shared);
}

static struct tensor turned_keys(const struct latent_attention *self, const struct pass *pass, struct tensor shared) {
    return attention_columns(shared, pass->B, 0, 1, self->widths.shared);
}

// The normalised latent, as input of the matmul after it.
static struct operand normalized(const struct linear *up, const struct pass *pass, const struct norm *norm,
                                 struct norm_saved *saved, struct tensor latent) {
    return norm->gain ? linear_normalize(up, pass, norm, saved, latent, &(struct residual){0}) : operand_of(latent);
}

// Queries from the input of their matmul.
static void expand_queries(const struct latent_attention *self, const struct pass *pass, struct tensor q,
                           struct operand x) {
    linear_forward(&self->q, pass, q, x, EPILOGUE_NONE, (struct tensor){0});
    turn(self, pass, turned_queries(self, pass, q), false);
}

// Queries without a latent are kept even if keys and values are recomputed: their input is not kept.
static void compute_queries(const struct latent_attention *self, const struct pass *pass, struct latent_saved *saved,
                            struct operand x) {
    bool is_first = !self->q_down.weight && self->attention.recomputes_input;
    struct arena *arena = is_first ? pass->activations : attention_input_arena(&self->attention, pass);
    saved->q = arena_2d(arena, pass->dtype, pass_rows(pass), self->q.out);
    size_t mark = arena_mark(pass->scratch);
    if (self->q_down.weight) {
        saved->q_latent = arena_2d(pass->activations, pass->dtype, pass_stream_rows(pass), self->q_down.out);
        linear_forward(&self->q_down, pass, saved->q_latent, x, EPILOGUE_NONE, (struct tensor){0});
        x = saved->q_input = normalized(&self->q, pass, &self->q_norm, &saved->q_norm, saved->q_latent);
    }
    expand_queries(self, pass, saved->q, x);
    arena_release(pass->scratch, mark);
}

// The shared channels of all rows (N, R), rotated, in scratch, from this rank's rows (n, R).
static struct tensor share_keys(const struct latent_attention *self, const struct pass *pass, struct tensor rows) {
    struct tensor own = arena_2d(pass->scratch, pass->dtype, rows.shape[0], rows.shape[1]);
    op_copy(pass->device, &(struct op_copy){.dst = own, .src = rows});
    struct tensor shared = pass_gather(pass, pass->scratch, own, "shared keys");
    turn(self, pass, turned_keys(self, pass, shared), false);
    return shared;
}

// Sets the latent (n, Rkv); returns the channels that heads share.
static struct tensor compute_latent(const struct latent_attention *self, const struct pass *pass,
                                    struct latent_saved *saved, struct operand x) {
    int64_t n = pass_stream_rows(pass), rank = self->widths.kv_rank, R = self->widths.shared;
    struct tensor down = arena_2d(pass->scratch, pass->dtype, n, self->kv_down.out),
                  own = tensor_slice(down, 1, rank, R);
    linear_forward(&self->kv_down, pass, down, x, EPILOGUE_NONE, (struct tensor){0});
    saved->kv_latent = arena_2d(pass->activations, pass->dtype, n, rank);
    op_copy(pass->device, &(struct op_copy){.dst = saved->kv_latent, .src = tensor_slice(down, 1, 0, rank)});
    if (self->attention.recomputes_input) {
        saved->shared = arena_2d(pass->activations, pass->dtype, n, R);
        op_copy(pass->device, &(struct op_copy){.dst = saved->shared, .src = own});
    }
    return share_keys(self, pass, own);
}

static int64_t key_columns(const struct latent_attention *self) {
    return attention_key_columns(&self->attention);
}

// Computes kv (M, H (D + V)) from the latents and shared channels of the same M rows.
static void expand(const struct latent_attention *self, const struct pass *pass, struct tensor kv,
                   struct operand latents, struct tensor shared) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor up = arena_2d(pass->scratch, pass->dtype, kv.shape[0], self->kv_up.out);
    linear_forward(&self->kv_up, pass, up, latents, EPILOGUE_NONE, (struct tensor){0});
    op_latent_forward(
        pass->device,
        &(struct op_latent_forward){
            .kv = kv, .up = up, .shared = shared, .heads = self->attention.H, .value_size = self->attention.V});
    arena_release(pass->scratch, mark);
}

// Appends these tokens to the cache; returns the keys and values of all tokens so far, in scratch.
static struct tensor expand_cache(const struct latent_attention *self, const struct pass *pass,
                                  const struct latent_saved *saved, struct operand latents, struct tensor shared) {
    CHECK(pass->B == 1);
    int64_t rank = self->widths.kv_rank, R = self->widths.shared, M = pass->cached + pass->T;
    struct tensor cache = saved->attention.cache, rows = tensor_rows(cache, pass->cached, pass->T);
    struct tensor all = pass_gather(pass, pass->scratch, latents.value, "latents");
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(rows, 1, 0, rank), .src = all});
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(rows, 1, rank, R), .src = shared});
    struct pass whole = *pass;
    whole.splits_rows = false;
    struct tensor kv = arena_2d(pass->scratch, pass->dtype, M, key_columns(self));
    cache = tensor_rows(cache, 0, M);
    expand(self, &whole, kv, operand_of(tensor_slice(cache, 1, 0, rank)), tensor_slice(cache, 1, rank, R));
    return kv;
}

static void forward(const struct sublayer *sublayer, const struct pass *pass, void *own, struct tensor delta,
                    struct operand x) {
    const struct latent_attention *self = (const struct latent_attention *)sublayer;
    struct latent_saved *saved = own;
    const struct attention *attention = &self->attention;
    size_t mark = arena_mark(pass->scratch);
    x = linear_shared_input(sublayer->first, sublayer->second, pass, x);
    compute_queries(self, pass, saved, x);
    struct tensor shared = compute_latent(self, pass, saved, x);
    struct operand latents = normalized(&self->kv_up, pass, &self->kv_norm, &saved->kv_norm, saved->kv_latent);
    saved->kv_input = latents;
    if (pass->has_cache) {
        saved->kv = expand_cache(self, pass, saved, latents, shared);
    } else {
        saved->kv = arena_2d(attention_input_arena(attention, pass), pass->dtype, pass_rows(pass), key_columns(self));
        expand(self, pass, saved->kv, latents, shared);
    }
    attention_forward(attention, pass, &saved->attention, delta,
                      &(struct attention_input){.q = saved->q, .kv = saved->kv});
    arena_release(pass->scratch, mark);
}

// The input of the matmul after a latent, for backward: kept, or recomputed by the norm.
static struct operand input_again(const struct linear *up, const struct pass *pass, const struct norm *norm,
                                  struct tensor latent, struct operand kept) {
    struct norm_saved own;
    return norm->gain && linear_keeps_norm(up, pass) ? kept : normalized(up, pass, norm, &own, latent);
}

// Recomputes queries, keys and values, in scratch.
static void compute_again(const struct latent_attention *self, const struct pass *pass, struct latent_saved *saved) {
    const struct pass again = pass_in_scratch(pass, true);
    if (self->q_down.weight)
        saved->q = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), self->q.out);
    saved->kv = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), key_columns(self));
    size_t mark = arena_mark(pass->scratch);
    if (self->q_down.weight)
        expand_queries(self, &again, saved->q,
                       input_again(&self->q, &again, &self->q_norm, saved->q_latent, saved->q_input));
    struct tensor shared = share_keys(self, &again, saved->shared);
    expand(self, &again, saved->kv,
           input_again(&self->kv_up, &again, &self->kv_norm, saved->kv_latent, saved->kv_input), shared);
    arena_release(pass->scratch, mark);
}

// Backward of the matmul after a latent and of the norm before it: the weight gradient, and that of the latent (n,
// rank) from dy (N, out).
struct latent_gradient {
    const struct linear *up;
    const struct norm *norm;
    const struct norm_saved *saved;
    struct operand input;  // (n, rank): of the matmul, if it was kept
    struct tensor latent;  // (n, rank)
    struct tensor dy;      // (N, out)
};

static struct tensor backward_latent(const struct pass *pass, const struct latent_gradient *g) {
    struct operand dy = linear_gradient(g->up, pass, g->dy), x = operand_of(g->latent);
    struct tensor dnorm = arena_2d(pass->scratch, pass->dtype, g->latent.shape[0], g->latent.shape[1]), dx = dnorm;
    linear_backward_input(g->up, pass, dnorm, dy, (struct tensor){0});
    if (g->norm->gain) {
        bool is_kept = linear_keeps_norm(g->up, pass);
        dx = arena_2d(pass->scratch, pass->dtype, g->latent.shape[0], g->latent.shape[1]);
        struct norm_gradient gradient = {.dx = dx, .dy = dnorm, .x = g->latent};
        if (!is_kept)
            gradient.y = dnorm;
        norm_backward(g->norm, pass, g->saved, &gradient);
        x = is_kept ? g->input : operand_of(dnorm);
    }
    linear_backward_weight(g->up, pass, dy, x);
    return dx;
}

// The gradient of kv_down's output (n, Rkv + R), from that of keys and values.
static struct tensor backward_keys(const struct latent_attention *self, const struct pass *pass,
                                   const struct latent_saved *saved, struct tensor dkv) {
    int64_t n = pass_stream_rows(pass), rank = self->widths.kv_rank, R = self->widths.shared;
    struct tensor ddown = arena_2d(pass->scratch, pass->dtype, n, rank + R);
    size_t mark = arena_mark(pass->scratch);
    struct tensor dup = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), self->kv_up.out);
    struct tensor dshared = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), R);
    op_latent_backward(
        pass->device,
        &(struct op_latent_backward){
            .dup = dup, .dshared = dshared, .dkv = dkv, .heads = self->attention.H, .value_size = self->attention.V});
    turn(self, pass, turned_keys(self, pass, dshared), true);
    struct tensor own = pass->splits_rows ? arena_2d(pass->scratch, pass->dtype, n, R) : dshared;
    pass_sum(pass, own, dshared, "shared key gradients");
    struct tensor dlatent = backward_latent(pass, &(struct latent_gradient){.up = &self->kv_up,
                                                                            .norm = &self->kv_norm,
                                                                            .saved = &saved->kv_norm,
                                                                            .input = saved->kv_input,
                                                                            .latent = saved->kv_latent,
                                                                            .dy = dup});
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(ddown, 1, 0, rank), .src = dlatent});
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(ddown, 1, rank, R), .src = own});
    arena_release(pass->scratch, mark);
    return ddown;
}

static struct first_gradients backward(const struct sublayer *sublayer, const struct pass *pass, const void *own,
                                       struct tensor dx, struct tensor ddelta) {
    const struct latent_attention *self = (const struct latent_attention *)sublayer;
    struct latent_saved saved = *(const struct latent_saved *)own;
    struct tensor dq = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), self->q.out);
    struct tensor dkv = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), key_columns(self));
    size_t mark = arena_mark(pass->scratch);
    if (self->attention.recomputes_input)
        compute_again(self, pass, &saved);
    attention_backward(&self->attention, pass, &saved.attention,
                       &(struct attention_input){.q = saved.q, .kv = saved.kv},
                       &(struct attention_input){.q = dq, .kv = dkv}, ddelta);
    arena_release(pass->scratch, mark);
    turn(self, pass, turned_queries(self, pass, dq), true);
    struct tensor dfirst = dq;
    if (self->q_down.weight)
        dfirst = backward_latent(pass, &(struct latent_gradient){.up = &self->q,
                                                                 .norm = &self->q_norm,
                                                                 .saved = &saved.q_norm,
                                                                 .input = saved.q_input,
                                                                 .latent = saved.q_latent,
                                                                 .dy = dq});
    struct first_gradients dy = {.first = linear_gradient(sublayer->first, pass, dfirst)};
    linear_backward_input(sublayer->first, pass, dx, dy.first, (struct tensor){0});
    dy.second = linear_gradient(&self->kv_down, pass, backward_keys(self, pass, &saved, dkv));
    linear_backward_input_add(&self->kv_down, pass, dx, dy.second);
    return dy;
}

static void take_cache(const struct sublayer *sublayer, void *saved, const struct cache_options *options) {
    const struct latent_attention *self = (const struct latent_attention *)sublayer;
    ((struct latent_saved *)saved)->attention.cache =
        arena_2d(options->arena, options->dtype, options->capacity, self->widths.kv_rank + self->widths.shared);
}

const struct sublayer_kind sublayer_latent_attention = {.name = "self_attention",
                                                        .pre_norm = "input_layernorm",
                                                        .post_norm = "post_attention_layernorm",
                                                        .dropout_place = DROPOUT_AFTER_ATTENTION,
                                                        .bytes = sizeof(struct latent_attention),
                                                        .saved_bytes = sizeof(struct latent_saved),
                                                        .build = build,
                                                        .forward = forward,
                                                        .backward = backward,
                                                        .hold = attention_hold,
                                                        .take_cache = take_cache};
