// Cross-attention: queries of the residual stream, keys and values of a memory, which is the encoder's output. While
// text is generated, the memory does not change, so its keys and values are kept.
#include "base/memory.h"
#include "model/attention.h"

#include <stdlib.h>
#include <string.h>

struct cross_attention {
    struct attention attention;
    struct linear q;   // (H D, C)
    struct linear kv;  // (2G D, C), all keys, then all values
};
struct cross_saved {
    struct attention_saved attention;
    struct tensor q;   // (N, H D)
    struct tensor kv;  // (M, 2G D), M rows of the memory
};

static void build(struct sublayer *sublayer, struct param_list *params, const char *name,
                  const struct sublayer_options *options) {
    struct cross_attention *cross = (struct cross_attention *)sublayer;
    const struct choices *choices = options->choices;
    int64_t queries = choices->H * choices->D, keys = choices->G * choices->D;
    const int64_t pair[SHARD_MAX_SEGMENTS] = {keys, keys};
    struct linear_options in = attention_projection(options);
    char *q_name = memory_printf("%s.linear_q", name), *kv_name = memory_printf("%s.linear_kv", name);
    in.weight = choices_split(choices, shard_whole(2, queries, choices->C), 0);
    linear_build(&cross->q, params, q_name, &in);
    in.weight = choices_split(choices, linear_segments(choices->C, pair), 0);
    linear_build(&cross->kv, params, kv_name, &in);
    free(q_name);
    free(kv_name);
    attention_build(&cross->attention, params, name, options);
    sublayer->first = &cross->q;
    sublayer->dropout_layer = options->cross_dropout_layer;
}

// A copy of the pass with the mask of the memory.
static struct pass over_memory(const struct pass *pass) {
    struct pass over = *pass;
    over.attends_memory = true;
    memset(over.relative_bias, 0, sizeof over.relative_bias);
    return over;
}

// Keys and values of the memory.
static void project_memory(const struct cross_attention *cross, const struct pass *pass, struct tensor kv) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor own = key_slices_of(&cross->attention, pass, kv, cross->kv.out);
    linear_forward(&cross->kv, pass, own, operand_of(pass->memory.x), EPILOGUE_BIAS, (struct tensor){0});
    key_slices_gather(&cross->attention, pass, kv, own);
    arena_release(pass->scratch, mark);
}

static void forward(const struct sublayer *sublayer, const struct pass *pass, void *own, struct tensor delta,
                    struct operand x) {
    const struct cross_attention *cross = (const struct cross_attention *)sublayer;
    struct cross_saved *saved = own;
    struct pass over = over_memory(pass);
    int64_t rows = pass->B * pass->memory.T;
    saved->q = arena_2d(pass->activations, pass->dtype, pass_rows(pass), cross->q.out);
    linear_forward(&cross->q, pass, saved->q, x, EPILOGUE_BIAS, (struct tensor){0});
    saved->kv = pass->has_cache
                    ? tensor_rows(saved->attention.cache, 0, rows)
                    : arena_2d(pass->activations, pass->dtype, rows, attention_key_columns(&cross->attention));
    if (pass->cached == 0)
        project_memory(cross, pass, saved->kv);
    attention_forward(&cross->attention, &over, &saved->attention, delta,
                      &(struct attention_input){.q = saved->q, .kv = saved->kv});
}

static struct first_gradients backward(const struct sublayer *sublayer, const struct pass *pass, const void *own,
                                       struct tensor dx, struct tensor ddelta) {
    const struct cross_attention *cross = (const struct cross_attention *)sublayer;
    const struct cross_saved *saved = own;
    struct pass over = over_memory(pass);
    struct tensor dq = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), cross->q.out);
    struct tensor dkv =
        arena_2d(pass->scratch, pass->dtype, pass->B * pass->memory.T, attention_key_columns(&cross->attention));
    attention_backward(&cross->attention, &over, &saved->attention,
                       &(struct attention_input){.q = saved->q, .kv = saved->kv},
                       &(struct attention_input){.q = dq, .kv = dkv}, ddelta);
    struct operand dy = linear_gradient(&cross->q, pass, dq);
    linear_backward_input(&cross->q, pass, dx, dy, (struct tensor){0});
    struct operand dmemory =
        linear_gradient(&cross->kv, pass, key_slices_scatter(&cross->attention, pass, dkv, cross->kv.out));
    linear_backward_input_add(&cross->kv, pass, pass->memory.dx, dmemory);
    linear_backward_weight(&cross->kv, pass, dmemory, operand_of(pass->memory.x));
    return (struct first_gradients){.first = dy};
}

const struct sublayer_kind sublayer_cross_attention = {.name = "cross_attention",
                                                       .pre_norm = "pre_cross_attn_layernorm",
                                                       .post_norm = "post_cross_attn_layernorm",
                                                       .dropout_place = DROPOUT_AFTER_ATTENTION,
                                                       .bytes = sizeof(struct cross_attention),
                                                       .saved_bytes = sizeof(struct cross_saved),
                                                       .build = build,
                                                       .forward = forward,
                                                       .backward = backward,
                                                       .hold = attention_hold,
                                                       .take_cache = attention_take_cache};
