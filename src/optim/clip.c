// Sums of squares over the whole model, and clipping. See clip.h.
#include "optim/clip.h"
#include "ops/device.h"

#include <math.h>

enum {
    SCALAR_SQUARES,
    SCALAR_NORM,
    SCALAR_SCALE,
    SCALAR_PARAM_SQUARES,
    SCALAR_SKIPPED,
    SCALAR_GROUP,   // squares of one group
    SCALAR_TOKENS,  // first their square, then themselves
    SCALAR_SHARE,   // 1 / tokens
    SCALAR_COUNT
};

static struct tensor scalar(const struct clip *clip, int64_t which) {
    return tensor_rows(clip->scalars, which, 1);
}

void clip_build(struct clip *clip, struct arena *arena, const struct config *config) {
    *clip =
        (struct clip){.scalars = arena_1d(arena, DTYPE_F32, SCALAR_COUNT), .max_norm = (float)config->run.clip_grad};
}

void clip_reset(struct clip *clip, struct device *device) {
    device_zero(device, clip->scalars);
}

// A buffer whose squares are summed: a flat buffer, or the masters of this rank's pieces.
struct squared {
    struct tensor flat;
    const struct optimizer *optimizer;
    bool is_of_masters;
};

// squares += the sum of squares of this rank's elements in [first, end).
static void add_squares(const struct update *update, struct tensor squares, const struct squared *x, int64_t first,
                        int64_t end) {
    struct piece run;
    for (int64_t at = first; pieces_next(&x->optimizer->pieces, &at, end, &run);)
        op_sum_squares(
            update->device,
            &(struct op_sum_squares){
                .out = squares,
                .x = tensor_rows(x->flat, x->is_of_masters ? run.local_offset : run.flat_offset, run.count)});
}

// squares = the sum of squares of a group over the whole model. Split tensors are summed over the ranks that share
// them; tensors that every rank holds whole count once; those of several pipeline stages count on the first of them.
static void sum_group(const struct update *update, struct tensor squares, const struct squared *x) {
    const struct mesh *mesh = update->mesh;
    const struct param_group *group = &update->params->groups[x->optimizer->group];
    bool is_shared = mesh_count(mesh, group->slices) > 1;
    int64_t first = is_shared ? group->whole_first : group->end, end = is_shared ? group->whole_end : group->end;
    device_zero(update->device, squares);
    add_squares(update, squares, x, group->counted_first, first);
    add_squares(update, squares, x, end, group->end);
    if (is_shared)
        comm_all_reduce(mesh_group(mesh, group->slices), squares, REDUCE_SUM, "sum of squares");
    add_squares(update, squares, x, first, end);
    if (x->optimizer->pieces.parts > 1)
        comm_all_reduce(mesh_group(mesh, group->replicas), squares, REDUCE_SUM, "sum of squares");
    if (mesh->length[AXIS_PIPELINE] > 1)
        comm_all_reduce(mesh->group[AXIS_PIPELINE], squares, REDUCE_SUM, "sum of squares");
}

// squares = the sum over all groups, of the gradients or of the parameters.
static void sum_squares(const struct clip *clip, const struct update *update, struct tensor squares,
                        const struct optimizer *optimizers, bool is_of_params) {
    for (int i = 0; i < update->params->group_count; i++) {
        struct squared x = {.flat = is_of_params ? update->values : update->grads, .optimizer = &optimizers[i]};
        struct tensor masters = is_of_params ? optimizer_open_masters(&optimizers[i], update) : (struct tensor){0};
        x.is_of_masters = masters.data != NULL;
        x.flat = x.is_of_masters ? masters : x.flat;
        struct tensor own = i == 0 ? squares : scalar(clip, SCALAR_GROUP);
        sum_group(update, own, &x);
        if (x.is_of_masters)
            optimizer_close_masters(&optimizers[i], update);
        struct tensor sum = tensor_2d(squares.data, DTYPE_F32, 1, 1);
        if (i > 0)
            op_dropout_add(update->device, &(struct op_dropout_add){
                                               .out = sum, .x = tensor_2d(own.data, DTYPE_F32, 1, 1), .residual = sum});
    }
}

// Sets the share of a token: 1 / tokens, or 1 if there are none.
static void find_share(const struct clip *clip, const struct update *update) {
    struct tensor tokens = scalar(clip, SCALAR_TOKENS);
    device_zero(update->device, tokens);
    op_sum_squares(update->device, &(struct op_sum_squares){.out = tokens, .x = update->tokens});
    op_clip_scale(update->device,
                  &(struct op_clip_scale){
                      .scale = scalar(clip, SCALAR_SHARE), .norm = tokens, .sum_squares = tokens, .max_norm = 1});
}

// x *= positions / tokens, unless gradients are already means over the tokens.
static void correct(const struct clip *clip, const struct update *update, struct tensor x) {
    if (update->tokens.data)
        op_scale(update->device,
                 &(struct op_scale){.x = x, .factor = (float)update->positions, .by = scalar(clip, SCALAR_SHARE)});
}

void clip_begin(const struct clip *clip, const struct update *update, const struct clip_options *options) {
    sum_squares(clip, update, scalar(clip, SCALAR_SQUARES), options->optimizers, false);
    if (update->tokens.data)
        find_share(clip, update);
    correct(clip, update, scalar(clip, SCALAR_SQUARES));
    correct(clip, update, scalar(clip, SCALAR_SQUARES));
    op_clip_scale(update->device, &(struct op_clip_scale){.scale = scalar(clip, SCALAR_SCALE),
                                                          .norm = scalar(clip, SCALAR_NORM),
                                                          .sum_squares = scalar(clip, SCALAR_SQUARES),
                                                          .max_norm = clip->max_norm,
                                                          .loss_scale = options->scaler->state,
                                                          .rule = options->scaler->rule,
                                                          .rate = options->rate,
                                                          .rates = options->rates,
                                                          .skipped = scalar(clip, SCALAR_SKIPPED)});
    correct(clip, update, scalar(clip, SCALAR_SCALE));
}

struct tensor clip_norm(const struct clip *clip) {
    return scalar(clip, SCALAR_NORM);
}

struct tensor clip_scale(const struct clip *clip) {
    return scalar(clip, SCALAR_SCALE);
}

double clip_params_norm(const struct clip *clip, const struct update *update, const struct optimizer *optimizers) {
    float squares = 0;
    struct tensor sum = scalar(clip, SCALAR_PARAM_SQUARES);
    sum_squares(clip, update, sum, optimizers, true);
    device_copy_out(update->device, &squares, sum);
    return sqrt((double)squares);
}
