// Self-attention: one matmul for queries, keys and values, norms of heads and rotary positions, which change queries
// and keys in place, and attention. While text is generated, keys and values of earlier tokens are kept.
#include "base/error.h"
#include "base/memory.h"
#include "model/attention.h"
#include "model/qk_clip.h"

#include <stdlib.h>

struct self_attention {
    struct attention attention;
    struct linear qkv;  // ((H + 2G) D, C), all queries, then all keys, then all values
    // Normalize queries and keys before or after their rotation: each head over its D channels, or all heads together,
    // which is always before. A norm without a gain is left out. Every rank that shares the layer holds all gains and
    // has its own heads' gradient; for a norm of all heads, these ranks gather the heads. Gains that differ by head,
    // (H, D) and (G, D), are split like the heads; if ranks share heads of keys, every rank holds all their gains.
    struct norm q_norm, k_norm;
    bool norms_all_heads, norms_each_head, norms_rotated;
    struct rope rope;
};
// A norm of heads: its input, one row per token and head or per token, and its saved activations. With gains that
// differ by head, the rows of a head are contiguous.
struct head_norm_saved {
    struct tensor x;  // (N heads, D), (heads N, D), or (N, D times all heads)
    struct norm_saved norm;
};
struct self_saved {
    struct attention_saved attention;
    struct tensor qkv;  // (N, (H + 2G) D); not kept if heads were exchanged
    struct head_norm_saved q_norm, k_norm;
};

static void build_head_norm(struct norm *norm, struct param_list *params, const char *name,
                            const struct choices *choices, int64_t heads) {
    struct norm_options options = choices->norm;
    options.C = choices->D * (choices->norms_all_heads ? heads : 1);
    options.epsilon = choices->epsilon;
    options.sums_gradient = choices->parts > 1 && !choices->norms_all_heads && !choices->norms_each_head;
    if (choices->norms_each_head) {
        bool is_whole = heads < choices->parts;
        options.heads = shard_whole(2, heads, choices->D);
        options.heads = is_whole ? options.heads : choices_split(choices, options.heads, 0);
        options.sums_gradient = is_whole;
        options.has_no_bias = true;
    }
    norm_build(norm, params, name, &options);
}

static void build_head_norms(struct self_attention *self, struct param_list *params, const char *name,
                             const struct choices *choices) {
    self->norms_all_heads = choices->norms_all_heads;
    self->norms_each_head = choices->norms_each_head;
    self->norms_rotated = choices->norms_rotated;
    char *q_name = memory_printf("%s.q_layernorm", name), *k_name = memory_printf("%s.k_layernorm", name);
    build_head_norm(&self->q_norm, params, q_name, choices, choices->H);
    build_head_norm(&self->k_norm, params, k_name, choices, choices->G);
    free(q_name);
    free(k_name);
}

static void build_sinks(struct self_attention *self, struct param_list *params, const char *name,
                        const struct choices *choices) {
    char *sinks_name = memory_printf("%s.softmax_offset", name);
    self->attention.sinks = param_add(params, sinks_name, choices_split(choices, shard_whole(1, choices->H, 1), 0),
                                      INIT_NORMAL, choices->standard_deviation);
    free(sinks_name);
}

// Queries and keys of a group of heads are scaled by the same factor.
static void clip_projection(struct self_attention *self, const struct choices *choices) {
    struct attention *attention = &self->attention;
    int64_t G = attention->G, D = attention->D, queries = attention->H / G * D;
    attention_clip(attention, choices);
    double alpha = choices->qk_clip ? choices->qk_clip->alpha : 0;
    attention_clip_rows(attention, self->qkv.weight,
                        &(struct param_clip){.units = G, .unit_rows = queries, .count = queries, .power = alpha});
    attention_clip_rows(attention, self->qkv.weight,
                        &(struct param_clip){.first_row = attention->H * D,
                                             .units = G,
                                             .unit_rows = D / attention->kv_ranks,
                                             .count = D / attention->kv_ranks,
                                             .power = 1 - alpha});
}

static void build(struct sublayer *sublayer, struct param_list *params, const char *name,
                  const struct sublayer_options *options) {
    struct self_attention *self = (struct self_attention *)sublayer;
    const struct choices *choices = options->choices;
    int64_t queries = choices->H * choices->D, keys = choices->G * choices->D;
    const int64_t packed[SHARD_MAX_SEGMENTS] = {queries, keys, keys};
    struct linear_options in = attention_projection(options);
    in.weight = choices_split(choices, linear_segments(choices->C, packed), 0);
    char *qkv_name = memory_printf("%s.linear_qkv", name);
    linear_build(&self->qkv, params, qkv_name, &in);
    free(qkv_name);
    if (choices->has_head_norm)
        build_head_norms(self, params, name, choices);
    if (choices->has_sinks)
        build_sinks(self, params, name, choices);
    attention_build(&self->attention, params, name, options);
    clip_projection(self, choices);
    self->attention.is_causal = options->is_causal;
    self->attention.window = options->layer->window;
    const struct layer_choices *layer = options->layer;
    if (layer->skips_rope || layer->has_local_rope)
        self->attention.scale = choices->unscaled_scale;
    if (!layer->skips_rope)
        self->rope = layer->has_local_rope ? choices->local_rope : choices->rope;
    sublayer->first = &self->qkv;
    sublayer->dropout_layer = options->dropout_layer;
}

// LongRoPE: the length of a whole sequence chooses the frequencies of all its tokens, on every rank that has some.
static const double *frequencies_of(const struct rope *rope, const struct pass *pass) {
    int64_t length = pass->cached + pass->T * pass->mesh->length[AXIS_CONTEXT];
    return rope->short_length > 0 && length > rope->short_length ? rope->long_frequencies : rope->frequencies;
}

// Rotates the queries and keys of a packed tensor, which are adjacent, or undoes the rotation if is_inverse.
static void turn(const struct self_attention *self, const struct pass *pass, struct tensor qkv, bool is_inverse) {
    const struct rope *rope = &self->rope;
    const struct attention *attention = &self->attention;
    if (rope->pairs > 0)
        op_rope(pass->device,
                &(struct op_rope){.x = attention_heads(attention, qkv, pass->B, 0, attention->H + attention->G),
                                  .positions = pass_input(pass, BATCH_POSITIONS),
                                  .frequencies = frequencies_of(rope, pass),
                                  .pairs = rope->pairs,
                                  .factor = rope->factor,
                                  .is_interleaved = rope->is_interleaved,
                                  .is_inverse = is_inverse});
}

// Heads of a packed tensor that have a norm, and the shape of its input, of which this rank's heads are one of `parts`
// parts.
struct normed_heads {
    const struct norm *norm;
    struct tensor packed;  // (B, T, heads, D), a view
    int64_t rows, columns;
    int parts;
    int64_t norms;  // norms that follow one another in the rows: one, or one for each head
    int64_t first;  // with gains that differ by head: the row of this rank's first head
};

static struct normed_heads normed_of(const struct self_attention *self, const struct pass *pass,
                                     const struct norm *norm, struct tensor packed) {
    int64_t heads = packed.shape[2], D = packed.shape[3], N = pass_rows(pass);
    if (self->norms_all_heads)
        return (struct normed_heads){norm, packed, N, heads * D, pass_parts(pass), 1, 0};
    int64_t head = norm->gain->shard.parts == 1 ? pass->mesh->place[AXIS_TENSOR] / self->attention.kv_ranks : 0;
    return (struct normed_heads){norm, packed, N * heads, D, 1, self->norms_each_head ? heads : 1, head};
}

static struct normed_heads normed_queries(const struct self_attention *self, const struct pass *pass,
                                          struct tensor qkv) {
    const struct attention *attention = &self->attention;
    return normed_of(self, pass, &self->q_norm, attention_heads(attention, qkv, pass->B, 0, attention->H));
}

// The keys of whole heads, or this rank's slices of them.
static struct normed_heads normed_keys(const struct self_attention *self, const struct pass *pass, struct tensor qkv) {
    const struct attention *attention = &self->attention;
    int64_t queries = attention->H * attention->D, size = (qkv.shape[1] - queries) / (2 * attention->G);
    return normed_of(self, pass, &self->k_norm, attention_columns(qkv, pass->B, queries, attention->G, size));
}

// Views the rows as (B, T, heads, D).
static struct tensor as_heads(const struct normed_heads *h, struct tensor rows) {
    int64_t B = h->packed.shape[0], T = h->packed.shape[1], heads = h->packed.shape[2], D = h->packed.shape[3];
    struct tensor view = tensor_reshape_4d(rows, B, T, heads, D);
    if (h->norms > 1) {
        view.stride[0] = T * D;
        view.stride[1] = D;
        view.stride[2] = B * T * D;
    }
    return view;
}

// One of the norms: its row of the gains, and its part of the saved activations.
struct one_norm {
    struct norm norm;
    struct param gain;
    struct norm_saved saved;
    int64_t first, count;  // of its rows
};

static struct tensor row_of(struct tensor gains, int64_t row) {
    return gains.data ? tensor_flat(tensor_rows(gains, row, 1)) : gains;
}

static void choose_norm(struct one_norm *one, const struct normed_heads *h, const struct norm_saved *saved, int64_t i) {
    one->norm = *h->norm;
    one->saved = *saved;
    one->count = h->rows / h->norms;
    one->first = i * one->count;
    if (h->norm->gain->shard.rank == 1)
        return;
    one->gain = *h->norm->gain;
    one->gain.value = row_of(one->gain.value, h->first + i);
    one->gain.grad = row_of(one->gain.grad, h->first + i);
    one->norm.gain = &one->gain;
    if (saved->mean.data)
        one->saved.mean = tensor_slice(saved->mean, 0, one->first, one->count);
    one->saved.rstd = tensor_slice(saved->rstd, 0, one->first, one->count);
    if (saved->y.value.data)
        one->saved.y.value = tensor_rows(saved->y.value, one->first, one->count);
}

static struct tensor take_rows(const struct normed_heads *h, const struct pass *pass, struct arena *arena) {
    return arena_2d(arena, pass->dtype, h->rows, h->columns * h->parts);
}

// Copies the heads to the rows of their norm, and gathers those of the other ranks.
static void collect_heads(const struct normed_heads *h, const struct pass *pass, struct tensor rows) {
    if (h->parts == 1) {
        op_copy(pass->device, &(struct op_copy){.dst = as_heads(h, rows), .src = h->packed});
        return;
    }
    size_t mark = arena_mark(pass->scratch);
    struct tensor own = arena_2d(pass->scratch, pass->dtype, h->rows, h->columns);
    struct tensor all = arena_2d(pass->scratch, pass->dtype, h->rows * h->parts, h->columns);
    op_copy(pass->device, &(struct op_copy){.dst = as_heads(h, own), .src = h->packed});
    struct comm_request request = comm_all_gather_start(pass->mesh->group[AXIS_TENSOR], all, own, "heads");
    comm_wait(&request);
    for (int part = 0; part < h->parts; part++)
        op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(rows, 1, part * h->columns, h->columns),
                                                .src = tensor_rows(all, part * h->rows, h->rows)});
    arena_release(pass->scratch, mark);
}

// Copies this rank's heads back from such rows.
static void return_heads(const struct normed_heads *h, const struct pass *pass, struct tensor rows) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor own = rows;
    if (h->parts > 1) {
        own = arena_2d(pass->scratch, pass->dtype, h->rows, h->columns);
        int64_t first = pass->mesh->place[AXIS_TENSOR] * h->columns;
        op_copy(pass->device, &(struct op_copy){.dst = own, .src = tensor_slice(rows, 1, first, h->columns)});
    }
    op_copy(pass->device, &(struct op_copy){.dst = h->packed, .src = as_heads(h, own)});
    arena_release(pass->scratch, mark);
}

static void norm_heads(const struct normed_heads *h, const struct pass *pass, struct head_norm_saved *saved) {
    size_t mark = arena_mark(pass->scratch);
    saved->x = take_rows(h, pass, pass->activations);
    collect_heads(h, pass, saved->x);
    norm_take(h->norm, pass, &saved->norm, h->rows, operand_of(take_rows(h, pass, pass->scratch)));
    for (int64_t i = 0; i < h->norms; i++) {
        struct one_norm one;
        choose_norm(&one, h, &saved->norm, i);
        norm_forward(&one.norm, pass, &one.saved, tensor_rows(saved->x, one.first, one.count), &(struct residual){0});
    }
    return_heads(h, pass, saved->norm.y.value);
    arena_release(pass->scratch, mark);
}

static void norm_heads_backward(const struct normed_heads *h, const struct pass *pass,
                                const struct head_norm_saved *saved) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor dy = take_rows(h, pass, pass->scratch), dx = take_rows(h, pass, pass->scratch);
    collect_heads(h, pass, dy);
    for (int64_t i = 0; i < h->norms; i++) {
        struct one_norm one;
        choose_norm(&one, h, &saved->norm, i);
        norm_backward(&one.norm, pass, &one.saved,
                      &(struct norm_gradient){.dx = tensor_rows(dx, one.first, one.count),
                                              .dy = tensor_rows(dy, one.first, one.count),
                                              .x = tensor_rows(saved->x, one.first, one.count)});
    }
    return_heads(h, pass, dx);
    arena_release(pass->scratch, mark);
}

static void norm_queries_and_keys(const struct self_attention *self, const struct pass *pass, struct self_saved *saved,
                                  struct tensor qkv) {
    struct normed_heads queries = normed_queries(self, pass, qkv), keys = normed_keys(self, pass, qkv);
    norm_heads(&queries, pass, &saved->q_norm);
    norm_heads(&keys, pass, &saved->k_norm);
}

static void norm_backward_queries_and_keys(const struct self_attention *self, const struct pass *pass,
                                           const struct self_saved *saved, struct tensor dqkv) {
    struct normed_heads queries = normed_queries(self, pass, dqkv), keys = normed_keys(self, pass, dqkv);
    norm_heads_backward(&queries, pass, &saved->q_norm);
    norm_heads_backward(&keys, pass, &saved->k_norm);
}

// Queries, keys and values before their rotation. A norm of all heads takes slices of shared heads, which are one part
// of all keys; a norm of each head takes whole heads.
static void project(const struct self_attention *self, const struct pass *pass, struct self_saved *saved,
                    struct operand x) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor own = key_slices_of(&self->attention, pass, saved->qkv, self->qkv.out);
    linear_forward(&self->qkv, pass, own, x, EPILOGUE_BIAS, (struct tensor){0});
    if (self->q_norm.gain && self->norms_all_heads)
        norm_queries_and_keys(self, pass, saved, own);
    key_slices_gather(&self->attention, pass, saved->qkv, own);
    if (self->q_norm.gain && !self->norms_all_heads && !self->norms_rotated)
        norm_queries_and_keys(self, pass, saved, saved->qkv);
    arena_release(pass->scratch, mark);
}

// Number of columns of a packed tensor.
static int64_t packed_columns(const struct attention *attention) {
    return attention->H * attention->D + attention_key_columns(attention);
}

// Appends the keys and values of these tokens to the cache; returns those of all tokens so far.
static struct tensor extend_cache(const struct pass *pass, const struct self_saved *saved) {
    CHECK(pass->B == 1);
    int64_t columns = saved->attention.cache.shape[1];
    op_copy(pass->device,
            &(struct op_copy){.dst = tensor_rows(saved->attention.cache, pass->cached, pass->T),
                              .src = tensor_slice(saved->qkv, 1, saved->qkv.shape[1] - columns, columns)});
    return tensor_rows(saved->attention.cache, 0, pass->cached + pass->T);
}

static void forward(const struct sublayer *sublayer, const struct pass *pass, void *own, struct tensor delta,
                    struct operand x) {
    const struct self_attention *self = (const struct self_attention *)sublayer;
    struct self_saved *saved = own;
    size_t mark = arena_mark(pass->scratch);
    saved->qkv = arena_2d(attention_input_arena(&self->attention, pass), pass->dtype, pass_rows(pass),
                          packed_columns(&self->attention));
    project(self, pass, saved, x);
    turn(self, pass, saved->qkv, false);
    if (self->norms_rotated)
        norm_queries_and_keys(self, pass, saved, saved->qkv);
    struct attention_input input = {.q = saved->qkv, .kv = pass->has_cache ? extend_cache(pass, saved) : saved->qkv};
    attention_forward(&self->attention, pass, &saved->attention, delta, &input);
    arena_release(pass->scratch, mark);
}

static struct first_gradients backward(const struct sublayer *sublayer, const struct pass *pass, const void *own,
                                       struct tensor dx, struct tensor ddelta) {
    const struct self_attention *self = (const struct self_attention *)sublayer;
    const struct self_saved *saved = own;
    struct tensor dqkv = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), packed_columns(&self->attention));
    attention_backward(&self->attention, pass, &saved->attention,
                       &(struct attention_input){.q = saved->qkv, .kv = saved->qkv},
                       &(struct attention_input){.q = dqkv, .kv = dqkv}, ddelta);
    if (self->norms_rotated)
        norm_backward_queries_and_keys(self, pass, saved, dqkv);
    turn(self, pass, dqkv, true);
    if (self->q_norm.gain && !self->norms_all_heads && !self->norms_rotated)
        norm_backward_queries_and_keys(self, pass, saved, dqkv);
    struct tensor dslices = key_slices_scatter(&self->attention, pass, dqkv, self->qkv.out);
    if (self->q_norm.gain && self->norms_all_heads)
        norm_backward_queries_and_keys(self, pass, saved, dslices);
    struct operand dy = linear_gradient(&self->qkv, pass, dslices);
    linear_backward_input(&self->qkv, pass, dx, dy, (struct tensor){0});
    return (struct first_gradients){.first = dy};
}

const struct sublayer_kind sublayer_self_attention = {.name = "self_attention",
                                                      .pre_norm = "input_layernorm",
                                                      .post_norm = "post_attention_layernorm",
                                                      .dropout_place = DROPOUT_AFTER_ATTENTION,
                                                      .bytes = sizeof(struct self_attention),
                                                      .saved_bytes = sizeof(struct self_saved),
                                                      .build = build,
                                                      .forward = forward,
                                                      .backward = backward,
                                                      .hold = attention_hold,
                                                      .take_cache = attention_take_cache};
