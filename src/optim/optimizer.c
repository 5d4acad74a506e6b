// The table of optimizers, and what they have in common. See optimizer.h.
#include "optim/optimizer.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "optim/offload.h"

#include <stdlib.h>
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

// Number of states of a run: the rule's and, with --ema-decay, OPTIMIZER_AVERAGE.
static int optimizer_state_count(const struct optimizer_rule *rule, const struct config *config) {
    return count_of_rule(rule) + (config->run.ema_decay > 0);
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

// ---- states in host memory ----

static enum dtype master_dtype(const struct optimizer_options *options) {
    return options->dtype == DTYPE_BF16 ? DTYPE_I16 : DTYPE_F32;
}

// Bit mask of the states in host memory; the master's bit follows those of states. Whole states, the last first, then
// the master, until they are at least the requested fraction of all bytes.
static unsigned choose_hosted(const struct optimizer_options *options, int states) {
    const struct config *config = options->config;
    if (!options->host)
        return 0;
    double bytes[OPTIMIZER_MOST_STATES + 1] = {0}, all = 0, chosen = 0;
    for (int i = 0; i < states; i++)
        all += bytes[i] = (double)dtype_bytes(state_dtype(options->rule, config, i));
    if (options->dtype != DTYPE_F32)
        all += bytes[OPTIMIZER_MOST_STATES] = (double)dtype_bytes(master_dtype(options));
    unsigned hosted = 0;
    for (int n = 0; n <= OPTIMIZER_MOST_STATES; n++) {
        int i = n < OPTIMIZER_MOST_STATES ? OPTIMIZER_MOST_STATES - 1 - n : n;
        if (bytes[i] == 0 || chosen >= config->run.optimizer_offload_fraction * all)
            continue;
        hosted |= 1u << i;
        chosen += bytes[i];
    }
    return hosted;
}

// Elements of this rank's slice of the largest matrix of a group.
static int64_t largest_matrix(const struct optimizer_options *options) {
    int64_t largest = 0;
    for (int i = 0; i < options->params->count; i++) {
        const struct shard *shard = &options->params->items[i]->shard;
        int64_t count =
            shard_local_size(shard, shard->rank - 1) * (shard->rank > 1 ? shard_local_size(shard, shard->rank - 2) : 1);
        if (options->params->items[i]->group == options->group && count > largest)
            largest = count;
    }
    return largest;
}

// With Adam's states in fp32, 4 Mi elements are 32 MiB, which take more than half a millisecond on the fastest bus, so
// the cost of launching copies is negligible. Eight matrices of 2048 x 2048 keep a GPU busy.
static int64_t hosted_piece(const struct optimizer_options *options, int64_t count) {
    bool takes_matrices = options->rule->takes_matrices;
    int64_t usual = (int64_t)(takes_matrices ? 32 : 4) << 20, whole = shared_exponents(count) * MOMENT8_SHARE;
    int64_t piece = options->hosted_piece > 0 ? options->hosted_piece : usual;
    CHECK(piece % MOMENT8_SHARE == 0);
    piece = piece < whole || whole == 0 ? piece : whole;
    int64_t least = takes_matrices ? largest_matrix(options) : 0;
    return piece > least ? piece : least;
}

size_t optimizer_hosted_bytes(const struct optimizer *optimizer) {
    size_t bytes = 0;
    int64_t piece = optimizer->hosted_piece;
    // Each begins at a multiple of ARENA_ALIGNMENT, which is at least the size of an element.
    if (piece > 0 && optimizer->rule->takes_matrices)
        piece += OPTIMIZER_MOST_TOGETHER * ARENA_ALIGNMENT;
    for (int i = 0; i < optimizer->state_count; i++) {
        const struct optimizer_state *state = &optimizer->states[i];
        if (state->is_hosted)
            bytes += offload_bytes(state->tensor.dtype, piece);
        if (state->is_hosted && state->exponents.data)
            bytes += offload_bytes(DTYPE_U8, shared_exponents(piece));
    }
    return bytes + (optimizer->has_hosted_master ? offload_bytes(optimizer->master.dtype, piece) : 0);
}

void optimizer_build(struct optimizer *optimizer, struct arena *arena, const struct optimizer_options *options) {
    const struct optimizer_rule *rule = options->rule;
    *optimizer = (struct optimizer){.rule = rule,
                                    .config = options->config,
                                    .group = options->group,
                                    .lr_multiplier = options->lr_multiplier,
                                    .pieces = options->pieces};
    int64_t count = pieces_local_count(&options->pieces);
    optimizer->state_count = optimizer_state_count(rule, options->config);
    unsigned hosted = choose_hosted(options, optimizer->state_count);
    optimizer->has_hosted_master = hosted & 1u << OPTIMIZER_MOST_STATES;
    if (options->dtype != DTYPE_F32)
        optimizer->master =
            arena_1d(optimizer->has_hosted_master ? options->host : arena, master_dtype(options), count);
    int own = count_of_rule(rule);
    for (int i = 0; i < optimizer->state_count; i++) {
        enum dtype dtype = state_dtype(rule, options->config, i);
        bool is_hosted = hosted & 1u << i;
        struct arena *memory = is_hosted ? options->host : arena;
        optimizer->states[i] = (struct optimizer_state){.name = i < own ? rule->states[i] : OPTIMIZER_AVERAGE,
                                                        .tensor = arena_1d(memory, dtype, count),
                                                        .kind = kind_of(i),
                                                        .is_hosted = is_hosted};
        if (dtype == DTYPE_U8)
            optimizer->states[i].exponents = arena_1d(memory, DTYPE_U8, shared_exponents(count));
    }
    if (hosted)
        optimizer->hosted_piece = hosted_piece(options, count);
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

// Iterates over this rank's runs in the whole group.
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

// A range of the flat buffers whose parameters are all updated in the same way.
struct stretch {
    int64_t end;
    const struct param *matrix;
    bool is_decayed, is_decoupled;
    int factors;  // see struct param
};

// Appends the tensors in host memory.
static int list_hosted(struct optimizer_run *run, struct tensor **visitors) {
    const struct optimizer *optimizer = run->optimizer;
    int count = 0;
    for (int i = 0; i < optimizer->state_count; i++) {
        if (!optimizer->states[i].is_hosted)
            continue;
        visitors[count++] = &run->states[i];
        if (run->exponents[i].data)
            visitors[count++] = &run->exponents[i];
    }
    if (optimizer->has_hosted_master)
        visitors[count++] = &run->master;
    return count;
}

void optimizer_bring(struct optimizer_run *const *runs, int64_t count) {
    struct tensor *visitors[OFFLOAD_MOST_TENSORS];
    int visiting = 0;
    CHECK(count > 0 && count <= OPTIMIZER_MOST_TOGETHER);
    if (!runs[0]->offload)
        return;
    for (int64_t i = 0; i < count; i++)
        visiting += list_hosted(runs[i], visitors + visiting);
    offload_bring(runs[0]->offload, runs[0]->device, visitors, visiting);
}

// Ranks with the other slices of a matrix. Ranks that share out experts have other matrices of the same tensor.
static struct group *slices_of(const struct optimizer *optimizer, const struct update *update,
                               const struct param *matrix) {
    bool is_apart = matrix && matrix->shard.rank == 3 && mesh_deals_experts(update->mesh);
    return mesh_group(update->mesh, is_apart ? MESH_EXPERT_SLICES : update->params->groups[optimizer->group].slices);
}

static struct group *replicas_of(const struct optimizer *optimizer, const struct update *update) {
    return optimizer->pieces.parts > 1 ? NULL
                                       : mesh_group(update->mesh, update->params->groups[optimizer->group].replicas);
}

// The group is NULL if the mesh is not connected.
static bool has_several(const struct group *group) {
    return group && group_size(group) > 1;
}

bool optimizer_has_sharers(const struct optimizer_run *run) {
    return has_several(run->slices);
}

bool optimizer_shares_matrices(const struct optimizer *optimizer, const struct update *update) {
    bool shares = false;
    for (int i = 0; optimizer->rule->takes_matrices && i < update->params->count; i++)
        shares = shares || (update->params->items[i]->group == optimizer->group &&
                            has_several(slices_of(optimizer, update, update->params->items[i])));
    return shares;
}

static struct tensor rate_of(const struct optimizer *optimizer, const struct update *update,
                             const struct stretch *stretch) {
    int64_t kind = (int64_t)optimizer->group * (1 + update->params->factors_count) + stretch->factors;
    return tensor_rows(update->rate, kind * RATE_LENGTH + (stretch->is_decoupled ? RATE_GROUP : 0), RATE_GROUP);
}

static struct optimizer_run make_run(const struct optimizer *optimizer, const struct update *update, struct piece piece,
                                     const struct stretch *stretch) {
    bool is_mixed = optimizer->master.data != NULL;
    struct tensor values = tensor_rows(update->values, piece.flat_offset, piece.count);
    struct optimizer_run run = {.device = update->device,
                                .master =
                                    is_mixed ? tensor_rows(optimizer->master, piece.local_offset, piece.count) : values,
                                .copy = is_mixed ? values : (struct tensor){0},
                                .grad = tensor_rows(update->grads, piece.flat_offset, piece.count),
                                .scale = update->scale,
                                .rate = rate_of(optimizer, update, stretch),
                                .matrix = stretch->matrix,
                                .slices = slices_of(optimizer, update, stretch->matrix),
                                .replicas = replicas_of(optimizer, update),
                                .scratch = update->scratch,
                                .is_decayed = stretch->is_decayed,
                                .optimizer = optimizer,
                                .offload = optimizer->hosted_piece > 0 ? update->offload : NULL};
    for (int i = 0; i < optimizer->state_count; i++) {
        run.states[i] = tensor_rows(optimizer->states[i].tensor, piece.local_offset, piece.count);
        if (optimizer->states[i].exponents.data)
            run.exponents[i] = optimizer_exponents(&optimizer->states[i], piece.local_offset, piece.count);
    }
    return run;
}

void optimizer_return(struct optimizer_run *const *runs, int64_t count) {
    const struct optimizer *optimizer = runs[0]->optimizer;
    for (int64_t i = 0; optimizer->average.data && i < count; i++)
        op_average(runs[i]->device, &(struct op_average){.average = runs[i]->states[optimizer->state_count - 1],
                                                         .master = runs[i]->master,
                                                         .copy = runs[i]->copy,
                                                         .scale = runs[i]->scale,
                                                         .decay = (float)optimizer->config->run.ema_decay});
    if (runs[0]->offload)
        offload_return(runs[0]->offload, runs[0]->device);
}

static void apply_run(const struct optimizer *optimizer, const struct update *update, struct piece piece,
                      const struct stretch *stretch) {
    struct optimizer_run run = make_run(optimizer, update, piece, stretch), *only = &run;
    optimizer_bring(&only, 1);
    optimizer->rule->apply(optimizer->config, &run);
    optimizer_return(&only, 1);
}

// Applies the update; in pieces that visit the device, if states are in host memory.
static void apply_pieces(const struct optimizer *optimizer, const struct update *update, struct piece piece,
                         const struct stretch *stretch) {
    int64_t most = optimizer->hosted_piece > 0 ? optimizer->hosted_piece : piece.count;
    for (int64_t done = 0; done < piece.count; done += most) {
        int64_t count = piece.count - done < most ? piece.count - done : most;
        apply_run(optimizer, update, (struct piece){piece.flat_offset + done, piece.local_offset + done, count},
                  stretch);
    }
}

// How a parameter is updated.
static struct stretch stretch_of(const struct optimizer *optimizer, const struct param_list *params,
                                 const struct param *param) {
    return (struct stretch){.end = param_end(param),
                            .matrix = param,
                            .is_decayed = param_factors(params, param).decay > 0,
                            .is_decoupled = param->is_vocabulary && optimizer->config->run.decoupled_lr > 0,
                            .factors = param->factors};
}

static bool are_alike(const struct stretch *a, const struct stretch *b) {
    return a->is_decayed == b->is_decayed && a->is_decoupled == b->is_decoupled && a->factors == b->factors;
}

// The longest stretch in [first, end) that begins at first. The gap after a parameter belongs to it.
static struct stretch find_stretch(const struct optimizer *optimizer, const struct param_list *params, int64_t first,
                                   int64_t end) {
    int64_t decayed = params->groups[optimizer->group].decayed;
    struct stretch stretch = {.end = end, .is_decayed = first < decayed};
    if (stretch.is_decayed && decayed < end)
        stretch.end = decayed;
    bool has_others = optimizer->config->run.decoupled_lr > 0 || params->factors_count > 0;
    int at = has_others ? param_list_beyond(params, first) : params->count;
    if (at == params->count)
        return stretch;
    stretch = stretch_of(optimizer, params, params->ordered[at]);
    stretch.matrix = NULL;
    stretch.end = end;
    for (at++; at < params->count && params->ordered[at]->offset < stretch.end; at++) {
        struct stretch next = stretch_of(optimizer, params, params->ordered[at]);
        if (!are_alike(&stretch, &next))
            stretch.end = params->ordered[at]->offset;
    }
    return stretch;
}

// Updates the parameters that begin in [first, end), each a run.
static void apply_matrices(const struct optimizer *optimizer, const struct update *update, int64_t first, int64_t end) {
    struct optimizer_run *runs = memory_alloc(sizeof *runs * (size_t)(update->params->count + 1));
    int64_t count = 0;
    for (int i = 0; i < update->params->count; i++) {
        const struct param *param = update->params->items[i];
        int64_t at = param->offset, after = at + shard_local_count(&param->shard);
        struct piece run;
        bool is_here = param->group == optimizer->group && at >= first && at < end;
        if (!is_here || !pieces_next(&optimizer->pieces, &at, after, &run))
            continue;
        CHECK(run.count == shard_local_count(&param->shard));
        struct stretch stretch = stretch_of(optimizer, update->params, param);
        runs[count++] = make_run(optimizer, update, run, &stretch);
    }
    optimizer->rule->apply_all(optimizer->config, runs, count);
    free(runs);
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
            apply_pieces(optimizer, update, run, &stretch);
        first = stretch.end;
    }
}
