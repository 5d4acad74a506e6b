// The optimizer step: norm, clip, update. See adam.h.
#include "optim/adam.h"
#include "base/error.h"
#include "ops/device.h"

#include <math.h>

enum { SCALAR_SQUARES, SCALAR_NORM, SCALAR_SCALE, SCALAR_PARAM_SQUARES, SCALAR_SKIPPED, SCALAR_COUNT };

static struct tensor scalar(const struct adam *adam, int64_t which) {
    return tensor_rows(adam->scalars, which, 1);
}

void adam_build(struct adam *adam, struct arena *arena, const struct pieces *pieces, enum dtype dtype,
                const struct config *config) {
    *adam = (struct adam){.pieces = *pieces,
                          .beta1 = (float)config->adam_beta1,
                          .beta2 = (float)config->adam_beta2,
                          .epsilon = (float)config->adam_eps,
                          .max_norm = (float)config->clip_grad,
                          .is_decoupled = config->decoupled_lr > 0};
    int64_t count = pieces_local_count(pieces);
    if (dtype != DTYPE_F32)
        adam->master = arena_1d(arena, dtype == DTYPE_BF16 ? DTYPE_I16 : DTYPE_F32, count);
    adam->m = arena_1d(arena, DTYPE_F32, count);
    adam->v = arena_1d(arena, DTYPE_F32, count);
    adam->scalars = arena_1d(arena, DTYPE_F32, SCALAR_COUNT);
    adam->rate = arena_1d(arena, DTYPE_F32, RATE_LENGTH);
    adam->rates = arena_2d(arena, DTYPE_F32, ADAM_MOST_RATES, RATE_LENGTH);
    scaler_build(&adam->scaler, arena, config);
}

void adam_reset(struct adam *adam, struct device *device) {
    device_zero(device, adam->m);
    device_zero(device, adam->v);
    if (adam->master.data)
        device_zero(device, adam->master);
    device_zero(device, adam->scalars);
    scaler_reset(&adam->scaler, device);
    adam->step = adam->skipped = 0;
}

static bool is_in_halves(const struct adam *adam) {
    return adam->master.data && adam->master.dtype == DTYPE_I16;
}

struct tensor adam_open_masters(const struct adam *adam, const struct adam_update *update) {
    if (!is_in_halves(adam))
        return adam->master;
    struct tensor masters = tensor_rows(update->grads, 0, tensor_count(adam->master));
    struct piece run;
    for (int64_t at = 0; pieces_next(&adam->pieces, &at, adam->pieces.total, &run);)
        op_merge(update->device, &(struct op_merge){.x = tensor_rows(masters, run.local_offset, run.count),
                                                    .value = tensor_rows(update->values, run.flat_offset, run.count),
                                                    .rest = tensor_rows(adam->master, run.local_offset, run.count)});
    return masters;
}

void adam_close_masters(const struct adam *adam, const struct adam_update *update) {
    if (is_in_halves(adam))
        device_zero(update->device, update->grads);
}

void adam_take_weights(const struct adam *adam, const struct adam_update *update) {
    struct piece run;
    op_copy(update->device, &(struct op_copy){.dst = update->values, .src = update->grads});
    for (int64_t at = 0; pieces_next(&adam->pieces, &at, adam->pieces.total, &run);) {
        struct tensor weights = tensor_rows(update->grads, run.flat_offset, run.count);
        struct tensor masters = tensor_rows(adam->master, run.local_offset, run.count);
        if (is_in_halves(adam))
            op_split(update->device,
                     &(struct op_split){.value = tensor_rows(update->values, run.flat_offset, run.count),
                                        .rest = masters,
                                        .x = weights});
        else
            op_copy(update->device, &(struct op_copy){.dst = masters, .src = weights});
    }
    device_zero(update->device, update->grads);
}

// Update number t, counted from 1. The learning rate is rounded to fp32 before it is divided, as in earlier versions.
static void make_rate(const struct adam *adam, const struct adam_pace *pace, int64_t t, float *rate) {
    const double rates[] = {pace->lr, pace->decoupled_lr};
    for (int i = 0; i < 2; i++, rate += RATE_GROUP) {
        float lr = (float)rates[i];
        rate[RATE_STEP] = (float)((double)lr / (1.0 - pow((double)adam->beta1, (double)t)));
        rate[RATE_CORRECTION] = (float)(1.0 / (1.0 - pow((double)adam->beta2, (double)t)));
        rate[RATE_DECAY] = lr * (float)pace->weight_decay;
    }
}

void adam_make_rates(const struct adam *adam, const struct adam_pace *paces, int count, float *rates) {
    CHECK(count >= 1 && count <= ADAM_MOST_RATES);
    // Rows beyond those are never chosen; they repeat the last.
    for (int i = 0; i < ADAM_MOST_RATES; i++, rates += RATE_LENGTH) {
        int k = i < count ? i : count - 1;
        int64_t t = adam->step + 1 - k;
        make_rate(adam, &paces[k], t > 1 ? t : 1, rates);
        rates[RATE_SKIPPED] = rates[RATE_GROUP + RATE_SKIPPED] = (float)(adam->skipped + k);
    }
}

void adam_learn(struct adam *adam, bool is_skipped) {
    adam->step -= is_skipped;
    adam->skipped += is_skipped;
}

// A stretch of the flat buffers whose parameters are all updated alike.
struct stretch {
    int64_t first, end;
    bool is_decayed, is_decoupled;
};

static void apply_run(const struct adam *adam, const struct adam_update *update, struct piece run,
                      const struct stretch *stretch) {
    bool is_mixed = adam->master.data != NULL;
    struct tensor values = tensor_rows(update->values, run.flat_offset, run.count);
    op_adam(update->device,
            &(struct op_adam){.master = is_mixed ? tensor_rows(adam->master, run.local_offset, run.count) : values,
                              .copy = is_mixed ? values : (struct tensor){0},
                              .grad = tensor_rows(update->grads, run.flat_offset, run.count),
                              .m = tensor_rows(adam->m, run.local_offset, run.count),
                              .v = tensor_rows(adam->v, run.local_offset, run.count),
                              .scale = scalar(adam, SCALAR_SCALE),
                              .rate = tensor_rows(adam->rate, stretch->is_decoupled ? RATE_GROUP : 0, RATE_GROUP),
                              .beta1 = adam->beta1,
                              .beta2 = adam->beta2,
                              .epsilon = adam->epsilon,
                              .is_decayed = stretch->is_decayed});
}

static void apply_stretch(const struct adam *adam, const struct adam_update *update, const struct stretch *stretch) {
    struct piece run;
    for (int64_t at = stretch->first; pieces_next(&adam->pieces, &at, stretch->end, &run);)
        apply_run(adam, update, run, stretch);
}

// A buffer whose squares are summed: in the flat layout, or only this rank's pieces.
struct squared {
    struct tensor buffer;
    bool is_local;
};

// squares += the sum of squares of what this rank holds of [first, end).
static void add_squares(const struct adam *adam, const struct adam_update *update, struct tensor squares,
                        struct squared x, int64_t first, int64_t end) {
    struct piece run;
    for (int64_t at = first; pieces_next(&adam->pieces, &at, end, &run);)
        op_sum_squares(update->device,
                       &(struct op_sum_squares){
                           .out = squares,
                           .x = tensor_rows(x.buffer, x.is_local ? run.local_offset : run.flat_offset, run.count)});
}

// squares = the sum of squares over the whole model. What ranks share is split among them and summed; what every rank
// holds whole counts once; what several stages of a pipeline hold counts on the first of them.
static void sum_squares(const struct adam *adam, const struct adam_update *update, struct tensor squares,
                        struct squared x) {
    const struct mesh *mesh = update->mesh;
    bool is_shared = mesh->length[AXIS_TENSOR] > 1, is_paper = update->device->ops->is_paper;
    int64_t total = update->params->total;
    int64_t first = is_shared ? update->params->whole_first : total,
            end = is_shared ? update->params->whole_end : total;
    device_zero(update->device, squares);
    add_squares(adam, update, squares, x, update->params->counted_first, first);
    add_squares(adam, update, squares, x, end, total);
    if (is_shared && !is_paper)
        comm_all_reduce(mesh->group[AXIS_TENSOR], squares, REDUCE_SUM, "sum of squares");
    add_squares(adam, update, squares, x, first, end);
    if (adam->pieces.parts > 1 && !is_paper)
        comm_all_reduce(mesh->replicas, squares, REDUCE_SUM, "sum of squares");
    if (mesh->length[AXIS_PIPELINE] > 1 && !is_paper)
        comm_all_reduce(mesh->group[AXIS_PIPELINE], squares, REDUCE_SUM, "sum of squares");
}

void adam_begin(struct adam *adam, const struct adam_update *update) {
    sum_squares(adam, update, scalar(adam, SCALAR_SQUARES), (struct squared){.buffer = update->grads});
    op_clip_scale(update->device, &(struct op_clip_scale){.scale = scalar(adam, SCALAR_SCALE),
                                                          .norm = scalar(adam, SCALAR_NORM),
                                                          .sum_squares = scalar(adam, SCALAR_SQUARES),
                                                          .max_norm = adam->max_norm,
                                                          .loss_scale = adam->scaler.state,
                                                          .rule = adam->scaler.rule,
                                                          .rate = adam->rate,
                                                          .rates = adam->rates,
                                                          .skipped = scalar(adam, SCALAR_SKIPPED)});
}

void adam_count(struct adam *adam) {
    adam->step++;
}

// The longest stretch of [first, end) that begins at first. Gaps behind parameters belong to them.
static struct stretch find_stretch(const struct adam *adam, const struct param_list *params, int64_t first,
                                   int64_t end) {
    struct stretch stretch = {.first = first, .end = end, .is_decayed = first < params->decayed};
    if (stretch.is_decayed && params->decayed < end)
        stretch.end = params->decayed;
    for (int i = 0; adam->is_decoupled && i < params->count; i++) {
        const struct param *param = params->items[i];
        int64_t after = param_end(param);
        if (!param->is_vocabulary || after <= first)
            continue;
        stretch.is_decoupled = stretch.is_decoupled || param->offset <= first;
        int64_t border = param->offset <= first ? after : param->offset;
        stretch.end = border < stretch.end ? border : stretch.end;
    }
    return stretch;
}

void adam_apply(const struct adam *adam, const struct adam_update *update, int64_t first, int64_t end) {
    while (first < end) {
        struct stretch stretch = find_stretch(adam, update->params, first, end);
        apply_stretch(adam, update, &stretch);
        first = stretch.end;
    }
}

struct tensor adam_grad_norm(const struct adam *adam) {
    return scalar(adam, SCALAR_NORM);
}

double adam_params_norm(const struct adam *adam, const struct adam_update *update) {
    float squares = 0;
    struct tensor sum = scalar(adam, SCALAR_PARAM_SQUARES);
    struct tensor masters = adam_open_masters(adam, update);
    sum_squares(adam, update, sum,
                masters.data ? (struct squared){.buffer = masters, .is_local = true}
                             : (struct squared){.buffer = update->values});
    adam_close_masters(adam, update);
    device_copy_out(update->device, &squares, sum);
    return sqrt((double)squares);
}
