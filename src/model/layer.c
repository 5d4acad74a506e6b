// Norms, and services of a pass for layers; copies between the device and host memory beside the computation. See
// layer.h.
#include "model/layer.h"
#include "base/memory.h"

#include <stdlib.h>

int pass_parts(const struct pass *pass) {
    return pass->mesh->length[AXIS_TENSOR];
}

int64_t pass_stream_rows(const struct pass *pass) {
    return pass->splits_rows ? pass_rows(pass) / pass_parts(pass) : pass_rows(pass);
}

struct tensor pass_own_rows(const struct pass *pass, struct tensor x) {
    int64_t rows = pass->splits_rows ? x.shape[0] / pass_parts(pass) : x.shape[0];
    return x.data ? tensor_rows(x, pass->splits_rows ? rows * pass->mesh->place[AXIS_TENSOR] : 0, rows) : x;
}

struct tensor pass_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name) {
    if (!pass->splits_rows)
        return x;
    struct tensor whole = arena_2d(arena, x.dtype, x.shape[0] * pass_parts(pass), x.shape[1]);
    struct comm_request request = comm_all_gather_start(pass->mesh->group[AXIS_TENSOR], whole, x, name);
    comm_wait(&request);
    return whole;
}

void pass_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name) {
    struct group *group = pass->mesh->group[AXIS_TENSOR];
    if (pass_parts(pass) == 1)
        return;
    if (!pass->splits_rows) {
        comm_all_reduce(group, whole, REDUCE_SUM, name);
        return;
    }
    struct comm_request request = comm_reduce_scatter_start(group, out, whole, name);
    comm_wait(&request);
}

struct pass pass_in_scratch(const struct pass *pass, bool is_again) {
    struct pass inner = *pass;
    inner.activations = pass->scratch;
    inner.is_again = pass->is_again || is_again;
    return inner;
}

void pass_await_param(const struct pass *pass, const struct param *param) {
    if (pass->reducer && param)
        reducer_await(pass->reducer, param);
}

void pass_gradients_final(const struct pass *pass, const struct param *param) {
    if (pass->reducer && pass->is_last)
        reducer_final_from(pass->reducer, param);
}

bool pass_keeps_results(const struct pass *pass) {
    return pass->is_training && pass->keeps_results;
}

int64_t pass_rows(const struct pass *pass) {
    return pass->B * pass->T;
}

struct tensor pass_input(const struct pass *pass, enum batch_field field) {
    if (pass->is_over_encoder)
        field = batch_rule(field)->in_decoder;
    return field == BATCH_NONE ? (struct tensor){0} : pass->batch->fields[field];
}

struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place) {
    if (!pass->is_training || rate == 0)
        return (struct dropout){.rate = 0};
    struct tensor row_ids = pass_input(pass, BATCH_ROW_IDS);
    return (struct dropout){.rate = (float)rate,
                            .seed = pass->seed,
                            .site = (uint32_t)(layer * DROPOUT_PLACES + (int64_t)place),
                            .row_ids = place == DROPOUT_ATTENTION ? row_ids : pass_own_rows(pass, row_ids)};
}

void norm_build(struct norm *norm, struct param_list *params, const char *name, const struct norm_options *options) {
    char *gain_name = memory_printf("%s.weight", name), *bias_name = memory_printf("%s.bias", name);
    struct shard whole = shard_whole(1, options->C, 1);
    norm->kind = options->kind;
    norm->gain = param_add(params, gain_name, options->heads.rank > 0 ? options->heads : whole,
                           options->is_centered ? INIT_ZERO : INIT_ONE, 0);
    norm->gain->is_gain = true;
    norm->gain->has_decay = false;
    norm->gain->is_centered = options->is_centered;
    norm->gain_offset = options->is_centered ? 1.0f : 0.0f;
    norm->bias =
        options->kind == NORM_LAYER && !options->has_no_bias ? param_add(params, bias_name, whole, INIT_ZERO, 0) : NULL;
    norm->epsilon = (float)options->epsilon;
    norm->gain->sums_gradient = options->sums_gradient;
    if (norm->bias)
        norm->bias->sums_gradient = options->sums_gradient;
    free(gain_name);
    free(bias_name);
}

void norm_take(const struct norm *norm, const struct pass *pass, struct norm_saved *saved, int64_t rows,
               struct operand y) {
    bool has_mean = norm->kind == NORM_LAYER;
    saved->mean = has_mean ? arena_1d(pass->activations, DTYPE_F32, rows) : (struct tensor){0};
    saved->rstd = arena_1d(pass->activations, DTYPE_F32, rows);
    saved->y =
        y.value.data ? y : operand_of(arena_2d(pass->activations, pass->dtype, rows, norm->gain->shard.global[0]));
}

void norm_forward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved, struct tensor x,
                  const struct residual *residual) {
    op_norm_forward(pass->device, &(struct op_norm_forward){
                                      .kind = norm->kind,
                                      .y = saved->y.value,
                                      .y_range = saved->y.range,
                                      .mean = saved->mean,
                                      .rstd = saved->rstd,
                                      .x = x,
                                      .gain = norm->gain->value,
                                      .gain_offset = norm->gain_offset,
                                      .bias = norm->bias ? norm->bias->value : (struct tensor){0},
                                      .epsilon = norm->epsilon,
                                      .delta = residual->delta,
                                      .delta_bias = residual->bias,
                                      .sum = residual->sum,
                                      .dropout = residual->dropout,
                                  });
}

void norm_backward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved,
                   const struct norm_gradient *gradient) {
    op_norm_backward(pass->device, &(struct op_norm_backward){
                                       .kind = norm->kind,
                                       .dx = gradient->dx,
                                       .dgain = norm->gain->grad,
                                       .dbias = norm->bias ? norm->bias->grad : (struct tensor){0},
                                       .dy = gradient->dy,
                                       .x = gradient->x,
                                       .gain = norm->gain->value,
                                       .gain_offset = norm->gain_offset,
                                       .mean = saved->mean,
                                       .rstd = saved->rstd,
                                       .y = gradient->y,
                                       .bias = gradient->y.data && norm->bias ? norm->bias->value : (struct tensor){0},
                                       .dresidual = gradient->dresidual,
                                       .ddelta = gradient->residual.ddelta,
                                       .ddelta_bias = gradient->residual.dbias,
                                       .dropout = gradient->residual.dropout,
                                   });
}

struct device_batch device_batch_in_block(const struct batch_form *form, void *block) {
    static const enum dtype dtypes[] = {
        [ELEMENT_I64] = DTYPE_I64, [ELEMENT_I32] = DTYPE_I32, [ELEMENT_F32] = DTYPE_F32};
    struct batch addresses = batch_in_block(form, block);
    struct device_batch batch = {.form = *form};
    for (int i = 0; i < BATCH_FIELD_COUNT; i++) {
        enum batch_field field = (enum batch_field)i;
        if (addresses.fields[i])
            batch.fields[i] =
                tensor_1d(addresses.fields[i], dtypes[batch_rule(field)->element], batch_elements(form, field));
    }
    return batch;
}

void input_offload_open(struct input_offload *offload, struct device *device) {
    offload->device = device;
    offload->queued = device->ops->event_create(device);
    for (int i = 0; i < OFFLOAD_SLOTS; i++) {
        offload->left[i] = device->ops->event_create(device);
        offload->arrived[i] = device->ops->event_create(device);
    }
}

void input_offload_close(struct input_offload *offload) {
    if (!offload->device)
        return;
    device_synchronize(offload->device);
    offload->device->ops->event_free(offload->device, offload->queued);
    for (int i = 0; i < OFFLOAD_SLOTS; i++) {
        offload->device->ops->event_free(offload->device, offload->left[i]);
        offload->device->ops->event_free(offload->device, offload->arrived[i]);
    }
    offload->device = NULL;
}

// Makes `stream` wait for all work enqueued on the compute stream so far.
static void follow_compute(const struct input_offload *offload, enum stream stream) {
    offload->device->ops->event_record(offload->device, offload->queued, STREAM_COMPUTE);
    offload->device->ops->stream_wait(offload->device, stream, offload->queued);
}

struct tensor input_offload_send(struct input_offload *offload, struct tensor x, int slot) {
    struct tensor home = arena_2d(&offload->arena, x.dtype, x.shape[0], x.shape[1]);
    follow_compute(offload, STREAM_BACK);
    offload->device->ops->copy_out(offload->device, home.data, x.data, tensor_bytes(x), STREAM_BACK);
    offload->device->ops->event_record(offload->device, offload->left[slot], STREAM_BACK);
    offload->is_leaving[slot] = true;
    return home;
}

void input_offload_await_left(struct input_offload *offload, int slot) {
    if (offload->is_leaving[slot])
        offload->device->ops->stream_wait(offload->device, STREAM_COMPUTE, offload->left[slot]);
    offload->is_leaving[slot] = false;
}

void input_offload_bring(struct input_offload *offload, struct tensor to, struct tensor home, int slot) {
    follow_compute(offload, STREAM_COPY);
    offload->device->ops->copy_in(offload->device, to.data, home.data, tensor_bytes(home), STREAM_COPY);
    offload->device->ops->event_record(offload->device, offload->arrived[slot], STREAM_COPY);
}

void input_offload_await_arrived(struct input_offload *offload, int slot) {
    offload->device->ops->stream_wait(offload->device, STREAM_COMPUTE, offload->arrived[slot]);
}
