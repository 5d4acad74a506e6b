// Attention of a sequence to itself, or across to a memory: products for q, k and v, the attention itself, one product
// back. A packed projection holds all queries, then all keys, then all values, so that each is a view with even
// strides. Rotary positions turn queries and keys in place.
#include "base/memory.h"
#include "model/block.h"

#include <math.h>
#include <stdlib.h>

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

// Queries, keys and values as attention takes them.
struct views {
    struct tensor q, k, v;  // (B, T, H, D), (B, Tk, G, D) twice
};

static struct views views_of(const struct attention *attention, const struct pass *pass, struct tensor qkv,
                             struct tensor q, struct tensor kv) {
    int64_t H = attention->H, G = attention->G;
    if (attention->is_cross)
        return (struct views){heads(attention, q, pass->B, 0, H), heads(attention, kv, pass->B, 0, G),
                              heads(attention, kv, pass->B, G, G)};
    return (struct views){heads(attention, qkv, pass->B, 0, H), heads(attention, qkv, pass->B, H, G),
                          heads(attention, qkv, pass->B, H + G, G)};
}

// Turns the queries and keys of a packed tensor, which lie side by side; back with is_inverse.
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

static struct attention_mask mask_of(const struct attention *attention, const struct pass *pass) {
    if (attention->is_cross)
        return (struct attention_mask){.key_counts = pass->memory.key_counts};
    return (struct attention_mask){.window = attention->window,
                                   .key_counts = pass->key_counts,
                                   .first_keys = pass->first_keys,
                                   .relative_bias = pass->relative_bias};
}

// Appends these tokens' keys and values to the cache and makes the views those of all of it so far.
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

// The projections of x, and of the memory where this is cross-attention, kept in `saved`.
static void project(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                    struct tensor x) {
    int64_t N = pass_rows(pass);
    struct tensor none = {0};
    if (!attention->is_cross) {
        saved->qkv = arena_2d(pass->saved, pass->dtype, N, attention->qkv.out);
        linear_forward(&attention->qkv, pass, saved->qkv, x, EPILOGUE_BIAS, none);
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

// Masks are drawn by the head's number in the whole layer.
static struct dropout dropout_of(const struct attention *attention, const struct pass *pass) {
    struct dropout dropout = pass_dropout(pass, attention->dropout, attention->dropout_layer, DROPOUT_ATTENTION);
    dropout.first_head = attention->first_head;
    return dropout;
}

// out (N, H D) and, for a backward pass, lse from the projections.
static void attend(const struct attention *attention, const struct pass *pass, const struct views *views,
                   struct tensor out, struct tensor lse) {
    op_attention_forward(pass->device, &(struct op_attention_forward){
                                           .out = tensor_reshape_4d(out, pass->B, pass->T, attention->H, attention->D),
                                           .lse = lse,
                                           .q = views->q,
                                           .k = views->k,
                                           .v = views->v,
                                           .scale = attention->scale,
                                           .is_causal = attention->is_causal,
                                           .mask = mask_of(attention, pass),
                                           .dropout = dropout_of(attention, pass),
                                       });
}

void attention_forward(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                       struct tensor delta, struct tensor x) {
    int64_t N = pass_rows(pass), width = attention->proj.in;
    bool is_kept = pass->is_training && !attention->is_recomputed;
    size_t mark = arena_mark(pass->scratch);
    project(attention, pass, saved, x);
    saved->out = arena_2d(attention->is_recomputed ? pass->scratch : pass->saved, pass->dtype, N, width);
    saved->lse = is_kept ? arena_3d(pass->saved, DTYPE_F32, pass->B, attention->H, pass->T) : (struct tensor){0};
    struct views views = views_of(attention, pass, saved->qkv, saved->q, saved->kv);
    if (pass->cache && !attention->is_cross)
        extend_cache(attention, pass, &views);
    attend(attention, pass, &views, saved->out, saved->lse);
    linear_forward(&attention->proj, pass, delta, saved->out, EPILOGUE_NONE, (struct tensor){0});
    arena_release(pass->scratch, mark);
}

// From the gradients of the projections to those of their weights and inputs.
static void backward_projections(const struct attention *attention, const struct pass *pass, struct tensor dqkv,
                                 struct tensor dkv, struct tensor dx, struct tensor x) {
    const struct linear *first = attention->is_cross ? &attention->q : &attention->qkv;
    if (!attention->is_cross)
        turn(attention, pass, dqkv, true);
    dqkv = linear_gradient(first, pass, dqkv);
    linear_backward_input(first, pass, dx, dqkv, (struct tensor){0});
    linear_backward_weight(first, pass, dqkv, x);
    linear_backward_bias(first, pass, dqkv);
    if (attention->is_cross) {
        dkv = linear_gradient(&attention->kv, pass, dkv);
        linear_backward_input_add(&attention->kv, pass, pass->memory.dx, dkv);
        linear_backward_weight(&attention->kv, pass, dkv, pass->memory.x);
        linear_backward_bias(&attention->kv, pass, dkv);
    }
}

void attention_backward(const struct attention *attention, const struct pass *pass, const struct attention_saved *saved,
                        struct tensor dx, struct tensor ddelta, struct tensor x) {
    int64_t N = pass_rows(pass), width = attention->proj.in;
    size_t mark = arena_mark(pass->scratch);
    struct tensor out = saved->out, lse = saved->lse, dkv = {0};
    struct views views = views_of(attention, pass, saved->qkv, saved->q, saved->kv);
    if (attention->is_recomputed) {
        out = arena_2d(pass->scratch, pass->dtype, N, width);
        lse = arena_3d(pass->scratch, DTYPE_F32, pass->B, attention->H, pass->T);
        attend(attention, pass, &views, out, lse);
    }
    ddelta = linear_output_gradient(&attention->proj, pass, ddelta);
    struct tensor dout = arena_2d(pass->scratch, pass->dtype, N, width);
    struct tensor dqkv =
        arena_2d(pass->scratch, pass->dtype, N, attention->is_cross ? attention->q.out : attention->qkv.out);
    if (attention->is_cross)
        dkv = arena_2d(pass->scratch, pass->dtype, pass->B * pass->memory.T, attention->kv.out);
    struct views gradients = views_of(attention, pass, dqkv, dqkv, dkv);
    struct attention_mask mask = mask_of(attention, pass);
    linear_backward_input(&attention->proj, pass, dout, ddelta, (struct tensor){0});
    linear_backward_weight(&attention->proj, pass, ddelta, out);
    op_attention_backward(
        pass->device, &(struct op_attention_backward){
                          .dq = gradients.q,
                          .dk = gradients.k,
                          .dv = gradients.v,
                          .drelative_bias = mask.relative_bias.data ? pass->drelative_bias : (struct tensor){0},
                          .dout = tensor_reshape_4d(dout, pass->B, pass->T, attention->H, attention->D),
                          .out = tensor_reshape_4d(out, pass->B, pass->T, attention->H, attention->D),
                          .lse = lse,
                          .scratch = arena_3d(pass->scratch, DTYPE_F32, pass->B, attention->H, pass->T),
                          .workspace = arena_1d(pass->scratch, DTYPE_U8, attention_workspace_bytes(views.q, views.k)),
                          .q = views.q,
                          .k = views.k,
                          .v = views.v,
                          .scale = attention->scale,
                          .is_causal = attention->is_causal,
                          .mask = mask,
                          .dropout = dropout_of(attention, pass),
                      });
    backward_projections(attention, pass, dqkv, dkv, dx, x);
    arena_release(pass->scratch, mark);
}
