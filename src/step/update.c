// The work of a step before and after its passes: clearing sums and gradients; reduction, the optimizer and the new
// parameters; and initial weights. If the optimizer is split, a rank has it only for its own pieces of the flat
// buffers, see parallel/pieces.h.
#include "step/internal.h"
#include "base/memory.h"
#include "model/init.h"
#include "step/pipeline.h"
#include "step/spans.h"

#include <stdlib.h>

// Buckets are long enough that latency does not matter and, with many ranks, that a rank's piece is worth sending. If
// they are sent during a pass, there must be several, because the first and the last one cannot be hidden.
static int64_t bucket_elements(const struct step_options *options, int64_t total, int replicas) {
    const int64_t usual = (int64_t)8 << 20, usual_piece = (int64_t)256 << 10, least = (int64_t)64 << 10;
    if (options->bucket_elements > 0)
        return options->bucket_elements;
    if (options->bucket_count > 0)
        return (total + options->bucket_count - 1) / options->bucket_count;
    int64_t bucket = usual > usual_piece * replicas ? usual : usual_piece * replicas;
    int64_t several = total / 16 > least ? total / 16 : least;
    return options->overlaps_reduction && several < bucket ? several : bucket;
}

const struct optimizer_rule *step_rule(const struct step *step, int group) {
    const char *own = step->params.groups[group].optimizer;
    return own ? optimizer_find(own) : step->options.optimizer.rule;
}

// Whether a parameter is a matrix between activations, or several, for optimizers that take nothing else. Tables are
// not: their gradients are of single rows.
static bool is_matrix(const struct param *param) {
    return param->shard.rank >= 2 && param->has_decay && !param->is_vocabulary && !param->is_table;
}

static void move_params(struct param_list *params, int from, int to, bool are_matrices) {
    for (int i = 0; i < params->count; i++)
        if (params->items[i]->group == from && is_matrix(params->items[i]) == are_matrices)
            params->items[i]->group = to;
}

static void leave_rest(struct step *step) {
    struct param_list *params = &step->params;
    const char *optimizer = step->options.optimizer.config->run.muon_scalar_optimizer;
    struct param_group matrices = *param_list_usual(params);
    int declared = params->group_count;
    matrices.name = "matrices";
    move_params(params, 0, param_list_group(params, &matrices), true);
    params->groups[0].optimizer = optimizer;
    for (int i = 1; i < declared; i++) {
        struct param_group rest = params->groups[i];
        if (!rest.rest)
            continue;
        rest.name = rest.rest;
        int group = param_list_group(params, &rest);
        params->groups[group].optimizer = optimizer;
        move_params(params, i, group, false);
    }
}

void step_divide_optimizer(struct step *step) {
    const struct step_options *options = &step->options;
    const struct mesh *mesh = &step->mesh;
    bool is_training = step->mode == STEP_TRAIN, is_divided = is_training && options->divides_optimizer;
    struct division divisions[PARAM_MOST_GROUPS];
    struct pieces pieces[PARAM_MOST_GROUPS];
    if (is_training && options->optimizer.rule->leaves_rest)
        leave_rest(step);
    param_list_layout(&step->params);
    for (int i = 0; i < step->params.group_count; i++) {
        const struct param_group *group = &step->params.groups[i];
        int replicas = mesh_count(mesh, group->replicas), parts = is_divided ? replicas : 1;
        int64_t multiple = pieces_multiple(parts),
                total = (group->end - group->first + multiple - 1) / multiple * multiple;
        divisions[i] = (struct division){.parts = parts,
                                         .part = is_divided ? mesh_index(mesh, mesh->place, group->replicas) : 0,
                                         .bucket = total > 0 ? bucket_elements(options, total, replicas) : 1,
                                         .keeps_whole = step_rule(step, i)->takes_matrices};
    }
    pieces_divide(&step->params, divisions, pieces);
    reducer_open(&step->reducer, &step->params,
                 &(struct reducer_options){.mesh = is_training ? mesh : NULL,
                                           .pieces = pieces,
                                           .overlaps_reduction = options->overlaps_reduction,
                                           .overlaps_gather = options->overlaps_gather,
                                           .is_rounded = options->rounds_sums});
    // Otherwise nothing waits for a part of the update.
    if (reducer_is_divided(&step->reducer))
        step->options.schedule.buckets = (int)reducer_bucket_count(&step->reducer);
}

struct tensor step_weights_target(struct step *step) {
    step_settle(step);
    return step->mode == STEP_TRAIN && updates_have_masters(&step->updates) ? step->grads : step->values;
}

static struct update update_of(const struct step *step) {
    return (struct update){.device = step->device,
                           .mesh = &step->mesh,
                           .params = &step->params,
                           .values = step->values,
                           .grads = step->grads};
}

void step_accept_weights(struct step *step) {
    const struct update update = update_of(step);
    if (step->mode == STEP_TRAIN && updates_have_masters(&step->updates))
        updates_take_weights(&step->updates, &update);
    if (step->mode == STEP_TRAIN)
        updates_begin_averages(&step->updates, &update);
}

void step_exchange_averages(struct step *step) {
    const struct update update = update_of(step);
    CHECK(step->mode == STEP_TRAIN && updates_have_averages(&step->updates));
    step_settle(step);
    updates_exchange_averages(&step->updates, &update);
    for (int64_t i = 0; i < reducer_bucket_count(&step->reducer); i++)
        reducer_gather(&step->reducer, i);
    step_settle(step);
}

void step_open_masters(struct step *step, struct tensor masters[PARAM_MOST_GROUPS]) {
    const struct update update = update_of(step);
    step_settle(step);
    updates_open_masters(&step->updates, &update, masters);
}

void step_close_masters(struct step *step) {
    const struct update update = update_of(step);
    updates_close_masters(&step->updates, &update);
}

void step_reset_optimizer(struct step *step) {
    step_settle(step);
    if (step->mode == STEP_TRAIN)
        updates_reset(&step->updates, step->device);
}

void step_draw_weights(struct step *step) {
    struct tensor target = step_weights_target(step);
    init_params(step->device, &step->params, target.data == step->values.data ? (struct tensor){0} : target,
                step->options.seed);
}

void step_initialize(struct step *step) {
    if (step->expert_bias.data)
        device_zero(step->device, step->expert_bias);
    if (step->expert_load.data)
        device_zero(step->device, step->expert_load);
    step_reset_optimizer(step);
    step_draw_weights(step);
    step_accept_weights(step);
}

// The gradients that no matmul overwrites: those of parameters without weight decay, and of lookup tables.
static void clear_gradients(struct step *step) {
    for (int i = 0; i < step->params.group_count; i++) {
        const struct param_group *group = &step->params.groups[i];
        device_zero(step->device, tensor_rows(step->grads, group->decayed, group->end - group->decayed));
    }
    for (int i = 0; i < step->chunk_count; i++)
        model_clear_tables(&step->chunks[i].model, step->device);
}

void step_begin(struct step *step, bool is_learning) {
    device_zero(step->device, step->totals);
    if (!is_learning)
        return;
    if (step->reducer.squares.data)
        device_zero(step->device, step->reducer.squares);
    clear_gradients(step);
    for (int i = 0; i < step->chunk_count; i++)
        fp8_begin_step(&step->chunks[i].model.fp8, step->device);
    for (int i = 0; i < step->chunk_count; i++)
        qk_clip_begin_step(&step->chunks[i].model.qk_clip, step->device);
}

bool step_is_alone(const struct step *step) {
    bool is_alone = step->chunk_count == 1;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        is_alone = is_alone && step->mesh.length[axis] == 1;
    return is_alone;
}

// If the residual stream is split, each rank has the gradients of its own rows for parameters that are applied along
// it.
static void sum_stream_gradients(struct step *step) {
    for (int i = 0; i < step->params.group_count; i++) {
        const struct param_group *group = &step->params.groups[i];
        int64_t first = group->summed_first, count = group->summed_end - first;
        if (count > 0)
            comm_all_reduce(mesh_group(&step->mesh, group->slices), tensor_rows(step->grads, first, count), REDUCE_SUM,
                            "stream gradients");
    }
    for (int i = 0; i < step->shared_count; i++) {
        const struct param *param = step->shared[i].param;
        if (param && param->is_copy && param->sums_gradient)
            comm_all_reduce(mesh_group(&step->mesh, step->params.groups[param->group].slices), param->grad, REDUCE_SUM,
                            "stream gradients");
    }
}

void step_reduce_gradients(struct step *step) {
    struct step_span span = span_begin(step, "sum shared gradients");
    shared_sum_gradients(step);
    span_end_part(step, span, STEP_TAG_SHARED_GRADIENTS);
    span = span_begin(step, "sum stream gradients");
    sum_stream_gradients(step);
    span_end_part(step, span, STEP_TAG_STREAM_GRADIENTS);
    reducer_sum(&step->reducer);
}

void step_sum_totals(struct step *step) {
    if (step->mesh.size > 1)
        op_copy(step->device,
                &(struct op_copy){.dst = tensor_rows(step->own, OWN_LOSS, 1), .src = step_total(step, TOTAL_LOSS)});
    comm_all_reduce(step->mesh.replicas, step->totals, REDUCE_SUM, "loss");
    // Every stage has routers, and each rank that splits the stream has routed its own rows: their losses and counts
    // follow each other.
    int first = step->total_first[TOTAL_BALANCE], after = step->total_first[TOTAL_GLOBAL_ROWS + 1];
    struct tensor routers = tensor_rows(step->totals, first, after - first);
    if (step_balances(step) > 0 && step->chunks[0].model.choices.splits_rows)
        comm_all_reduce(step->mesh.group[AXIS_TENSOR], routers, REDUCE_SUM, "totals of routers");
    if (step_balances(step) > 0)
        comm_all_reduce(step->mesh.group[AXIS_PIPELINE], routers, REDUCE_SUM, "totals of routers");
    // Only the last stage has the other totals.
    comm_broadcast(step->mesh.group[AXIS_PIPELINE], step->totals, step->mesh.length[AXIS_PIPELINE] - 1, "loss");
}

// Every rank has the counts of all layers now, and updates the whole bias and load in the same way.
void step_balance_experts(struct step *step) {
    const struct expert_choices *experts = &step->chunks[0].model.choices.experts;
    int64_t layers = step->options.expert_layers;
    if (step->expert_bias.data)
        op_balance_bias(step->device,
                        &(struct op_balance_bias){
                            .bias = tensor_reshape_2d(step->expert_bias, layers, experts->E),
                            .counts = tensor_reshape_2d(step_total(step, TOTAL_EXPERT_ROWS), layers, experts->E),
                            .rate = experts->bias_rate});
    if (step->expert_load.data)
        op_balance_load(step->device,
                        &(struct op_balance_load){
                            .load = tensor_reshape_2d(step->expert_load, layers, experts->E),
                            .counts = tensor_reshape_2d(step_total(step, TOTAL_GLOBAL_ROWS), layers, experts->E)});
}

void step_clip(struct step *step) {
    struct update update = update_of(step);
    update.positions = step_positions(step);
    if (update.positions > 0)
        update.tokens = step_total(step, TOTAL_TOKENS);
    struct step_span span = span_begin(step, "await gradients");
    reducer_wait(&step->reducer);
    span_end_part(step, span, STEP_TAG_GRADIENTS);
    for (int i = 0; i < step->chunk_count; i++)
        qk_clip_end_step(&step->chunks[i].model.qk_clip, &step->mesh);
    updates_begin(&step->updates, &update);
}

// The range to update before bucket number n is gathered. Ranks that share out matrices update a whole group before its
// first bucket, to balance their shares: a bucket has few matrices, of several sizes.
static struct piece updated_before(const struct step *step, const struct update *update, int64_t n) {
    if (step->options.schedule.buckets == 0)
        return (struct piece){.count = step->params.total};
    bool is_first;
    int group = reducer_group_of(&step->reducer, n, &is_first);
    const struct pieces *pieces = &step->reducer.groups[group].pieces;
    if (!optimizer_shares_matrices(&step->updates.optimizers[group], update))
        return reducer_needed(&step->reducer, n);
    return (struct piece){.flat_offset = pieces->first, .count = is_first ? pieces->total : 0};
}

void step_update(struct step *step, int64_t n) {
    struct update update = update_of(step);
    update.scratch = &step->scratch;
    struct piece bucket = updated_before(step, &update, n);
    updates_apply(&step->updates, &update, bucket.flat_offset, bucket.flat_offset + bucket.count);
}

void step_settle(struct step *step) {
    reducer_settle(&step->reducer);
    updates_settle(&step->updates, step->device);
}

double step_params_norm(struct step *step) {
    const struct update update = update_of(step);
    step_settle(step);
    return clip_params_norm(&step->updates.clip, &update, step->updates.optimizers);
}

static int64_t count_zeros(struct device *device, struct tensor grad, float *host, int64_t most) {
    int64_t zeros = 0;
    for (int64_t first = 0, count; first < tensor_count(grad); first += count) {
        count = tensor_count(grad) - first < most ? tensor_count(grad) - first : most;
        device_copy_out(device, host, tensor_rows(grad, first, count));
        for (int64_t n = 0; n < count; n++)
            zeros += host[n] == 0;
    }
    return zeros;
}

// Number of zeros of a parameter's gradient in this rank's pieces.
static int64_t count_own_zeros(const struct step *step, const struct param *param, float *host, int64_t most) {
    struct piece run;
    int64_t zeros = 0, end = param->offset + shard_local_count(&param->shard);
    for (int64_t at = param->offset; pieces_next(&step->reducer.groups[param->group].pieces, &at, end, &run);)
        zeros += count_zeros(step->device, tensor_rows(step->grads, run.flat_offset, run.count), host, most);
    return zeros;
}

static int64_t sum_over(struct group *group, int64_t own, const char *name) {
    int size = group_size(group);
    int64_t *table = memory_alloc(sizeof *table * (size_t)size), sum = 0;
    table[group_rank(group)] = own;
    comm_all_gather_i64(group, table, 1, name);
    for (int i = 0; i < size; i++)
        sum += table[i];
    free(table);
    return sum;
}

static int64_t count_zeros_of(const struct step *step, int group, float *host, int64_t most) {
    const char *name = "gradients that are zero";
    const struct param_group *own = &step->params.groups[group];
    int64_t split = 0, whole = 0;
    for (int i = 0; i < step->params.count; i++) {
        const struct param *param = step->params.items[i];
        if (param->group == group && !param->is_copy)
            *(param->shard.parts > 1 ? &split : &whole) += count_own_zeros(step, param, host, most);
    }
    int64_t zeros = whole + sum_over(mesh_group(&step->mesh, own->slices), split, name);
    if (step->reducer.groups[group].pieces.parts > 1)
        zeros = sum_over(mesh_group(&step->mesh, own->replicas), zeros, name);
    return sum_over(step->mesh.group[AXIS_PIPELINE], zeros, name);
}

int64_t step_count_zero_gradients(struct step *step) {
    enum { MOST = 1 << 20 };
    OWNED float *host = memory_alloc(sizeof(float) * MOST);
    int64_t zeros = 0;
    for (int i = 0; i < step->params.group_count; i++)
        zeros += count_zeros_of(step, i, host, MOST);
    return zeros;
}
