// The optimizer step: norm, clip, update. See adam.h.
#include "optim/adam.h"
#include "ops/device.h"

#include <math.h>

enum { SCALAR_SQUARES, SCALAR_NORM, SCALAR_SCALE, SCALAR_PARAM_SQUARES, SCALAR_COUNT };

static struct tensor scalar(const struct adam *adam, int64_t which) {
    return tensor_rows(adam->scalars, which, 1);
}

void adam_build(struct adam *adam, struct arena *arena, const struct param_list *params, enum dtype dtype,
                const struct config *config) {
    *adam = (struct adam){.beta1 = (float)config->adam_beta1,
                          .beta2 = (float)config->adam_beta2,
                          .epsilon = (float)config->adam_eps,
                          .max_norm = (float)config->clip_grad};
    if (dtype != DTYPE_F32)
        adam->master = arena_1d(arena, DTYPE_F32, params->total);
    adam->m = arena_1d(arena, DTYPE_F32, params->total);
    adam->v = arena_1d(arena, DTYPE_F32, params->total);
    adam->scalars = arena_1d(arena, DTYPE_F32, SCALAR_COUNT);
    scaler_build(&adam->scaler, arena, config);
}

void adam_reset(struct adam *adam, struct device *device) {
    device_zero(device, adam->m);
    device_zero(device, adam->v);
    if (adam->master.data)
        device_zero(device, adam->master);
    device_zero(device, adam->scalars);
    scaler_reset(&adam->scaler, device);
    adam->step = 0;
}

static void apply_range(const struct adam *adam, const struct adam_update *update, int64_t first, int64_t count,
                        double weight_decay) {
    if (count == 0)
        return;
    bool is_mixed = adam->master.data != NULL;
    struct tensor values = tensor_rows(update->values, first, count);
    op_adam(update->device, &(struct op_adam){.master = is_mixed ? tensor_rows(adam->master, first, count) : values,
                                              .copy = is_mixed ? values : (struct tensor){0},
                                              .grad = tensor_rows(update->grads, first, count),
                                              .m = tensor_rows(adam->m, first, count),
                                              .v = tensor_rows(adam->v, first, count),
                                              .scale = scalar(adam, SCALAR_SCALE),
                                              .lr = (float)update->lr,
                                              .beta1 = adam->beta1,
                                              .beta2 = adam->beta2,
                                              .epsilon = adam->epsilon,
                                              .weight_decay = (float)weight_decay,
                                              .step = adam->step});
}

// squares = the sum of squares of a flat buffer over the whole model: what ranks share is split among them and summed,
// what every rank holds whole counts once.
static void sum_squares(const struct adam_update *update, struct tensor squares, struct tensor flat) {
    const struct param_list *params = update->params;
    struct device *device = update->device;
    int64_t first = params->whole_first, end = params->whole_end, total = params->total;
    bool is_shared = update->mesh->length[AXIS_TENSOR] > 1;
    device_zero(device, squares);
    if (!is_shared) {
        op_sum_squares(device, &(struct op_sum_squares){.out = squares, .x = flat});
        return;
    }
    if (first > 0)
        op_sum_squares(device, &(struct op_sum_squares){.out = squares, .x = tensor_rows(flat, 0, first)});
    if (total > end)
        op_sum_squares(device, &(struct op_sum_squares){.out = squares, .x = tensor_rows(flat, end, total - end)});
    if (!device->ops->is_paper)
        comm_all_reduce(update->mesh->group[AXIS_TENSOR], squares, REDUCE_SUM, "sum of squares");
    if (end > first)
        op_sum_squares(device, &(struct op_sum_squares){.out = squares, .x = tensor_rows(flat, first, end - first)});
}

void adam_apply(struct adam *adam, const struct adam_update *update) {
    sum_squares(update, scalar(adam, SCALAR_SQUARES), update->grads);
    op_clip_scale(update->device, &(struct op_clip_scale){.scale = scalar(adam, SCALAR_SCALE),
                                                          .norm = scalar(adam, SCALAR_NORM),
                                                          .sum_squares = scalar(adam, SCALAR_SQUARES),
                                                          .max_norm = adam->max_norm,
                                                          .loss_scale = adam->scaler.state,
                                                          .rule = adam->scaler.rule});
    adam->step++;
    int64_t decayed = update->params->decayed;
    apply_range(adam, update, 0, decayed, update->weight_decay);
    apply_range(adam, update, decayed, update->params->total - decayed, 0);
}

double adam_grad_norm(const struct adam *adam, struct device *device) {
    float norm = 0;
    device_copy_out(device, &norm, scalar(adam, SCALAR_NORM));
    return (double)norm;
}

double adam_params_norm(const struct adam *adam, const struct adam_update *update) {
    float squares = 0;
    struct tensor sum = scalar(adam, SCALAR_PARAM_SQUARES);
    sum_squares(update, sum, adam->master.data ? adam->master : update->values);
    device_copy_out(update->device, &squares, sum);
    return sqrt((double)squares);
}
