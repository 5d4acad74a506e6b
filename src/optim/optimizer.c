// The table of optimizers, and what they have in common. See optimizer.h.
#include "optim/optimizer.h"
#include "base/error.h"
#include "ops/device.h"

#include <string.h>

static const struct optimizer_rule *const rules[] = {&optimizer_adam, &optimizer_sgd, &optimizer_lion, &optimizer_muon,
                                                     &optimizer_adaptive_muon};

const struct optimizer_rule *optimizer_find(const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strcmp(rules[i]->name, name) == 0)
            return rules[i];
    die("no optimizer is called %s", name);
}

static int count_of_rule(const struct optimizer_rule *rule) {
    int count = 0;
    while (count < OPTIMIZER_MOST_STATES - 1 && rule->states[count])
        count++;
    return count;
}

int optimizer_state_count(const struct optimizer_rule *rule, const struct config *config) {
    return count_of_rule(rule) + (config->ema_decay > 0);
}

static enum dtype state_dtype(const struct optimizer_rule *rule, const struct config *config, int state) {
    return rule->dtype && state < count_of_rule(rule) ? rule->dtype(config, state) : DTYPE_F32;
}

double optimizer_state_bytes(const struct optimizer_rule *rule, const struct config *config) {
    double bytes = 0;
    for (int i = 0; i < optimizer_state_count(rule, config); i++) {
        enum dtype dtype = state_dtype(rule, config, i);
        bytes += (double)dtype_bytes(dtype) + (dtype == DTYPE_U8 ? 1.0 / MOMENT8_SHARE : 0);
    }
    return bytes;
}

static enum moment8_kind kind_of(int state) {
    return state == 1 ? MOMENT8_SECOND : MOMENT8_FIRST;
}

double optimizer_saved_bytes(const struct optimizer_rule *rule, const struct config *config) {
    double bytes = 0;
    for (int i = 0; i < optimizer_state_count(rule, config); i++) {
        enum dtype dtype = state_dtype(rule, config, i);
        bytes += (double)dtype_bytes(dtype == DTYPE_U8 ? moment8_exact_dtype(kind_of(i)) : dtype);
    }
    return bytes;
}

static int64_t shared_exponents(int64_t count) {
    return (count + MOMENT8_SHARE - 1) / MOMENT8_SHARE;
}

struct tensor optimizer_exponents(const struct optimizer_state *state, int64_t first, int64_t count) {
    CHECK(first % MOMENT8_SHARE == 0);
    return tensor_rows(state->exponents, first / MOMENT8_SHARE, shared_exponents(count));
}

void optimizer_build(struct optimizer *optimizer, struct arena *arena, const struct optimizer_options *options) {
    const struct optimizer_rule *rule = options->rule;
    *optimizer = (struct optimizer){.rule = rule,
                                    .config = options->config,
                                    .group = options->group,
                                    .lr_multiplier = options->lr_multiplier,
                                    .pieces = options->pieces};
    int64_t count = pieces_local_count(&options->pieces);
    if (options->dtype != DTYPE_F32)
        optimizer->master = arena_1d(arena, options->dtype == DTYPE_BF16 ? DTYPE_I16 : DTYPE_F32, count);
    int own = count_of_rule(rule);
    optimizer->state_count = optimizer_state_count(rule, options->config);
    for (int i = 0; i < optimizer->state_count; i++) {
        enum dtype dtype = state_dtype(rule, options->config, i);
        optimizer->states[i] = (struct optimizer_state){.name = i < own ? rule->states[i] : OPTIMIZER_AVERAGE,
                                                        .tensor = arena_1d(arena, dtype, count),
                                                        .kind = kind_of(i)};
        if (dtype == DTYPE_U8)
            optimizer->states[i].exponents = arena_1d(arena, DTYPE_U8, shared_exponents(count));
    }
    if (optimizer->state_count > own)
        optimizer->average = optimizer->states[own].tensor;
}

void optimizer_reset(struct optimizer *optimizer, struct device *device) {
    for (int i = 0; i < optimizer->state_count; i++) {
        device_zero(device, optimizer->states[i].tensor);
        if (optimizer->states[i].exponents.data)
            device_zero(device, optimizer->states[i].exponents);
    }
    if (optimizer->master.data)
        device_zero(device, optimizer->master);
}

// ---- master copies ----

static bool is_in_halves(const struct optimizer *optimizer) {
    return optimizer->master.data && optimizer->master.dtype == DTYPE_I16;
}

// The group's range of a flat buffer.
static struct tensor range_of(const struct optimizer *optimizer, struct tensor flat) {
    return tensor_rows(flat, optimizer->pieces.first, optimizer->pieces.total);
}

// This rank's runs in all of the group.
static bool next_run(const struct optimizer *optimizer, int64_t *at, struct piece *run) {
    return pieces_next(&optimizer->pieces, at, optimizer->pieces.first + optimizer->pieces.total, run);
}

struct tensor optimizer_open_masters(const struct optimizer *optimizer, const struct update *update) {
    if (!is_in_halves(optimizer))
        return optimizer->master;
    struct tensor masters = tensor_rows(range_of(optimizer, update->grads), 0, tensor_count(optimizer->master));
    struct piece run;
    for (int64_t at = optimizer->pieces.first; next_run(optimizer, &at, &run);)
        op_merge(update->device,
                 &(struct op_merge){.x = tensor_rows(masters, run.local_offset, run.count),
                                    .value = tensor_rows(update->values, run.flat_offset, run.count),
                                    .rest = tensor_rows(optimizer->master, run.local_offset, run.count)});
    return masters;
}

void optimizer_close_masters(const struct optimizer *optimizer, const struct update *update) {
    if (is_in_halves(optimizer))
        device_zero(update->device, range_of(optimizer, update->grads));
}

void optimizer_take_weights(const struct optimizer *optimizer, const struct update *update) {
    struct piece run;
    op_copy(update->device,
            &(struct op_copy){.dst = range_of(optimizer, update->values), .src = range_of(optimizer, update->grads)});
    for (int64_t at = optimizer->pieces.first; next_run(optimizer, &at, &run);) {
        struct tensor weights = tensor_rows(update->grads, run.flat_offset, run.count);
        struct tensor masters = tensor_rows(optimizer->master, run.local_offset, run.count);
        if (is_in_halves(optimizer))
            op_split(update->device,
                     &(struct op_split){.value = tensor_rows(update->values, run.flat_offset, run.count),
                                        .rest = masters,
                                        .x = weights});
        else
            op_copy(update->device, &(struct op_copy){.dst = masters, .src = weights});
    }
    device_zero(update->device, range_of(optimizer, update->grads));
}

// ---- moving averages ----

void optimizer_begin_average(const struct optimizer *optimizer, const struct update *update) {
    struct piece run;
    for (int64_t at = optimizer->pieces.first; optimizer->average.data && next_run(optimizer, &at, &run);) {
        struct tensor average = tensor_rows(optimizer->average, run.local_offset, run.count);
        struct tensor values = tensor_rows(update->values, run.flat_offset, run.count);
        if (!optimizer->master.data) {
            op_copy(update->device, &(struct op_copy){.dst = average, .src = values});
            continue;
        }
        struct tensor master = tensor_rows(optimizer->master, run.local_offset, run.count);
        if (is_in_halves(optimizer))
            op_merge(update->device, &(struct op_merge){.x = average, .value = values, .rest = master});
        else
            op_copy(update->device, &(struct op_copy){.dst = average, .src = master});
    }
}

void optimizer_exchange_average(const struct optimizer *optimizer, const struct update *update) {
    struct device *device = update->device;
    struct piece run;
    if (!optimizer->average.data)
        return;
    for (int64_t at = optimizer->pieces.first; next_run(optimizer, &at, &run);) {
        struct tensor average = tensor_rows(optimizer->average, run.local_offset, run.count);
        struct tensor values = tensor_rows(update->values, run.flat_offset, run.count);
        struct tensor kept = tensor_rows(update->grads, run.flat_offset, run.count);
        struct tensor master = values;
        if (optimizer->master.data)
            master = tensor_rows(optimizer->master, run.local_offset, run.count);
        if (is_in_halves(optimizer)) {
            op_merge(device, &(struct op_merge){.x = kept, .value = values, .rest = master});
            op_split(device, &(struct op_split){.value = values, .rest = master, .x = average});
        } else {
            op_copy(device, &(struct op_copy){.dst = kept, .src = master});
            op_copy(device, &(struct op_copy){.dst = master, .src = average});
            if (optimizer->master.data)
                op_copy(device, &(struct op_copy){.dst = values, .src = average});
        }
        op_copy(device, &(struct op_copy){.dst = average, .src = kept});
    }
    device_zero(device, range_of(optimizer, update->grads));
}

// ---- updates ----

// A stretch of the flat buffers whose parameters are all updated alike.
struct stretch {
    int64_t end;
    const struct param *matrix;
    bool is_decayed, is_decoupled;
};

static void apply_run(const struct optimizer *optimizer, const struct update *update, struct piece piece,
                      const struct stretch *stretch) {
    bool is_mixed = optimizer->master.data != NULL;
    struct tensor values = tensor_rows(update->values, piece.flat_offset, piece.count);
    struct optimizer_run run = {
        .device = update->device,
        .master = is_mixed ? tensor_rows(optimizer->master, piece.local_offset, piece.count) : values,
        .copy = is_mixed ? values : (struct tensor){0},
        .grad = tensor_rows(update->grads, piece.flat_offset, piece.count),
        .scale = update->scale,
        .rate = tensor_rows(update->rate, optimizer->group * RATE_LENGTH + (stretch->is_decoupled ? RATE_GROUP : 0),
                            RATE_GROUP),
        .matrix = stretch->matrix,
        .slices = mesh_group(update->mesh, update->params->groups[optimizer->group].slices),
        .scratch = update->scratch,
        .is_decayed = stretch->is_decayed};
    for (int i = 0; i < optimizer->state_count; i++) {
        run.states[i] = tensor_rows(optimizer->states[i].tensor, piece.local_offset, piece.count);
        if (optimizer->states[i].exponents.data)
            run.exponents[i] = optimizer_exponents(&optimizer->states[i], piece.local_offset, piece.count);
    }
    optimizer->rule->apply(optimizer->config, &run);
    if (optimizer->average.data)
        op_average(run.device,
                   &(struct op_average){.average = tensor_rows(optimizer->average, piece.local_offset, piece.count),
                                        .master = run.master,
                                        .copy = run.copy,
                                        .scale = run.scale,
                                        .decay = (float)optimizer->config->ema_decay});
}

// The longest stretch of [first, end) that begins at first. Gaps behind parameters belong to them.
static struct stretch find_stretch(const struct optimizer *optimizer, const struct param_list *params, int64_t first,
                                   int64_t end) {
    int64_t decayed = params->groups[optimizer->group].decayed;
    struct stretch stretch = {.end = end, .is_decayed = first < decayed};
    if (stretch.is_decayed && decayed < end)
        stretch.end = decayed;
    for (int i = 0; optimizer->config->decoupled_lr > 0 && i < params->count; i++) {
        const struct param *param = params->items[i];
        int64_t after = param_end(param);
        if (!param->is_vocabulary || param->group != optimizer->group || after <= first)
            continue;
        stretch.is_decoupled = stretch.is_decoupled || param->offset <= first;
        int64_t border = param->offset <= first ? after : param->offset;
        stretch.end = border < stretch.end ? border : stretch.end;
    }
    return stretch;
}

// The parameters that begin in [first, end), one by one.
static void apply_matrices(const struct optimizer *optimizer, const struct update *update, int64_t first, int64_t end) {
    for (int i = 0; i < update->params->count; i++) {
        const struct param *param = update->params->items[i];
        int64_t at = param->offset, after = at + shard_local_count(&param->shard);
        struct piece run;
        bool is_here = param->group == optimizer->group && at >= first && at < end;
        if (!is_here || !pieces_next(&optimizer->pieces, &at, after, &run))
            continue;
        CHECK(run.count == shard_local_count(&param->shard));
        apply_run(optimizer, update, run,
                  &(struct stretch){.matrix = param,
                                    .is_decayed = param->has_decay,
                                    .is_decoupled = param->is_vocabulary && optimizer->config->decoupled_lr > 0});
    }
}

void optimizer_apply(const struct optimizer *optimizer, const struct update *update, int64_t first, int64_t end) {
    const struct pieces *pieces = &optimizer->pieces;
    first = first > pieces->first ? first : pieces->first;
    end = end < pieces->first + pieces->total ? end : pieces->first + pieces->total;
    if (optimizer->rule->takes_matrices) {
        apply_matrices(optimizer, update, first, end);
        return;
    }
    while (first < end) {
        struct stretch stretch = find_stretch(optimizer, update->params, first, end);
        struct piece run;
        for (int64_t at = first; pieces_next(pieces, &at, stretch.end, &run);)
            apply_run(optimizer, update, run, &stretch);
        first = stretch.end;
    }
}
