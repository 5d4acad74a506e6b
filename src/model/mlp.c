// The feed-forward part of a block: C → F, activation, F → C; gated: C → 2F, the activation of one half times the
// other, F → C. The tanh GELU of a layer with a bias is fused into the products around it. Other activations are
// separate steps, whose backward can recompute their result, so that it need not be kept.
#include "base/memory.h"
#include "model/block.h"

#include <math.h>
#include <stdlib.h>

void mlp_build(struct mlp *mlp, struct param_list *params, const char *name, const struct block_options *options) {
    const struct choices *choices = options->choices;
    const int64_t gated[SHARD_MAX_SEGMENTS] = {choices->F, choices->F};
    struct linear_options fc1 = {.weight = choices_split(choices,
                                                         choices->is_gated ? linear_segments(choices->C, gated)
                                                                           : shard_whole(2, choices->F, choices->C),
                                                         0),
                                 .has_bias = choices->has_mlp_bias,
                                 .standard_deviation = choices->standard_deviation};
    struct linear_options fc2 = {.weight = choices_split(choices, shard_whole(2, choices->C, choices->F), 1),
                                 .has_bias = choices->has_mlp_bias,
                                 .sums_gradient = choices->splits_rows,
                                 .standard_deviation =
                                     choices->standard_deviation / sqrt(2.0 * (double)options->layers)};
    char *fc1_name = memory_printf("%s.linear_fc1", name), *fc2_name = memory_printf("%s.linear_fc2", name);
    fc1.fp8 = fc2.fp8 = choices->fp8;
    linear_build(&mlp->fc1, params, fc1_name, &fc1);
    linear_build(&mlp->fc2, params, fc2_name, &fc2);
    mlp->activation = choices->activation;
    mlp->is_gated = choices->is_gated;
    mlp->is_recomputed = choices->recomputes_activation;
    free(fc1_name);
    free(fc2_name);
}

static bool is_fused(const struct mlp *mlp) {
    return mlp->activation == ACTIVATION_GELU_TANH && !mlp->is_gated && mlp->fc1.bias;
}

// The input of the activation is kept for the backward pass. Without one it may be overwritten, and a fused product
// never stores it.
static struct tensor take_before(const struct mlp *mlp, const struct pass *pass, struct tensor after) {
    if (pass->is_training || mlp->is_gated)
        return arena_2d(pass->saved, pass->dtype, pass_rows(pass), mlp->fc1.out);
    return is_fused(mlp) ? (struct tensor){0} : after;
}

// Whether the activation's result is kept: beside a fused product, recomputing it would cost a separate step.
static bool keeps_after(const struct mlp *mlp, const struct pass *pass) {
    return (is_fused(mlp) || pass_keeps_results(pass)) && !mlp->is_recomputed;
}

static void forward_plain(const struct mlp *mlp, const struct pass *pass, struct mlp_saved *saved, struct tensor x) {
    struct arena *arena = keeps_after(mlp, pass) ? pass->saved : pass->scratch;
    saved->after = arena_2d(arena, pass->dtype, pass_rows(pass), mlp->fc2.in);
    saved->before = take_before(mlp, pass, saved->after);
    if (is_fused(mlp)) {
        linear_forward(&mlp->fc1, pass, saved->after, x, EPILOGUE_BIAS_ACTIVATION, saved->before);
    } else {
        linear_forward(&mlp->fc1, pass, saved->before, x, EPILOGUE_BIAS, (struct tensor){0});
        if (mlp->is_gated)
            op_glu_forward(pass->device, &(struct op_glu_forward){
                                             .y = saved->after, .x = saved->before, .activation = mlp->activation});
        else
            op_activation_forward(
                pass->device,
                &(struct op_activation_forward){.y = saved->after, .x = saved->before, .activation = mlp->activation});
    }
}

// In 8 bits, the bias and the activation are computed while the input of the second product is stored.
static void forward_fp8(const struct mlp *mlp, const struct pass *pass, struct mlp_saved *saved, struct tensor x) {
    saved->after = linear_take_input(&mlp->fc2, pass, pass_rows(pass));
    saved->before = arena_2d(pass->saved, pass->dtype, pass_rows(pass), mlp->fc1.out);
    linear_forward(&mlp->fc1, pass, saved->before, x, EPILOGUE_NONE, (struct tensor){0});
    linear_quantize(&mlp->fc2, pass,
                    (struct op_quantize){.kind = mlp->is_gated ? QUANTIZE_GLU : QUANTIZE_ACTIVATION,
                                         .activation = mlp->activation,
                                         .y = saved->after,
                                         .x = saved->before,
                                         .bias = linear_bias(&mlp->fc1)});
}

void mlp_forward(const struct mlp *mlp, const struct pass *pass, struct mlp_saved *saved, struct tensor delta,
                 struct tensor x) {
    size_t mark = arena_mark(pass->scratch);
    if (linear_is_fp8(&mlp->fc2, pass))
        forward_fp8(mlp, pass, saved, x);
    else
        forward_plain(mlp, pass, saved, x);
    linear_forward(&mlp->fc2, pass, delta, saved->after, EPILOGUE_NONE, (struct tensor){0});
    arena_release(pass->scratch, mark);
}

// The gradient of the activation's input in 8 bits, in the form that the first product takes.
static struct tensor backward_activation_fp8(const struct mlp *mlp, const struct pass *pass,
                                             const struct mlp_saved *saved, struct tensor ddelta) {
    struct tensor stored = linear_take_gradient(&mlp->fc1, pass, pass_rows(pass));
    size_t mark = arena_mark(pass->scratch);
    struct tensor dafter = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), mlp->fc2.in);
    linear_backward_input(&mlp->fc2, pass, dafter, ddelta, (struct tensor){0});
    linear_quantize(&mlp->fc1, pass,
                    (struct op_quantize){.kind = mlp->is_gated ? QUANTIZE_GLU_GRADIENT : QUANTIZE_ACTIVATION_GRADIENT,
                                         .activation = mlp->activation,
                                         .y = stored,
                                         .transposed = linear_transposed(stored),
                                         .x = saved->before,
                                         .bias = linear_bias(&mlp->fc1),
                                         .dy = dafter,
                                         .dbias = linear_bias_gradient(&mlp->fc1)});
    arena_release(pass->scratch, mark);
    return stored;
}

// The gradient of the activation's input, and the activation's result.
struct around {
    struct tensor dbefore, after;
};

// Both from ddelta, the gradient of the MLP's output. They need no memory of their own: the recomputed result replaces
// its own gradient or the activation's input, and the gradient of the input replaces the input.
static struct around backward_activation(const struct mlp *mlp, const struct pass *pass, const struct mlp_saved *saved,
                                         struct tensor ddelta) {
    int64_t N = pass_rows(pass);
    struct tensor dafter = arena_2d(pass->scratch, pass->dtype, N, mlp->fc2.in), before = saved->before;
    bool is_kept = keeps_after(mlp, pass);
    linear_backward_input(&mlp->fc2, pass, dafter, ddelta, is_fused(mlp) ? before : (struct tensor){0});
    if (is_fused(mlp) && is_kept)
        return (struct around){dafter, saved->after};
    if (is_fused(mlp)) {
        op_activation_forward(pass->device,
                              &(struct op_activation_forward){.y = before, .x = before, .activation = mlp->activation});
        return (struct around){dafter, before};
    }
    struct tensor again = is_kept ? (struct tensor){0} : dafter;
    if (mlp->is_gated)
        op_glu_backward(pass->device,
                        &(struct op_glu_backward){
                            .dx = before, .y = again, .dy = dafter, .x = before, .activation = mlp->activation});
    else
        op_activation_backward(pass->device,
                               &(struct op_activation_backward){
                                   .dx = before, .y = again, .dy = dafter, .x = before, .activation = mlp->activation});
    return (struct around){before, is_kept ? saved->after : dafter};
}

struct tensor mlp_backward(const struct mlp *mlp, const struct pass *pass, const struct mlp_saved *saved,
                           struct tensor dx, struct tensor ddelta) {
    ddelta = linear_output_gradient(&mlp->fc2, pass, ddelta);
    struct around around = {.after = saved->after};
    if (linear_is_fp8(&mlp->fc1, pass))
        around.dbefore = backward_activation_fp8(mlp, pass, saved, ddelta);
    else
        around = backward_activation(mlp, pass, saved, ddelta);
    linear_backward_weight(&mlp->fc2, pass, ddelta, around.after);
    linear_backward_input(&mlp->fc1, pass, dx, around.dbefore, (struct tensor){0});
    linear_backward_bias(&mlp->fc1, pass, around.dbefore);
    return around.dbefore;
}
