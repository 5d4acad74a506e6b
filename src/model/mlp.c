// The feed-forward half of a block: C → F, activation, F → C.
#include "base/memory.h"
#include "model/block.h"

#include <math.h>
#include <stdlib.h>

void mlp_build(struct mlp *mlp, struct param_list *params, const char *name, const struct block_sizes *sizes) {
    char *fc1_name = memory_printf("%s.linear_fc1", name), *fc2_name = memory_printf("%s.linear_fc2", name);
    linear_build(&mlp->fc1, params, fc1_name, shard_whole(2, sizes->F, sizes->C), sizes->standard_deviation);
    linear_build(&mlp->fc2, params, fc2_name, shard_whole(2, sizes->C, sizes->F),
                 sizes->standard_deviation / sqrt(2.0 * (double)sizes->layers));
    free(fc1_name);
    free(fc2_name);
}

void mlp_forward(const struct mlp *mlp, const struct pass *pass, struct mlp_saved *saved, struct tensor delta,
                 struct tensor x) {
    int64_t N = pass_rows(pass), F = mlp->fc1.out;
    saved->before = pass->is_training ? arena_2d(pass->saved, pass->dtype, N, F) : (struct tensor){0};
    saved->after = arena_2d(pass->saved, pass->dtype, N, F);
    linear_forward(&mlp->fc1, pass, saved->after, x, EPILOGUE_BIAS_ACTIVATION, saved->before);
    linear_forward(&mlp->fc2, pass, delta, saved->after, EPILOGUE_NONE, (struct tensor){0});
}

void mlp_backward(const struct mlp *mlp, const struct pass *pass, const struct mlp_saved *saved, struct tensor dx,
                  struct tensor ddelta, struct tensor x) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor dbefore = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), mlp->fc1.out);
    linear_backward_input(&mlp->fc2, pass, dbefore, ddelta, saved->before);
    linear_backward_weight(&mlp->fc2, pass, ddelta, saved->after);
    linear_backward_input(&mlp->fc1, pass, dx, dbefore, (struct tensor){0});
    linear_backward_weight(&mlp->fc1, pass, dbefore, x);
    op_column_sum(pass->device, &(struct op_column_sum){.out = mlp->fc1.bias->grad, .x = dbefore});
    arena_release(pass->scratch, mark);
}
