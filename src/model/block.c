// A transformer block, forward and backward. See block.h.
#include "model/block.h"
#include "base/memory.h"

#include <stdlib.h>

// The names of a sublayer and of the norm before or after it.
static const struct {
    const char *layer, *pre_norm, *post_norm;
} names[] = {
    [SUBLAYER_SELF] = {"self_attention", "input_layernorm", "post_attention_layernorm"},
    [SUBLAYER_CROSS] = {"cross_attention", "pre_cross_attn_layernorm", "post_cross_attn_layernorm"},
    [SUBLAYER_MLP] = {"mlp", "pre_mlp_layernorm", "post_mlp_layernorm"},
};

static void build_sublayer(struct block *block, struct param_list *params, const char *name,
                           const struct block_options *options, enum sublayer_kind kind) {
    struct sublayer *sublayer = &block->sublayers[block->count++];
    const char *norm = block->is_post_norm ? names[kind].post_norm : names[kind].pre_norm;
    char *norm_name = memory_printf("%s.%s", name, norm), *layer_name = memory_printf("%s.%s", name, names[kind].layer);
    sublayer->kind = kind;
    sublayer->dropout_layer = kind == SUBLAYER_CROSS ? options->cross_dropout_layer : options->dropout_layer;
    sublayer->attention.is_cross = kind == SUBLAYER_CROSS;
    norm_build(&sublayer->norm, params, norm_name, &options->choices->norm);
    if (kind == SUBLAYER_MLP)
        mlp_build(&sublayer->mlp, params, layer_name, options);
    else
        attention_build(&sublayer->attention, params, layer_name, options);
    free(norm_name);
    free(layer_name);
}

void block_build(struct block *block, struct param_list *params, const char *name,
                 const struct block_options *options) {
    *block = (struct block){.is_post_norm = options->choices->is_post_norm,
                            .C = options->choices->C,
                            .dropout = options->choices->hidden_dropout};
    build_sublayer(block, params, name, options, SUBLAYER_SELF);
    if (options->has_cross)
        build_sublayer(block, params, name, options, SUBLAYER_CROSS);
    build_sublayer(block, params, name, options, SUBLAYER_MLP);
}

const struct param *block_first_matrix(const struct block *block) {
    return block->sublayers[0].attention.qkv.weight;
}

const struct param *block_last_matrix(const struct block *block) {
    return block->sublayers[block->count - 1].mlp.fc2.weight;
}

static void sublayer_forward(const struct sublayer *sublayer, const struct pass *pass, struct sublayer_saved *saved,
                             struct tensor delta) {
    if (sublayer->kind == SUBLAYER_MLP)
        mlp_forward(&sublayer->mlp, pass, &saved->mlp, delta, saved->input);
    else
        attention_forward(&sublayer->attention, pass, &saved->attention, delta, saved->input);
}

static struct tensor sublayer_backward(const struct sublayer *sublayer, const struct pass *pass,
                                       const struct sublayer_saved *saved, struct tensor dx, struct tensor ddelta) {
    if (sublayer->kind == SUBLAYER_MLP)
        return mlp_backward(&sublayer->mlp, pass, &saved->mlp, dx, ddelta);
    return attention_backward(&sublayer->attention, pass, &saved->attention, dx, ddelta);
}

// The first product of a sublayer, whose input is the result of the norm.
static const struct linear *first_linear(const struct sublayer *sublayer) {
    if (sublayer->kind == SUBLAYER_MLP)
        return &sublayer->mlp.fc1;
    return sublayer->kind == SUBLAYER_CROSS ? &sublayer->attention.q : &sublayer->attention.qkv;
}

// The last product of a sublayer, whose bias is added together with its result.
static const struct linear *last_linear(const struct sublayer *sublayer) {
    return sublayer->kind == SUBLAYER_MLP ? &sublayer->mlp.fc2 : &sublayer->attention.proj;
}

static struct dropout dropout_after(const struct block *block, const struct pass *pass,
                                    const struct sublayer *sublayer) {
    return pass_dropout(pass, block->dropout, sublayer->dropout_layer,
                        sublayer->kind == SUBLAYER_MLP ? DROPOUT_AFTER_MLP : DROPOUT_AFTER_ATTENTION);
}

// What this sublayer's result adds to the stream; `sum` (N, C) is where the addition goes.
static struct residual residual_of(const struct block *block, const struct pass *pass, const struct sublayer *sublayer,
                                   struct tensor delta, struct tensor sum) {
    return (struct residual){.delta = delta,
                             .bias = linear_bias(last_linear(sublayer)),
                             .sum = sum,
                             .dropout = dropout_after(block, pass, sublayer)};
}

static struct residual_gradient residual_gradient_of(const struct block *block, const struct pass *pass,
                                                     const struct sublayer *sublayer, struct tensor ddelta) {
    return (struct residual_gradient){.ddelta = ddelta,
                                      .dbias = linear_bias_gradient(last_linear(sublayer)),
                                      .dropout = dropout_after(block, pass, sublayer)};
}

// Whether the result of the norm before this product is kept for the backward pass.
static bool keeps_norm(const struct linear *first, const struct pass *pass) {
    return linear_is_fp8(first, pass) || pass_keeps_results(pass);
}

// The norm before a sublayer. Its result is kept, always in 8 bits, or lies in scratch. A result in 8 bits takes two
// steps if its range is not known yet, or if the device cannot store it by itself.
static void norm_before(const struct sublayer *sublayer, const struct pass *pass, struct sublayer_saved *saved,
                        struct tensor stream, const struct residual *residual) {
    const struct linear *first = first_linear(sublayer);
    int64_t N = pass_stream_rows(pass);
    bool is_fp8 = linear_is_fp8(first, pass);
    struct arena *arena = keeps_norm(first, pass) ? pass->saved : pass->scratch;
    norm_take(&sublayer->norm, pass, &saved->norm, N,
              is_fp8 ? linear_take_input(first, pass, N) : arena_2d(arena, pass->dtype, N, stream.shape[1]));
    if (!is_fp8 || (first->fp8->is_known && pass->device->ops->fuses_quantize)) {
        norm_forward(&sublayer->norm, pass, &saved->norm, stream, residual);
        return;
    }
    size_t mark = arena_mark(pass->scratch);
    struct norm_saved plain = saved->norm;
    plain.y = arena_2d(pass->scratch, pass->dtype, N, saved->norm.y.shape[1]);
    norm_forward(&sublayer->norm, pass, &plain, stream, residual);
    linear_quantize(first, pass, (struct op_quantize){.y = saved->norm.y, .x = plain.y});
    arena_release(pass->scratch, mark);
}

static void forward_pre_norm(const struct block *block, const struct pass *pass, struct block_saved *saved,
                             struct residual_stream *stream) {
    for (int i = 0; i < block->count; i++) {
        const struct sublayer *sublayer = &block->sublayers[i];
        struct sublayer_saved *s = &saved->sublayers[i];
        s->x = stream->x;
        if (stream->residual.delta.data)
            stream->residual.sum = s->x = arena_2d(pass->saved, pass->dtype, pass_stream_rows(pass), block->C);
        size_t mark = arena_mark(pass->scratch);
        norm_before(sublayer, pass, s, stream->x, &stream->residual);
        s->input = s->norm.y;
        sublayer_forward(sublayer, pass, s, stream->room);
        arena_release(pass->scratch, mark);
        stream->x = s->x;
        stream->residual = residual_of(block, pass, sublayer, stream->room, (struct tensor){0});
    }
}

static void forward_post_norm(const struct block *block, const struct pass *pass, struct block_saved *saved,
                              struct residual_stream *stream, struct tensor out) {
    int64_t N = pass_stream_rows(pass);
    for (int i = 0; i < block->count; i++) {
        const struct sublayer *sublayer = &block->sublayers[i];
        struct sublayer_saved *s = &saved->sublayers[i];
        s->input = stream->x;
        sublayer_forward(sublayer, pass, s, stream->room);
        s->x = arena_2d(pass->saved, pass->dtype, N, block->C);
        norm_take(&sublayer->norm, pass, &s->norm, N, i == block->count - 1 ? out : (struct tensor){0});
        struct residual residual = residual_of(block, pass, sublayer, stream->room, s->x);
        norm_forward(&sublayer->norm, pass, &s->norm, stream->x, &residual);
        stream->x = s->norm.y;
    }
}

void block_forward(const struct block *block, const struct pass *pass, struct block_saved *saved,
                   struct residual_stream *stream, struct tensor out) {
    size_t kept = arena_mark(pass->saved);
    if (block->is_post_norm) {
        forward_post_norm(block, pass, saved, stream, out);
    } else {
        forward_pre_norm(block, pass, saved, stream);
        if (out.data) {
            op_dropout_add(pass->device, &(struct op_dropout_add){.out = out,
                                                                  .x = stream->residual.delta,
                                                                  .residual = stream->x,
                                                                  .bias = stream->residual.bias,
                                                                  .dropout = stream->residual.dropout});
            stream->x = out;
            stream->residual = (struct residual){0};
        }
    }
    if (!pass->is_training)
        arena_release(pass->saved, kept);
}

// dnorm (N, C) is the gradient between a sublayer and its norm; the norm replaces it by the result it passed to the
// sublayer, unless that was kept. The norm of one sublayer also computes the gradient of what the sublayer before it
// added.
static void backward_pre_norm(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                              struct stream_gradient *g, const struct block *before) {
    const struct sublayer *last = &block->sublayers[block->count - 1];
    struct tensor dnorm = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), block->C);
    if (!g->is_open)
        op_dropout_backward(pass->device,
                            &(struct op_dropout_backward){.dx = g->ddelta,
                                                          .dy = g->dx,
                                                          .dbias = linear_bias_gradient(last_linear(last)),
                                                          .dropout = dropout_after(block, pass, last)});
    for (int i = block->count - 1; i >= 0; i--) {
        const struct sublayer_saved *s = &saved->sublayers[i];
        const struct linear *first = first_linear(&block->sublayers[i]);
        bool is_kept = keeps_norm(first, pass);
        size_t mark = arena_mark(pass->scratch);
        struct tensor dfirst = sublayer_backward(&block->sublayers[i], pass, s, dnorm, g->ddelta);
        struct norm_gradient gradient = {.dx = g->dx, .dy = dnorm, .x = s->x, .dresidual = g->dx};
        if (!is_kept)
            gradient.y = dnorm;
        if (i > 0)
            gradient.residual = residual_gradient_of(block, pass, &block->sublayers[i - 1], g->ddelta);
        else if (before)
            gradient.residual = residual_gradient_of(before, pass, &before->sublayers[before->count - 1], g->ddelta);
        norm_backward(&block->sublayers[i].norm, pass, &s->norm, &gradient);
        linear_backward_weight(first, pass, dfirst, is_kept ? s->input : dnorm);
        arena_release(pass->scratch, mark);
    }
    g->is_open = before != NULL;
}

// dx is the gradient of the stream after the norm; dsum (N, C) receives that before the norm, which flows both through
// the sublayer and around it.
static void backward_post_norm(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                               const struct stream_gradient *g) {
    struct tensor dsum = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), block->C);
    for (int i = block->count - 1; i >= 0; i--) {
        const struct sublayer_saved *s = &saved->sublayers[i];
        struct norm_gradient gradient = {.dx = dsum,
                                         .dy = g->dx,
                                         .x = s->x,
                                         .residual =
                                             residual_gradient_of(block, pass, &block->sublayers[i], g->ddelta)};
        norm_backward(&block->sublayers[i].norm, pass, &s->norm, &gradient);
        size_t mark = arena_mark(pass->scratch);
        struct tensor dfirst = sublayer_backward(&block->sublayers[i], pass, s, g->dx, g->ddelta);
        linear_backward_weight(first_linear(&block->sublayers[i]), pass, dfirst, s->input);
        arena_release(pass->scratch, mark);
        op_dropout_add(pass->device, &(struct op_dropout_add){.out = g->dx, .x = g->dx, .residual = dsum});
    }
}

void block_backward(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                    struct stream_gradient *gradient, const struct block *before) {
    size_t mark = arena_mark(pass->scratch);
    if (block->is_post_norm)
        backward_post_norm(block, pass, saved, gradient);
    else
        backward_pre_norm(block, pass, saved, gradient, before);
    arena_release(pass->scratch, mark);
}
