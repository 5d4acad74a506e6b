// Self-attention, or cross-attention to a memory: products for q, k and v, the attention itself, and one product back.
// A packed projection holds all queries, then all keys, then all values, so that each of them is a view with regular
// strides. Norms of heads and rotary positions change queries and keys in place. Queries are processed chunk by chunk,
// see context.h.
#include "base/memory.h"
#include "model/block.h"
#include "model/context.h"

#include <math.h>
#include <stdlib.h>

static void build_head_norms(struct attention *attention, struct param_list *params, const char *name,
                             const struct choices *choices) {
    struct norm_options options = choices->norm;
    options.C = choices->D;
    options.sums_gradient = choices->parts > 1;
    char *q_name = memory_printf("%s.q_layernorm", name), *k_name = memory_printf("%s.k_layernorm", name);
    norm_build(&attention->q_norm, params, q_name, &options);
    norm_build(&attention->k_norm, params, k_name, &options);
    free(q_name);
    free(k_name);
}

void attention_build(struct attention *attention, struct param_list *params, const char *name,
                     const struct block_options *options) {
    const struct choices *choices = options->choices;
    int64_t queries = choices->H * choices->D, keys = choices->G * choices->D;
    const int64_t packed[SHARD_MAX_SEGMENTS] = {queries, keys, keys}, pair[SHARD_MAX_SEGMENTS] = {keys, keys};
    struct linear_options in = {.has_bias = choices->has_qkv_bias, .standard_deviation = choices->standard_deviation};
    struct linear_options out = {.weight = choices_split(choices, shard_whole(2, choices->C, queries), 1),
                                 .has_bias = choices->has_attention_bias,
                                 .sums_gradient = choices->splits_rows,
                                 .standard_deviation =
                                     choices->standard_deviation / sqrt(2.0 * (double)options->layers)};
    char *qkv_name = memory_printf("%s.linear_qkv", name), *proj_name = memory_printf("%s.linear_proj", name);
    char *q_name = memory_printf("%s.linear_q", name), *kv_name = memory_printf("%s.linear_kv", name);
    in.fp8 = out.fp8 = choices->fp8;
    if (attention->is_cross) {
        in.weight = choices_split(choices, shard_whole(2, queries, choices->C), 0);
        linear_build(&attention->q, params, q_name, &in);
        in.weight = choices_split(choices, linear_segments(choices->C, pair), 0);
        linear_build(&attention->kv, params, kv_name, &in);
    } else {
        in.weight = choices_split(choices, linear_segments(choices->C, packed), 0);
        linear_build(&attention->qkv, params, qkv_name, &in);
        if (choices->has_head_norm)
            build_head_norms(attention, params, name, choices);
        attention->rope = choices->rope;
        attention->window = options->is_causal ? choices->window : 0;
        attention->is_causal = options->is_causal;
    }
    linear_build(&attention->proj, params, proj_name, &out);
    attention->H = choices->H / choices->parts;
    attention->G = choices->G / choices->parts;
    attention->first_head = (int)attention->H * choices->part;
    attention->D = choices->D;
    attention->scale = choices->scale;
    attention->is_recomputed = choices->recomputes_attention;
    attention->dropout = choices->attention_dropout;
    attention->layer = options->layer;
    attention->dropout_layer = attention->is_cross ? options->cross_dropout_layer : options->dropout_layer;
    free(qkv_name);
    free(proj_name);
    free(q_name);
    free(kv_name);
}

// Heads [first, first + count) of a packed (B * T, heads D) tensor as (B, T, count, D).
static struct tensor heads(const struct attention *attention, struct tensor packed, int64_t B, int64_t first,
                           int64_t count) {
    int64_t all = packed.shape[1] / attention->D;
    return tensor_slice(tensor_reshape_4d(packed, B, packed.shape[0] / B, all, attention->D), 2, first, count);
}

// The queries of a chunk, and keys and values, in the form that attention takes.
struct views {
    struct tensor q, k, v;  // (B, T, H, D), (B, Tk, G, D) twice
};

// Queries are the first columns of `q`, keys and values the last columns of `kv`. A causal chunk sees no key after its
// last query.
static struct views views_of(const struct attention *attention, const struct chunk *chunk, struct tensor q,
                             struct tensor kv) {
    int64_t B = chunk->B, G = attention->G, first = kv.shape[1] / attention->D - 2 * G;
    struct views views = {heads(attention, chunk_rows(chunk, q), B, 0, attention->H), heads(attention, kv, B, first, G),
                          heads(attention, kv, B, first + G, G)};
    if (attention->is_causal && chunk->end < views.k.shape[1]) {
        views.k = tensor_slice(views.k, 1, 0, chunk->end);
        views.v = tensor_slice(views.v, 1, 0, chunk->end);
    }
    return views;
}

// Rotates the queries and keys of a packed tensor, which lie side by side; back if is_inverse.
static void turn(const struct attention *attention, const struct pass *pass, struct tensor qkv, bool is_inverse) {
    const struct rope *rope = &attention->rope;
    if (rope->pairs > 0)
        op_rope(pass->device, &(struct op_rope){.x = heads(attention, qkv, pass->B, 0, attention->H + attention->G),
                                                .positions = pass->positions,
                                                .frequencies = rope->frequencies,
                                                .pairs = rope->pairs,
                                                .is_interleaved = rope->is_interleaved,
                                                .is_inverse = is_inverse});
}

// Heads of a packed tensor that have a norm, and a tensor with a row for each token and head.
struct normed_heads {
    const struct norm *norm;
    struct tensor packed;  // (B, T, heads, D), a view
    int64_t rows;
};

static struct normed_heads normed_queries(const struct attention *attention, const struct pass *pass,
                                          struct tensor qkv) {
    return (struct normed_heads){.norm = &attention->q_norm,
                                 .packed = heads(attention, qkv, pass->B, 0, attention->H),
                                 .rows = pass_rows(pass) * attention->H};
}

static struct normed_heads normed_keys(const struct attention *attention, const struct pass *pass, struct tensor qkv) {
    return (struct normed_heads){.norm = &attention->k_norm,
                                 .packed = heads(attention, qkv, pass->B, attention->H, attention->G),
                                 .rows = pass_rows(pass) * attention->G};
}

static struct tensor as_heads(const struct normed_heads *h, struct tensor rows) {
    return tensor_reshape_4d(rows, h->packed.shape[0], h->packed.shape[1], h->packed.shape[2], h->packed.shape[3]);
}

static struct tensor take_rows(const struct normed_heads *h, const struct pass *pass, struct arena *arena) {
    return arena_2d(arena, pass->dtype, h->rows, h->packed.shape[3]);
}

static void norm_heads(const struct normed_heads *h, const struct pass *pass, struct head_norm_saved *saved) {
    size_t mark = arena_mark(pass->scratch);
    saved->x = take_rows(h, pass, pass->saved);
    op_copy(pass->device, &(struct op_copy){.dst = as_heads(h, saved->x), .src = h->packed});
    norm_take(h->norm, pass, &saved->norm, h->rows, take_rows(h, pass, pass->scratch));
    norm_forward(h->norm, pass, &saved->norm, saved->x, &(struct residual){0});
    op_copy(pass->device, &(struct op_copy){.dst = h->packed, .src = as_heads(h, saved->norm.y)});
    arena_release(pass->scratch, mark);
}

static void norm_heads_backward(const struct normed_heads *h, const struct pass *pass,
                                const struct head_norm_saved *saved) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor dy = take_rows(h, pass, pass->scratch), dx = take_rows(h, pass, pass->scratch);
    op_copy(pass->device, &(struct op_copy){.dst = as_heads(h, dy), .src = h->packed});
    norm_backward(h->norm, pass, &saved->norm, &(struct norm_gradient){.dx = dx, .dy = dy, .x = saved->x});
    op_copy(pass->device, &(struct op_copy){.dst = h->packed, .src = as_heads(h, dx)});
    arena_release(pass->scratch, mark);
}

static struct attention_mask mask_of(const struct attention *attention, const struct pass *pass, int which) {
    if (attention->is_cross)
        return (struct attention_mask){.key_counts = pass->memory.key_counts};
    struct chunk chunk = pass_chunk(pass, which);
    return (struct attention_mask){.window = attention->window,
                                   .key_counts = pass->key_counts,
                                   .first_keys = chunk_rows(&chunk, pass->first_keys),
                                   .relative_bias = pass->relative_bias[which]};
}

// Appends the keys and values of these tokens to the cache, and replaces the views by views of the whole cache so far.
static void extend_cache(const struct attention *attention, const struct pass *pass, struct views *views) {
    struct kv_cache *cache = pass->cache;
    int64_t layer = attention->layer;
    struct tensor keys = tensor_slice(cache->keys[layer], 1, 0, cache->length + pass->T);
    struct tensor values = tensor_slice(cache->values[layer], 1, 0, cache->length + pass->T);
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(keys, 1, cache->length, pass->T), .src = views->k});
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(values, 1, cache->length, pass->T), .src = views->v});
    views->k = keys;
    views->v = values;
}

// The projections of x, and of the memory for cross-attention, kept in `saved`.
static void project(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                    struct tensor x) {
    int64_t N = pass_rows(pass);
    struct tensor none = {0};
    if (!attention->is_cross) {
        saved->qkv = arena_2d(pass->saved, pass->dtype, N, attention->qkv.out);
        linear_forward(&attention->qkv, pass, saved->qkv, x, EPILOGUE_BIAS, none);
        if (attention->q_norm.gain) {
            struct normed_heads queries = normed_queries(attention, pass, saved->qkv);
            struct normed_heads keys = normed_keys(attention, pass, saved->qkv);
            norm_heads(&queries, pass, &saved->q_norm);
            norm_heads(&keys, pass, &saved->k_norm);
        }
        turn(attention, pass, saved->qkv, false);
        return;
    }
    saved->q = arena_2d(pass->saved, pass->dtype, N, attention->q.out);
    linear_forward(&attention->q, pass, saved->q, x, EPILOGUE_BIAS, none);
    // The memory does not change while text is generated.
    bool is_known = pass->cache && pass->cache->length > 0;
    int64_t rows = pass->B * pass->memory.T;
    saved->kv = pass->cache ? tensor_rows(pass->cache->across[attention->layer], 0, rows)
                            : arena_2d(pass->saved, pass->dtype, rows, attention->kv.out);
    if (!is_known)
        linear_forward(&attention->kv, pass, saved->kv, pass->memory.x, EPILOGUE_BIAS, none);
}

// Masks are drawn by the number of the head in the whole layer.
static struct dropout dropout_of(const struct attention *attention, const struct pass *pass, int which) {
    struct dropout dropout = pass_dropout(pass, attention->dropout, attention->dropout_layer, DROPOUT_ATTENTION);
    struct chunk chunk = pass_chunk(pass, which);
    dropout.row_ids = chunk_rows(&chunk, dropout.row_ids);
    dropout.first_head = attention->first_head;
    return dropout;
}

// The packed tensor with the queries, and the one with the keys and values of this rank.
static struct tensor queries_of(const struct attention *attention, const struct attention_saved *saved) {
    return attention->is_cross ? saved->q : saved->qkv;
}
static struct tensor keys_of(const struct attention *attention, const struct attention_saved *saved) {
    return attention->is_cross ? saved->kv : saved->qkv;
}
static int64_t key_columns(const struct attention *attention) {
    return 2 * attention->G * attention->D;
}

// What attention computes for one chunk of queries.
struct result {
    struct tensor out;  // (B, T, H, D)
    struct tensor lse;  // (B, H, T), or none
};
static struct result result_of(const struct attention *attention, const struct pass *pass, int which, struct tensor out,
                               struct tensor lse) {
    struct chunk chunk = pass_chunk(pass, which);
    return (struct result){.out = heads(attention, chunk_rows(&chunk, out), chunk.B, 0, attention->H),
                           .lse = lse.data ? tensor_rows(lse, which * chunk.B, chunk.B) : lse};
}
static struct tensor take_lse(const struct attention *attention, const struct pass *pass, struct arena *arena) {
    int chunks = pass_chunks(pass);
    return arena_3d(arena, DTYPE_F32, chunks * pass->B, attention->H, pass->T / chunks);
}

// Computes out (N, H D) and, for a backward pass, lse from the projections.
static void attend(const struct attention *attention, const struct pass *pass, struct tensor q, struct tensor kv,
                   struct tensor out, struct tensor lse) {
    for (int which = 0; which < pass_chunks(pass); which++) {
        struct chunk chunk = pass_chunk(pass, which);
        struct views views = views_of(attention, &chunk, q, kv);
        struct result result = result_of(attention, pass, which, out, lse);
        if (pass->cache && !attention->is_cross)
            extend_cache(attention, pass, &views);
        op_attention_forward(pass->device, &(struct op_attention_forward){
                                               .out = result.out,
                                               .lse = result.lse,
                                               .q = views.q,
                                               .k = views.k,
                                               .v = views.v,
                                               .scale = attention->scale,
                                               .is_causal = attention->is_causal,
                                               .mask = mask_of(attention, pass, which),
                                               .dropout = dropout_of(attention, pass, which),
                                           });
    }
}

void attention_forward(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                       struct tensor delta, struct tensor x) {
    int64_t N = pass_rows(pass), width = attention->proj.in;
    bool is_kept = pass->is_training && !attention->is_recomputed;
    size_t mark = arena_mark(pass->scratch);
    project(attention, pass, saved, x);
    struct gathered gathered = context_gather_start(pass, keys_of(attention, saved), key_columns(attention));
    saved->out = arena_2d(attention->is_recomputed ? pass->scratch : pass->saved, pass->dtype, N, width);
    saved->lse = is_kept ? take_lse(attention, pass, pass->saved) : (struct tensor){0};
    attend(attention, pass, queries_of(attention, saved), context_gathered(pass, &gathered), saved->out, saved->lse);
    linear_forward(&attention->proj, pass, delta, saved->out, EPILOGUE_NONE, (struct tensor){0});
    arena_release(pass->scratch, mark);
}

// From the gradients of queries and keys as attention takes them to those that the projection gave.
static void backward_heads(const struct attention *attention, const struct pass *pass,
                           const struct attention_saved *saved, struct tensor dqkv) {
    turn(attention, pass, dqkv, true);
    if (!attention->q_norm.gain)
        return;
    struct normed_heads queries = normed_queries(attention, pass, dqkv), keys = normed_keys(attention, pass, dqkv);
    norm_heads_backward(&queries, pass, &saved->q_norm);
    norm_heads_backward(&keys, pass, &saved->k_norm);
}

// From the gradients of the projections to those of their inputs, and of the weights applied to the memory. Returns the
// gradient of the first projection, in the form that its weight's gradient takes.
static struct tensor backward_projections(const struct attention *attention, const struct pass *pass,
                                          struct tensor dqkv, struct tensor dkv, struct tensor dx) {
    const struct linear *first = attention->is_cross ? &attention->q : &attention->qkv;
    dqkv = linear_gradient(first, pass, dqkv);
    linear_backward_input(first, pass, dx, dqkv, (struct tensor){0});
    linear_backward_bias(first, pass, dqkv);
    if (attention->is_cross) {
        dkv = linear_gradient(&attention->kv, pass, dkv);
        linear_backward_input_add(&attention->kv, pass, pass->memory.dx, dkv);
        linear_backward_weight(&attention->kv, pass, dkv, pass->memory.x);
        linear_backward_bias(&attention->kv, pass, dkv);
    }
    return dqkv;
}

// The inputs and outputs of the backward of attention itself, for all chunks.
struct attention_gradient {
    struct tensor q, kv;     // packed: the queries of this rank, and the keys and values that they see
    struct tensor out, lse;  // as in the forward pass
    struct tensor dout;      // (N, H D)
    struct tensor dq, dkv;   // packed, out: for this rank's tokens
};

// For one chunk; returns what its queries contribute to the gradients of keys and values.
static struct tensor backward_chunk(const struct attention *attention, const struct pass *pass,
                                    const struct attention_gradient *g, int which) {
    struct chunk chunk = pass_chunk(pass, which);
    struct views views = views_of(attention, &chunk, g->q, g->kv);
    struct tensor dkv = context_gradient(pass, g->dkv, views.k.shape[1], key_columns(attention));
    struct views gradients = views_of(attention, &chunk, g->dq, dkv);
    struct result result = result_of(attention, pass, which, g->out, g->lse);
    struct attention_mask mask = mask_of(attention, pass, which);
    size_t mark = arena_mark(pass->scratch);
    op_attention_backward(
        pass->device,
        &(struct op_attention_backward){
            .dq = gradients.q,
            .dk = gradients.k,
            .dv = gradients.v,
            .drelative_bias = mask.relative_bias.data ? pass->drelative_bias[which] : (struct tensor){0},
            .dout = heads(attention, chunk_rows(&chunk, g->dout), chunk.B, 0, attention->H),
            .out = result.out,
            .lse = result.lse,
            .scratch = arena_3d(pass->scratch, DTYPE_F32, chunk.B, attention->H, chunk.T),
            .workspace = arena_1d(pass->scratch, DTYPE_U8, attention_workspace_bytes(views.q, views.k, &mask)),
            .q = views.q,
            .k = views.k,
            .v = views.v,
            .scale = attention->scale,
            .is_causal = attention->is_causal,
            .mask = mask,
            .dropout = dropout_of(attention, pass, which),
        });
    arena_release(pass->scratch, mark);
    return dkv;
}

struct tensor attention_backward(const struct attention *attention, const struct pass *pass,
                                 const struct attention_saved *saved, struct tensor dx, struct tensor ddelta) {
    int64_t N = pass_rows(pass), width = attention->proj.in;
    struct gathered gathered = context_gather_start(pass, keys_of(attention, saved), key_columns(attention));
    struct attention_gradient g = {.q = queries_of(attention, saved), .out = saved->out, .lse = saved->lse};
    if (attention->is_recomputed) {
        g.out = arena_2d(pass->scratch, pass->dtype, N, width);
        g.lse = take_lse(attention, pass, pass->scratch);
        attend(attention, pass, g.q, context_gathered(pass, &gathered), g.out, g.lse);
    }
    ddelta = linear_output_gradient(&attention->proj, pass, ddelta);
    g.dout = arena_2d(pass->scratch, pass->dtype, N, width);
    g.dq = g.dkv = arena_2d(pass->scratch, pass->dtype, N, g.q.shape[1]);
    if (attention->is_cross)
        g.dkv = arena_2d(pass->scratch, pass->dtype, pass->B * pass->memory.T, attention->kv.out);
    linear_backward_input(&attention->proj, pass, g.dout, ddelta, (struct tensor){0});
    linear_backward_weight(&attention->proj, pass, ddelta, g.out);
    g.kv = context_gathered(pass, &gathered);
    struct tensor parts[CONTEXT_MOST_CHUNKS] = {0};
    for (int which = 0; which < pass_chunks(pass); which++)
        parts[which] = backward_chunk(attention, pass, &g, which);
    context_scatter(pass, g.dkv, key_columns(attention), parts);
    if (!attention->is_cross)
        backward_heads(attention, pass, saved, g.dq);
    return backward_projections(attention, pass, g.dq, g.dkv, dx);
}
