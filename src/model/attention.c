// Multi-head causal self-attention: one product for q, k and v, the attention itself, one product back.
// The packed projection holds all queries, then all keys, then all values, so that each is a view with even strides.
#include "base/memory.h"
#include "model/block.h"

#include <math.h>
#include <stdlib.h>

void attention_build(struct attention *attention, struct param_list *params, const char *name,
                     const struct block_sizes *sizes) {
    int64_t width = sizes->H * sizes->D;
    struct shard qkv = shard_whole(2, 3 * width, sizes->C);
    qkv.segment_count = 3;
    qkv.segments[0] = qkv.segments[1] = qkv.segments[2] = width;
    char *qkv_name = memory_printf("%s.linear_qkv", name), *proj_name = memory_printf("%s.linear_proj", name);
    linear_build(&attention->qkv, params, qkv_name, qkv, sizes->standard_deviation);
    linear_build(&attention->proj, params, proj_name, shard_whole(2, sizes->C, width),
                 sizes->standard_deviation / sqrt(2.0 * (double)sizes->layers));
    attention->H = sizes->H;
    attention->D = sizes->D;
    attention->dropout = sizes->attention_dropout;
    free(qkv_name);
    free(proj_name);
}

// Heads [first, first + H) of a packed (N, 3 H D) tensor as (B, T, H, D).
static struct tensor heads(const struct attention *attention, const struct pass *pass, struct tensor packed,
                           int64_t first) {
    struct tensor all = tensor_reshape_4d(packed, pass->B, pass->T, 3 * attention->H, attention->D);
    return tensor_slice(all, 2, first, attention->H);
}

// Appends these tokens' keys and values to the cache and returns views of all of it so far.
static void extend_cache(const struct attention *attention, const struct pass *pass, int64_t layer, struct tensor *k,
                         struct tensor *v) {
    struct kv_cache *cache = pass->cache;
    struct tensor keys = tensor_slice(cache->keys[layer], 1, 0, cache->length + pass->T);
    struct tensor values = tensor_slice(cache->values[layer], 1, 0, cache->length + pass->T);
    (void)attention;
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(keys, 1, cache->length, pass->T), .src = *k});
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(values, 1, cache->length, pass->T), .src = *v});
    *k = keys;
    *v = values;
}

void attention_forward(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                       struct tensor delta, struct tensor x, int64_t layer) {
    int64_t N = pass_rows(pass), H = attention->H, D = attention->D;
    saved->qkv = arena_2d(pass->saved, pass->dtype, N, 3 * H * D);
    saved->out = arena_2d(pass->saved, pass->dtype, N, H * D);
    saved->lse = pass->is_training ? arena_3d(pass->saved, DTYPE_F32, pass->B, H, pass->T) : (struct tensor){0};
    linear_forward(&attention->qkv, pass, saved->qkv, x, EPILOGUE_BIAS, (struct tensor){0});
    struct tensor k = heads(attention, pass, saved->qkv, H), v = heads(attention, pass, saved->qkv, 2 * H);
    if (pass->cache)
        extend_cache(attention, pass, layer, &k, &v);
    op_attention_forward(pass->device, &(struct op_attention_forward){
                                           .out = tensor_reshape_4d(saved->out, pass->B, pass->T, H, D),
                                           .lse = saved->lse,
                                           .q = heads(attention, pass, saved->qkv, 0),
                                           .k = k,
                                           .v = v,
                                           .scale = 1.0f / sqrtf((float)D),
                                           .is_causal = true,
                                           .dropout = pass_dropout(pass, attention->dropout, layer, DROPOUT_ATTENTION),
                                       });
    linear_forward(&attention->proj, pass, delta, saved->out, EPILOGUE_NONE, (struct tensor){0});
}

void attention_backward(const struct attention *attention, const struct pass *pass, const struct attention_saved *saved,
                        struct tensor dx, struct tensor ddelta, struct tensor x, int64_t layer) {
    int64_t N = pass_rows(pass), H = attention->H, D = attention->D;
    size_t mark = arena_mark(pass->scratch);
    struct tensor dout = arena_2d(pass->scratch, pass->dtype, N, H * D);
    struct tensor dqkv = arena_2d(pass->scratch, pass->dtype, N, 3 * H * D);
    linear_backward_input(&attention->proj, pass, dout, ddelta, (struct tensor){0});
    linear_backward_weight(&attention->proj, pass, ddelta, saved->out);
    struct tensor q = heads(attention, pass, saved->qkv, 0), k = heads(attention, pass, saved->qkv, H);
    op_attention_backward(pass->device,
                          &(struct op_attention_backward){
                              .dq = heads(attention, pass, dqkv, 0),
                              .dk = heads(attention, pass, dqkv, H),
                              .dv = heads(attention, pass, dqkv, 2 * H),
                              .dout = tensor_reshape_4d(dout, pass->B, pass->T, H, D),
                              .out = tensor_reshape_4d(saved->out, pass->B, pass->T, H, D),
                              .lse = saved->lse,
                              .scratch = arena_3d(pass->scratch, DTYPE_F32, pass->B, H, pass->T),
                              .workspace = arena_1d(pass->scratch, DTYPE_U8, attention_workspace_bytes(q, k)),
                              .q = q,
                              .k = k,
                              .v = heads(attention, pass, saved->qkv, 2 * H),
                              .scale = 1.0f / sqrtf((float)D),
                              .is_causal = true,
                              .dropout = pass_dropout(pass, attention->dropout, layer, DROPOUT_ATTENTION),
                          });
    linear_backward_input(&attention->qkv, pass, dx, dqkv, (struct tensor){0});
    linear_backward_weight(&attention->qkv, pass, dqkv, x);
    op_column_sum(pass->device, &(struct op_column_sum){.out = attention->qkv.bias->grad, .x = dqkv});
    arena_release(pass->scratch, mark);
}
