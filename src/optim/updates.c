// Updates, skipped ones among them. See updates.h.
#include "optim/updates.h"
#include "base/error.h"
#include "ops/device.h"
#include "optim/offload.h"

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
