// What comes before the passes of a step and after them: clearing sums and gradients; reduction, the optimizer and the
// new parameters; and the weights that a run starts from. If the optimizer is divided, a rank only has it for its own
// pieces of the flat buffers, see parallel/pieces.h.
#include "step/update.h"
#include "base/memory.h"
#include "model/init.h"
#include "step/pipeline.h"

#include <stdlib.h>

// Long enough that latency does not matter and, with many ranks, that a rank's piece is worth sending. If buckets
// travel during a pass, there must be several, because the first one to be full and the last one cannot be hidden.
static int64_t bucket_elements(const struct config *config, int64_t total, int replicas) {
    const int64_t usual = (int64_t)8 << 20, usual_piece = (int64_t)256 << 10, least = (int64_t)64 << 10;
    if (config->ddp_bucket_size > 0)
        return config->ddp_bucket_size;
    if (config->ddp_num_buckets > 0)
        return (total + config->ddp_num_buckets - 1) / config->ddp_num_buckets;
    int64_t bucket = usual > usual_piece * replicas ? usual : usual_piece * replicas;
    int64_t several = total / 16 > least ? total / 16 : least;
    return config->overlap_grad_reduce && several < bucket ? several : bucket;
}

void step_divide_optimizer(struct step *step) {
    const struct config *config = step->config;
    const struct mesh *mesh = &step->mesh;
    bool is_training = step->mode == STEP_TRAIN;
    int replicas = mesh->length[AXIS_CONTEXT] * mesh->length[AXIS_DATA];
    int replica = mesh->place[AXIS_CONTEXT] + mesh->length[AXIS_CONTEXT] * mesh->place[AXIS_DATA];
    bool is_divided = is_training && config->use_distributed_optimizer;
    int parts = is_divided ? replicas : 1;
    param_list_pad(&step->params, pieces_multiple(parts));
    int64_t bucket = bucket_elements(config, step->params.total, replicas);
    reducer_open(
        &step->reducer, &step->params,
        &(struct reducer_options){.replicas = is_training ? mesh->replicas : NULL,
                                  .pieces = pieces_make(step->params.total, bucket, parts, is_divided ? replica : 0),
                                  .overlaps_reduction = config->overlap_grad_reduce,
                                  .overlaps_gather = config->overlap_param_gather,
                                  .is_rounded = config->bf16 && config->grad_reduce_in_bf16 && replicas > 1});
}

struct tensor step_weights_target(struct step *step) {
    step_settle(step);
    return step->mode == STEP_TRAIN && step->adam.master.data ? step->grads : step->values;
}

static struct adam_update update_of(const struct step *step) {
    return (struct adam_update){.device = step->device,
                                .mesh = &step->mesh,
                                .params = &step->params,
                                .values = step->values,
                                .grads = step->grads};
}

void step_accept_weights(struct step *step) {
    const struct adam_update update = update_of(step);
    if (step->mode == STEP_TRAIN && step->adam.master.data)
        adam_take_weights(&step->adam, &update);
}

struct tensor step_open_masters(struct step *step) {
    const struct adam_update update = update_of(step);
    step_settle(step);
    return adam_open_masters(&step->adam, &update);
}

void step_close_masters(struct step *step) {
    const struct adam_update update = update_of(step);
    adam_close_masters(&step->adam, &update);
}

void step_initialize(struct step *step) {
    if (step->mode == STEP_TRAIN)
        adam_reset(&step->adam, step->device);
    struct tensor target = step_weights_target(step);
    init_params(step->device, &step->params, target.data == step->values.data ? (struct tensor){0} : target,
                (uint64_t)step->config->seed);
    step_accept_weights(step);
}

// The gradients that no product overwrites: those of parameters without weight decay, and of lookup tables.
static void clear_gradients(struct step *step) {
    int64_t decayed = step->params.decayed;
    device_zero(step->device, tensor_rows(step->grads, decayed, step->params.total - decayed));
    for (int i = 0; i < step->chunk_count; i++)
        model_clear_tables(&step->chunks[i].model, step->device);
}

void step_begin(struct step *step, bool is_learning) {
    device_zero(step->device, step->totals);
    if (!is_learning)
        return;
    clear_gradients(step);
    for (int i = 0; i < step->chunk_count; i++)
        fp8_begin_step(&step->chunks[i].model.fp8, step->device);
}

bool step_is_alone(const struct step *step) {
    bool is_alone = step->chunk_count == 1;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        is_alone = is_alone && step->mesh.length[axis] == 1;
    return is_alone;
}

// If the stream is divided, each rank has the gradients of its own rows for parameters that are applied along it.
static void sum_stream_gradients(struct step *step) {
    int64_t first = step->params.summed_first, count = step->params.summed_end - first;
    if (count > 0)
        comm_all_reduce(step->mesh.group[AXIS_TENSOR], tensor_rows(step->grads, first, count), REDUCE_SUM,
                        "stream gradients");
    for (int i = 0; i < step->shared_count; i++) {
        const struct param *param = step->shared[i].param;
        if (param && param->is_copy && param->sums_gradient)
            comm_all_reduce(step->mesh.group[AXIS_TENSOR], param->grad, REDUCE_SUM, "stream gradients");
    }
}

void step_reduce_gradients(struct step *step) {
    shared_sum_gradients(step);
    sum_stream_gradients(step);
    reducer_sum(&step->reducer);
}

// In the order in which the next forward pass needs them, so that the first values travel while the last are computed.
void step_update(struct step *step) {
    const struct adam_update update = update_of(step);
    reducer_wait(&step->reducer);
    adam_begin(&step->adam, &update);
    if (step->reducer.pieces.parts == 1) {  // nobody waits for a part of it
        adam_apply(&step->adam, &update, 0, step->reducer.pieces.total);
        return;
    }
    for (int64_t n = 0; n < pieces_bucket_count(&step->reducer.pieces); n++) {
        struct piece bucket = reducer_needed(&step->reducer, n);
        adam_apply(&step->adam, &update, bucket.flat_offset, bucket.flat_offset + bucket.count);
        reducer_gather(&step->reducer, n);
    }
}

void step_settle(struct step *step) {
    reducer_settle(&step->reducer);
}

double step_params_norm(struct step *step) {
    const struct adam_update update = update_of(step);
    step_settle(step);
    return adam_params_norm(&step->adam, &update);
}

static int64_t count_zeros(struct device *device, struct tensor grad, float *piece, int64_t most) {
    int64_t zeros = 0;
    for (int64_t first = 0, count; first < tensor_count(grad); first += count) {
        count = tensor_count(grad) - first < most ? tensor_count(grad) - first : most;
        device_copy_out(device, piece, tensor_rows(grad, first, count));
        for (int64_t n = 0; n < count; n++)
            zeros += piece[n] == 0;
    }
    return zeros;
}

// The zeros of a parameter's gradient in this rank's pieces.
static int64_t count_own_zeros(const struct step *step, const struct param *param, float *piece, int64_t most) {
    struct piece run;
    int64_t zeros = 0, end = param->offset + shard_local_count(&param->shard);
    for (int64_t at = param->offset; pieces_next(&step->reducer.pieces, &at, end, &run);)
        zeros += count_zeros(step->device, tensor_rows(step->grads, run.flat_offset, run.count), piece, most);
    return zeros;
}

// The sum over a group: every rank fills in its own entry, and the maximum over ranks is the complete table.
static int64_t sum_over(struct group *group, int64_t own, const char *name) {
    int size = group_size(group);
    int64_t *table = memory_alloc(sizeof *table * (size_t)size), sum = 0;
    table[group_rank(group)] = own;
    comm_max_i64(group, table, size, name);
    for (int i = 0; i < size; i++)
        sum += table[i];
    free(table);
    return sum;
}

int64_t step_count_zero_gradients(struct step *step) {
    enum { PIECE = 1 << 20 };
    const char *name = "gradients that are zero";
    float *piece = memory_alloc(sizeof(float) * PIECE);
    int64_t split = 0, whole = 0;
    for (int i = 0; i < step->params.count; i++) {
        const struct param *param = step->params.items[i];
        if (!param->is_copy)
            *(param->shard.parts > 1 ? &split : &whole) += count_own_zeros(step, param, piece, PIECE);
    }
    free(piece);
    int64_t zeros = whole + sum_over(step->mesh.group[AXIS_TENSOR], split, name);
    if (step->reducer.pieces.parts > 1)
        zeros = sum_over(step->mesh.replicas, zeros, name);
    return sum_over(step->mesh.group[AXIS_PIPELINE], zeros, name);
}
