// The feed-forward part of a block: C → F, activation, F → C; gated: C → 2F, the activation of one half times the
// other, F → C.
#include "base/memory.h"
#include "model/sublayer.h"

#include <math.h>
#include <stdlib.h>

struct mlp {
    struct sublayer sublayer;
    struct linear fc1;  // (F, C); gated (2F, C), the gate first
    struct linear fc2;  // (C, F)
    struct activation_step step;
    bool is_recomputed;  // only the input is kept
};

struct mlp_saved {
    struct activation_saved activation;
    struct tensor x;  // (n, C): this rank's rows of the input, if the rest is computed again
};

static void build(struct sublayer *sublayer, struct param_list *params, const char *name,
                  const struct sublayer_options *options) {
    struct mlp *mlp = (struct mlp *)sublayer;
    bool is_gated = sublayer->kind->is_gated;
    const struct choices *choices = options->choices;
    const int64_t segments[SHARD_MAX_SEGMENTS] = {choices->F, is_gated ? choices->F : 0};
    struct linear_options fc1 = {.weight = choices_split(choices, linear_segments(choices->C, segments), 0),
                                 .has_bias = choices->has_mlp_bias,
                                 .standard_deviation = choices->standard_deviation,
                                 .fp8 = options->layer->fp8};
    struct linear_options fc2 = {.weight = choices_split(choices, shard_whole(2, choices->C, choices->F), 1),
                                 .has_bias = choices->has_mlp_bias,
                                 .sums_gradient = choices->splits_rows,
                                 .scale = choices->residual_scale,
                                 .standard_deviation = choices_output_deviation(choices, options->layers),
                                 .fp8 = options->layer->fp8};
    char *fc1_name = memory_printf("%s.linear_fc1", name), *fc2_name = memory_printf("%s.linear_fc2", name);
    linear_build(&mlp->fc1, params, fc1_name, &fc1);
    linear_build(&mlp->fc2, params, fc2_name, &fc2);
    free(fc1_name);
    free(fc2_name);
    mlp->step = (struct activation_step){.from = &mlp->fc1,
                                         .to = &mlp->fc2,
                                         .activation = choices->activation,
                                         .rule = choices->glu,
                                         .is_gated = is_gated,
                                         .is_recomputed = choices->recomputes_activation};
    mlp->is_recomputed = choices->recomputes_mlp;
    sublayer->first = &mlp->fc1;
    sublayer->last = &mlp->fc2;
    sublayer->dropout_layer = options->dropout_layer;
}

static void forward(const struct sublayer *sublayer, const struct pass *pass, void *own, struct tensor delta,
                    struct operand x) {
    const struct mlp *mlp = (const struct mlp *)sublayer;
    struct mlp_saved *saved = own;
    struct pass inner = *pass;
    if (mlp->is_recomputed && pass->is_training) {
        saved->x = arena_2d(pass->activations, pass->dtype, x.value.shape[0], x.value.shape[1]);
        op_copy(pass->device, &(struct op_copy){.dst = saved->x, .src = x.value});
    }
    size_t mark = arena_mark(pass->scratch);
    if (mlp->is_recomputed)
        inner = pass_in_scratch(pass, false);
    linear_activate(&mlp->step, &inner, &saved->activation, x);
    linear_forward(&mlp->fc2, pass, delta, saved->activation.after, EPILOGUE_NONE, (struct tensor){0});
    arena_release(pass->scratch, mark);
}

static struct first_gradients backward(const struct sublayer *sublayer, const struct pass *pass, const void *own,
                                       struct tensor dx, struct tensor ddelta) {
    const struct mlp *mlp = (const struct mlp *)sublayer;
    struct mlp_saved saved = *(const struct mlp_saved *)own;
    struct operand dy = linear_output_gradient(&mlp->fc2, pass, ddelta), after;
    if (mlp->is_recomputed) {
        struct pass again = pass_in_scratch(pass, true);
        linear_activate(&mlp->step, &again, &saved.activation, operand_of(saved.x));
    }
    struct operand dbefore = linear_activate_backward(&mlp->step, pass, &saved.activation, dy, &after);
    linear_backward_weight(&mlp->fc2, pass, dy, after);
    linear_backward_input(&mlp->fc1, pass, dx, dbefore, (struct tensor){0});
    return (struct first_gradients){.first = dbefore};
}

#define MLP_KIND(gated)                                                                                                \
    {                                                                                                                  \
        .name = "mlp", .pre_norm = "pre_mlp_layernorm", .post_norm = "post_mlp_layernorm", .is_gated = gated,          \
        .dropout_place = DROPOUT_AFTER_MLP, .bytes = sizeof(struct mlp), .saved_bytes = sizeof(struct mlp_saved),      \
        .build = build, .forward = forward, .backward = backward                                                       \
    }
const struct sublayer_kind sublayer_mlp = MLP_KIND(false), sublayer_gated_mlp = MLP_KIND(true);
