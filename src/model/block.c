// A transformer block, forward and backward. See block.h.
#include "model/block.h"
#include "base/memory.h"

#include <stdlib.h>

void block_build(struct block *block, struct param_list *params, const char *name, const struct block_sizes *sizes) {
    block->sizes = *sizes;
    char *part = memory_printf("%s.input_layernorm", name);
    norm_build(&block->norm1, params, part, sizes->C, sizes->epsilon);
    free(part);
    part = memory_printf("%s.self_attention", name);
    attention_build(&block->attention, params, part, sizes);
    free(part);
    part = memory_printf("%s.pre_mlp_layernorm", name);
    norm_build(&block->norm2, params, part, sizes->C, sizes->epsilon);
    free(part);
    part = memory_printf("%s.mlp", name);
    mlp_build(&block->mlp, params, part, sizes);
    free(part);
}

static void save_norm(const struct pass *pass, struct norm_saved *saved, int64_t C) {
    int64_t N = pass_rows(pass);
    saved->mean = arena_1d(pass->saved, DTYPE_F32, N);
    saved->rstd = arena_1d(pass->saved, DTYPE_F32, N);
    saved->y = arena_2d(pass->saved, pass->dtype, N, C);
}

struct tensor block_forward(const struct block *block, const struct pass *pass, struct block_saved *saved,
                            struct tensor x) {
    const struct block_sizes *sizes = &block->sizes;
    int64_t N = pass_rows(pass), C = sizes->C;
    struct tensor out = arena_2d(pass->saved, pass->dtype, N, C);
    size_t kept = arena_mark(pass->saved);
    saved->x = x;
    saved->y = arena_2d(pass->saved, pass->dtype, N, C);
    save_norm(pass, &saved->norm1, C);
    save_norm(pass, &saved->norm2, C);
    size_t mark = arena_mark(pass->scratch);
    struct tensor delta = arena_2d(pass->scratch, pass->dtype, N, C);

    op_norm_forward(pass->device, &(struct op_norm_forward){.y = saved->norm1.y,
                                                            .mean = saved->norm1.mean,
                                                            .rstd = saved->norm1.rstd,
                                                            .x = x,
                                                            .gain = block->norm1.gain->value,
                                                            .bias = block->norm1.bias->value,
                                                            .epsilon = block->norm1.epsilon});
    attention_forward(&block->attention, pass, &saved->attention, delta, saved->norm1.y, sizes->layer);
    op_norm_forward(pass->device,
                    &(struct op_norm_forward){
                        .y = saved->norm2.y,
                        .mean = saved->norm2.mean,
                        .rstd = saved->norm2.rstd,
                        .x = x,
                        .gain = block->norm2.gain->value,
                        .bias = block->norm2.bias->value,
                        .epsilon = block->norm2.epsilon,
                        .delta = delta,
                        .delta_bias = block->attention.proj.bias->value,
                        .sum = saved->y,
                        .dropout = pass_dropout(pass, sizes->hidden_dropout, sizes->layer, DROPOUT_AFTER_ATTENTION),
                    });
    mlp_forward(&block->mlp, pass, &saved->mlp, delta, saved->norm2.y);
    op_dropout_add(pass->device,
                   &(struct op_dropout_add){
                       .out = out,
                       .x = delta,
                       .residual = saved->y,
                       .bias = block->mlp.fc2.bias->value,
                       .dropout = pass_dropout(pass, sizes->hidden_dropout, sizes->layer, DROPOUT_AFTER_MLP),
                   });
    arena_release(pass->scratch, mark);
    if (!pass->is_training)
        arena_release(pass->saved, kept);
    return out;
}

void block_backward(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                    struct tensor dx) {
    const struct block_sizes *sizes = &block->sizes;
    int64_t N = pass_rows(pass), C = sizes->C;
    size_t mark = arena_mark(pass->scratch);
    struct tensor ddelta = arena_2d(pass->scratch, pass->dtype, N, C);
    struct tensor dnorm = arena_2d(pass->scratch, pass->dtype, N, C);

    op_dropout_backward(pass->device,
                        &(struct op_dropout_backward){
                            .dx = ddelta,
                            .dy = dx,
                            .dbias = block->mlp.fc2.bias->grad,
                            .dropout = pass_dropout(pass, sizes->hidden_dropout, sizes->layer, DROPOUT_AFTER_MLP),
                        });
    mlp_backward(&block->mlp, pass, &saved->mlp, dnorm, ddelta, saved->norm2.y);
    op_norm_backward(pass->device,
                     &(struct op_norm_backward){
                         .dx = dx,
                         .dgain = block->norm2.gain->grad,
                         .dbias = block->norm2.bias->grad,
                         .dy = dnorm,
                         .x = saved->y,
                         .gain = block->norm2.gain->value,
                         .mean = saved->norm2.mean,
                         .rstd = saved->norm2.rstd,
                         .dresidual = dx,
                         .ddelta = ddelta,
                         .ddelta_bias = block->attention.proj.bias->grad,
                         .dropout = pass_dropout(pass, sizes->hidden_dropout, sizes->layer, DROPOUT_AFTER_ATTENTION),
                     });
    attention_backward(&block->attention, pass, &saved->attention, dnorm, ddelta, saved->norm1.y, sizes->layer);
    op_norm_backward(pass->device, &(struct op_norm_backward){.dx = dx,
                                                              .dgain = block->norm1.gain->grad,
                                                              .dbias = block->norm1.bias->grad,
                                                              .dy = dnorm,
                                                              .x = saved->x,
                                                              .gain = block->norm1.gain->value,
                                                              .mean = saved->norm1.mean,
                                                              .rstd = saved->norm1.rstd,
                                                              .dresidual = dx});
    arena_release(pass->scratch, mark);
}
