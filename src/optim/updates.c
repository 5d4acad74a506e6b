// The loss scale, clipping, and updates, skipped ones among them. See updates.h.
#include "optim/updates.h"
#include "base/error.h"
#include "ops/device.h"
#include "optim/offload.h"
#include <math.h>

void scaler_build(struct scaler *scaler, struct arena *arena, const struct config *config) {
    *scaler = (struct scaler){0};
    if (!config->run.fp16)
        return;
    bool is_dynamic = !(config->run.loss_scale > 0);
    scaler->initial = is_dynamic ? config->run.initial_loss_scale : config->run.loss_scale;
    scaler->rule = (struct loss_scale_rule){.window = is_dynamic ? config->run.loss_scale_window : 0,
                                            .hysteresis = config->run.hysteresis,
                                            .least = (float)config->run.min_loss_scale};
    scaler->state = arena_1d(arena, DTYPE_F32, LOSS_SCALE_LENGTH);
}

static void set(struct scaler *scaler, struct device *device, const struct scaler_state *state) {
    const float values[LOSS_SCALE_LENGTH] = {[LOSS_SCALE_FACTOR] = (float)state->scale,
                                             [LOSS_SCALE_STEPS] = (float)state->steps,
                                             [LOSS_SCALE_TOLERANCE] = (float)state->overflows_left};
    device_copy_in(device, scaler->state, values);
    device_synchronize(device);
}

void scaler_reset(struct scaler *scaler, struct device *device) {
    if (scaler->state.data)
        set(scaler, device,
            &(struct scaler_state){.scale = scaler->initial, .overflows_left = scaler->rule.hysteresis});
}

struct tensor scaler_scale(const struct scaler *scaler) {
    return scaler->state.data ? tensor_rows(scaler->state, LOSS_SCALE_FACTOR, 1) : (struct tensor){0};
}

void scaler_scale_loss(const struct scaler *scaler, struct device *device, struct tensor weights) {
    if (scaler->state.data && weights.data)
        op_scale(device, &(struct op_scale){.x = tensor_flat(weights), .factor = 1, .by = scaler_scale(scaler)});
}

struct scaler_state scaler_read(const struct scaler *scaler, struct device *device) {
    float values[LOSS_SCALE_LENGTH] = {1, 0, 0};
    if (scaler->state.data)
        device_copy_out(device, values, scaler->state);
    return (struct scaler_state){.scale = (double)values[LOSS_SCALE_FACTOR],
                                 .steps = (int64_t)values[LOSS_SCALE_STEPS],
                                 .overflows_left = (int64_t)values[LOSS_SCALE_TOLERANCE]};
}

void scaler_write(struct scaler *scaler, struct device *device, const struct scaler_state *state) {
    bool has_none = state->scale == 1 && state->steps == 0 && state->overflows_left == 0;
    if (scaler->state.data && scaler->rule.window > 0 && state->scale > 0 && !has_none)
        set(scaler, device, state);
}

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

static void clip_build(struct clip *clip, struct arena *arena, const struct config *config) {
    *clip =
        (struct clip){.scalars = arena_1d(arena, DTYPE_F32, SCALAR_COUNT), .max_norm = (float)config->run.clip_grad};
}

static void clip_reset(struct clip *clip, struct device *device) {
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

static void clip_begin(const struct clip *clip, const struct update *update, const struct clip_options *options) {
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

static int factors_count(const struct param_list *params) {
    return params ? params->factors_count : 0;
}

int64_t updates_rate_count(const struct param_list *params, int groups) {
    return (int64_t)groups * (1 + factors_count(params)) * RATE_LENGTH;
}

void updates_build(struct updates *updates, struct arena *arena, const struct optimizer_options *options, int count) {
    *updates = (struct updates){.count = count, .params = options->params};
    for (int i = 0; i < count; i++)
        optimizer_build(&updates->optimizers[i], arena, &options[i]);
    clip_build(&updates->clip, arena, options->config);
    int64_t length = updates_rate_count(options->params, count);
    updates->rate = arena_1d(arena, DTYPE_F32, length);
    updates->rates = arena_2d(arena, DTYPE_F32, UPDATES_MOST_RATES, length);
    scaler_build(&updates->scaler, arena, options->config);
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = optimizer_hosted_bytes(&updates->optimizers[i]);
        most = bytes > most ? bytes : most;
    }
    if (most > 0)
        updates->slots = offload_take_slots(arena, most);
}

void updates_open(struct updates *updates, struct device *device) {
    if (updates->slots.data)
        updates->offload = offload_open(device, updates->slots);
}

void updates_close(struct updates *updates, struct device *device) {
    offload_close(updates->offload, device);
    updates->offload = NULL;
}

void updates_settle(const struct updates *updates, struct device *device) {
    offload_settle(updates->offload, device);
}

void updates_reset(struct updates *updates, struct device *device) {
    for (int i = 0; i < updates->count; i++)
        optimizer_reset(&updates->optimizers[i], device);
    clip_reset(&updates->clip, device);
    scaler_reset(&updates->scaler, device);
    updates->made = updates->skipped = 0;
}

void updates_make_rates(const struct updates *updates, const struct pace *paces, int count, float *rates) {
    CHECK(count >= 1 && count <= UPDATES_MOST_RATES);
    int kinds = 1 + factors_count(updates->params);
    // Further rows are never chosen; they repeat the last.
    for (int i = 0; i < UPDATES_MOST_RATES; i++) {
        int k = i < count ? i : count - 1;
        int64_t t = updates->made + 1 - k > 1 ? updates->made + 1 - k : 1;
        for (int n = 0; n < 2 * kinds * updates->count; n++, rates += RATE_GROUP) {
            const struct optimizer *optimizer = &updates->optimizers[n / (2 * kinds)];
            double lr = n % 2 ? paces[k].decoupled_lr : paces[k].lr, decay = paces[k].weight_decay;
            int kind = n / 2 % kinds;
            if (kind > 0) {
                lr *= updates->params->factors[kind - 1].lr;
                decay *= updates->params->factors[kind - 1].decay;
            }
            optimizer->rule->begin(optimizer->config, lr * optimizer->lr_multiplier, decay, t, rates);
            rates[RATE_SKIPPED] = (float)(updates->skipped + k);
        }
    }
}

void updates_begin(const struct updates *updates, const struct update *update) {
    clip_begin(&updates->clip, update,
               &(struct clip_options){.optimizers = updates->optimizers,
                                      .scaler = &updates->scaler,
                                      .rate = updates->rate,
                                      .rates = updates->rates});
    offload_begin(updates->offload, update->device);
}

void updates_apply(const struct updates *updates, const struct update *update, int64_t first, int64_t end) {
    struct update scaled = *update;
    scaled.scale = clip_scale(&updates->clip);
    scaled.rate = updates->rate;
    scaled.offload = updates->offload;
    for (int i = 0; i < updates->count; i++)
        optimizer_apply(&updates->optimizers[i], &scaled, first, end);
}

void updates_count(struct updates *updates) {
    updates->made++;
}

void updates_learn(struct updates *updates, bool is_skipped) {
    updates->made -= is_skipped;
    updates->skipped += is_skipped;
}

bool updates_have_masters(const struct updates *updates) {
    return updates->optimizers[0].master.data != NULL;
}

void updates_open_masters(const struct updates *updates, const struct update *update,
                          struct tensor masters[PARAM_MOST_GROUPS]) {
    for (int i = 0; i < updates->count; i++)
        masters[i] = optimizer_open_masters(&updates->optimizers[i], update);
}

void updates_close_masters(const struct updates *updates, const struct update *update) {
    for (int i = 0; i < updates->count; i++)
        optimizer_close_masters(&updates->optimizers[i], update);
}

void updates_take_weights(const struct updates *updates, const struct update *update) {
    for (int i = 0; i < updates->count; i++)
        optimizer_take_weights(&updates->optimizers[i], update);
}

bool updates_have_averages(const struct updates *updates) {
    return updates->optimizers[0].average.data != NULL;
}

void updates_begin_averages(const struct updates *updates, const struct update *update) {
    for (int i = 0; i < updates->count; i++)
        optimizer_begin_average(&updates->optimizers[i], update);
}

void updates_exchange_averages(const struct updates *updates, const struct update *update) {
    for (int i = 0; i < updates->count; i++)
        optimizer_exchange_average(&updates->optimizers[i], update);
}
