// GPT: how the layers are put together. See gpt.h.
#include "model/gpt.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"

#include <stdlib.h>
#include <string.h>

void gpt_build(struct gpt *gpt, struct param_list *params, const struct config *config) {
    *gpt = (struct gpt){.L = config->num_layers,
                        .C = config->hidden_size,
                        .H = config->num_attention_heads,
                        .D = config->kv_channels,
                        .F = config->ffn_hidden_size,
                        .V = config->padded_vocab_size,
                        .P = config->max_position_embeddings};
    CHECK(gpt->V > 0);
    double deviation = config->init_method_std;
    gpt->embedding.tokens =
        param_add(params, "embedding.word_embeddings.weight", shard_whole(2, gpt->V, gpt->C), INIT_NORMAL, deviation);
    gpt->embedding.positions = param_add(params, "embedding.position_embeddings.weight", shard_whole(2, gpt->P, gpt->C),
                                         INIT_NORMAL, deviation);
    gpt->embedding.dropout = config->hidden_dropout;
    gpt->blocks = memory_alloc(sizeof *gpt->blocks * (size_t)gpt->L);
    gpt->saved = memory_alloc(sizeof *gpt->saved * (size_t)gpt->L);
    for (int64_t layer = 0; layer < gpt->L; layer++) {
        struct block_sizes sizes = {.layer = layer,
                                    .layers = gpt->L,
                                    .C = gpt->C,
                                    .H = gpt->H,
                                    .D = gpt->D,
                                    .F = gpt->F,
                                    .epsilon = config->norm_epsilon,
                                    .standard_deviation = deviation,
                                    .hidden_dropout = config->hidden_dropout,
                                    .attention_dropout = config->attention_dropout};
        char *name = memory_printf("decoder.layers.%lld", (long long)layer);
        block_build(&gpt->blocks[layer], params, name, &sizes);
        free(name);
    }
    norm_build(&gpt->final_norm, params, "decoder.final_layernorm", gpt->C, config->norm_epsilon);
}

void gpt_free(struct gpt *gpt) {
    free(gpt->blocks);
    free(gpt->saved);
    *gpt = (struct gpt){0};
}

// (N, C): the residual stream before the first block.
static struct tensor embed(const struct gpt *gpt, const struct pass *pass, const struct device_batch *batch) {
    struct tensor x = arena_2d(pass->saved, pass->dtype, pass_rows(pass), gpt->C);
    op_embedding_forward(pass->device, &(struct op_embedding_forward){
                                           .out = x,
                                           .tokens = batch->tokens,
                                           .table = gpt->embedding.tokens->value,
                                           .positions = batch->positions,
                                           .position_table = gpt->embedding.positions->value,
                                           .dropout = pass_dropout(pass, gpt->embedding.dropout, 0, DROPOUT_EMBEDDING),
                                       });
    return x;
}

static void normalize_last(struct gpt *gpt, const struct pass *pass, struct tensor x) {
    gpt->x = x;
    gpt->final_saved.mean = arena_1d(pass->saved, DTYPE_F32, x.shape[0]);
    gpt->final_saved.rstd = arena_1d(pass->saved, DTYPE_F32, x.shape[0]);
    gpt->final_saved.y = arena_2d(pass->saved, pass->dtype, x.shape[0], gpt->C);
    op_norm_forward(pass->device, &(struct op_norm_forward){.y = gpt->final_saved.y,
                                                            .mean = gpt->final_saved.mean,
                                                            .rstd = gpt->final_saved.rstd,
                                                            .x = x,
                                                            .gain = gpt->final_norm.gain->value,
                                                            .bias = gpt->final_norm.bias->value,
                                                            .epsilon = gpt->final_norm.epsilon});
}

// logits (N, V) = x (N, C) E^T, with the embedding's own matrix.
static void project(const struct gpt *gpt, const struct pass *pass, struct tensor logits, struct tensor x) {
    op_matmul(
        pass->device,
        &(struct op_matmul){.a = x, .b = gpt->embedding.tokens->value, .d = logits, .transpose_b = true, .alpha = 1});
}

static void compute_loss(struct gpt *gpt, const struct pass *pass, const struct device_batch *batch) {
    int64_t N = pass_rows(pass);
    gpt->logits = arena_2d(pass->saved, pass->dtype, N, gpt->V);
    project(gpt, pass, gpt->logits, gpt->final_saved.y);
    size_t mark = arena_mark(pass->scratch);
    struct tensor row_max = arena_1d(pass->scratch, DTYPE_F32, N), row_sum = arena_1d(pass->scratch, DTYPE_F32, N);
    struct tensor row_target = arena_1d(pass->scratch, DTYPE_F32, N), losses = arena_1d(pass->scratch, DTYPE_F32, N);
    op_softmax_stats(pass->device, &(struct op_softmax_stats){.row_max = row_max,
                                                              .row_sum = row_sum,
                                                              .row_target = row_target,
                                                              .logits = gpt->logits,
                                                              .labels = batch->labels});
    op_cross_entropy(pass->device, &(struct op_cross_entropy){.losses = losses,
                                                              .logits = gpt->logits,
                                                              .row_max = row_max,
                                                              .row_sum = row_sum,
                                                              .row_target = row_target,
                                                              .labels = batch->labels,
                                                              .weights = batch->weights});
    op_dot(pass->device, &(struct op_dot){.out = batch->loss_sum, .a = losses, .b = batch->mask});
    arena_release(pass->scratch, mark);
}

void gpt_forward(struct gpt *gpt, const struct pass *pass, const struct device_batch *batch) {
    struct tensor x = embed(gpt, pass, batch);
    for (int64_t layer = 0; layer < gpt->L; layer++)
        x = block_forward(&gpt->blocks[layer], pass, &gpt->saved[layer], x);
    normalize_last(gpt, pass, x);
    compute_loss(gpt, pass, batch);
}

void gpt_clear_gradients(const struct gpt *gpt, struct device *device, const struct param_list *params,
                         struct tensor grads) {
    device_zero(device, tensor_rows(grads, params->decayed, params->total - params->decayed));
    device_zero(device, gpt->embedding.positions->grad);
}

void gpt_backward(struct gpt *gpt, const struct pass *pass, const struct device_batch *batch) {
    int64_t N = pass_rows(pass);
    size_t mark = arena_mark(pass->scratch);
    struct tensor dx = arena_2d(pass->scratch, pass->dtype, N, gpt->C);
    struct tensor dnorm = arena_2d(pass->scratch, pass->dtype, N, gpt->C);
    struct tensor table = gpt->embedding.tokens->value, dtable = gpt->embedding.tokens->grad;
    op_matmul(pass->device, &(struct op_matmul){.a = gpt->logits, .b = table, .d = dnorm, .alpha = 1});
    op_matmul(pass->device, &(struct op_matmul){.a = gpt->logits,
                                                .b = gpt->final_saved.y,
                                                .d = dtable,
                                                .transpose_a = true,
                                                .alpha = 1,
                                                .beta = pass->is_first ? 0 : 1});
    op_norm_backward(pass->device, &(struct op_norm_backward){.dx = dx,
                                                              .dgain = gpt->final_norm.gain->grad,
                                                              .dbias = gpt->final_norm.bias->grad,
                                                              .dy = dnorm,
                                                              .x = gpt->x,
                                                              .gain = gpt->final_norm.gain->value,
                                                              .mean = gpt->final_saved.mean,
                                                              .rstd = gpt->final_saved.rstd});
    for (int64_t layer = gpt->L - 1; layer >= 0; layer--)
        block_backward(&gpt->blocks[layer], pass, &gpt->saved[layer], dx);
    op_embedding_backward(pass->device, &(struct op_embedding_backward){
                                            .dtable = dtable,
                                            .dposition_table = gpt->embedding.positions->grad,
                                            .dout = dx,
                                            .tokens = batch->tokens,
                                            .positions = batch->positions,
                                            .dropout = pass_dropout(pass, gpt->embedding.dropout, 0, DROPOUT_EMBEDDING),
                                        });
    arena_release(pass->scratch, mark);
}

void gpt_last_logits(struct gpt *gpt, const struct pass *pass, const struct device_batch *batch, struct tensor logits) {
    struct tensor x = embed(gpt, pass, batch);
    for (int64_t layer = 0; layer < gpt->L; layer++)
        x = block_forward(&gpt->blocks[layer], pass, &gpt->saved[layer], x);
    // Only the last row of each sequence is wanted.
    struct tensor last = arena_2d(pass->saved, pass->dtype, pass->B, gpt->C);
    struct tensor all = tensor_reshape_4d(x, pass->B, pass->T, 1, gpt->C);
    op_copy(pass->device, &(struct op_copy){.dst = tensor_reshape_4d(last, pass->B, 1, 1, gpt->C),
                                            .src = tensor_slice(all, 1, pass->T - 1, 1)});
    normalize_last(gpt, pass, last);
    project(gpt, pass, logits, gpt->final_saved.y);
    if (pass->cache)
        pass->cache->length += pass->T;
}
