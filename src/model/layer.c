// The layers that every block is made of, linear and norm, and what a pass provides to them. See layer.h.
#include "model/layer.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/deferred.h"

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
    whole.range = x.range;
    if (pass->device->ops->is_paper)
        return whole;
    struct comm_request request = comm_all_gather_start(pass->mesh->group[AXIS_TENSOR], whole, x, name);
    comm_wait(&request);
    return whole;
}

void pass_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name) {
    struct group *group = pass->mesh->group[AXIS_TENSOR];
    if (pass_parts(pass) == 1 || pass->device->ops->is_paper)
        return;
    if (!pass->splits_rows) {
        comm_all_reduce(group, whole, REDUCE_SUM, name);
        return;
    }
    struct comm_request request = comm_reduce_scatter_start(group, out, whole, name);
    comm_wait(&request);
}

void pass_await_param(const struct pass *pass, const struct param *param) {
    if (pass->reducer && param)
        reducer_await(pass->reducer, param->offset + shard_local_count(&param->shard));
}

void pass_gradients_final(const struct pass *pass, const struct param *param) {
    if (pass->reducer && pass->is_last)
        reducer_final_from(pass->reducer, param->offset);
}

bool pass_keeps_results(const struct pass *pass) {
    return pass->is_training && pass->keeps_results;
}

int64_t pass_rows(const struct pass *pass) {
    return pass->B * pass->T;
}

struct dropout pass_dropout(const struct pass *pass, double rate, int64_t layer, enum dropout_place place) {
    if (!pass->is_training || rate == 0)
        return (struct dropout){.rate = 0};
    return (struct dropout){.rate = (float)rate,
                            .seed = pass->seed,
                            .site = (uint32_t)(layer * DROPOUT_PLACES + (int64_t)place),
                            .row_ids = place == DROPOUT_ATTENTION ? pass->row_ids : pass_own_rows(pass, pass->row_ids)};
}

struct shard linear_segments(int64_t columns, const int64_t segments[SHARD_MAX_SEGMENTS]) {
    int64_t rows = 0;
    int count = 0;
    while (count < SHARD_MAX_SEGMENTS && segments[count] > 0)
        rows += segments[count++];
    struct shard shard = shard_whole(2, rows, columns);
    shard.segment_count = count;
    for (int i = 0; i < count; i++)
        shard.segments[i] = segments[i];
    return shard;
}

void linear_build(struct linear *linear, struct param_list *params, const char *name,
                  const struct linear_options *options) {
    struct shard weight = options->weight;
    char *weight_name = memory_printf("%s.weight", name), *bias_name = memory_printf("%s.bias", name);
    // The bias is split like the rows of the weight; a weight split along its columns has a whole bias on every rank.
    struct shard bias = shard_whole(1, weight.global[0], 1);
    bias.segment_count = weight.segment_count;
    for (int i = 0; i < weight.segment_count; i++)
        bias.segments[i] = weight.segments[i];
    if (weight.parts > 1 && weight.dimension == 0)
        bias = shard_split(bias, 0, weight.parts, weight.part);
    linear->weight = param_add(params, weight_name, weight, INIT_NORMAL, options->standard_deviation);
    linear->bias = options->has_bias ? param_add(params, bias_name, bias, INIT_ZERO, 0) : NULL;
    linear->weight->sums_gradient = options->sums_gradient && weight.parts == 1;
    if (linear->bias)
        linear->bias->sums_gradient = options->sums_gradient && bias.parts == 1;
    linear->out = shard_local_size(&weight, 0);
    linear->in = shard_local_size(&weight, 1);
    linear->sums_output = weight.parts > 1 && weight.dimension == 1;
    linear->sums_input = weight.parts > 1 && weight.dimension == 0;
    linear->fp8 = options->fp8;
    linear->fp8_layer = options->fp8 ? fp8_add(options->fp8, linear->weight) : 0;
    free(weight_name);
    free(bias_name);
}

struct tensor linear_bias(const struct linear *linear) {
    return linear->bias ? linear->bias->value : (struct tensor){0};
}

struct tensor linear_bias_gradient(const struct linear *linear) {
    return linear->bias ? linear->bias->grad : (struct tensor){0};
}

bool linear_is_fp8(const struct linear *linear, const struct pass *pass) {
    return linear->fp8 && pass->is_training;
}

struct tensor linear_take_input(const struct linear *linear, const struct pass *pass, int64_t rows) {
    return fp8_take_kept(linear->fp8, pass->saved, linear->fp8_layer, rows, linear->in);
}

// Sizes are multiples of 16, so the transpose starts where an allocation from the arena would.
struct tensor linear_take_gradient(const struct linear *linear, const struct pass *pass, int64_t rows) {
    struct tensor both = fp8_take(linear->fp8, pass->scratch, linear->fp8_layer, FP8_GRADIENT, 2 * rows, linear->out);
    return tensor_rows(both, 0, rows);
}

struct tensor linear_transposed(struct tensor dy) {
    struct tensor turned = tensor_2d((unsigned char *)dy.data + tensor_bytes(dy), dy.dtype, dy.shape[1], dy.shape[0]);
    turned.range = dy.range;
    return turned;
}

void linear_quantize(const struct linear *linear, const struct pass *pass, struct op_quantize op) {
    enum dtype dtype = op.y.data ? op.y.dtype : op.transposed.dtype;
    op.range = fp8_range(linear->fp8, linear->fp8_layer, dtype == DTYPE_E5M2 ? FP8_GRADIENT : FP8_INPUT);
    struct tensor stored = op.y;
    op.y.range = op.y.data ? op.range.data : NULL;
    fp8_quantize(linear->fp8, pass->device, &op, pass->splits_rows ? pass->mesh : NULL);
    fp8_keep_range(pass->device, stored, op.range);
}

// x in the form that the forward product takes.
static struct tensor product_input(const struct linear *linear, const struct pass *pass, struct tensor x) {
    if (!linear_is_fp8(linear, pass) || dtype_is_float8(x.dtype))
        return x;
    struct tensor stored = fp8_take(linear->fp8, pass->scratch, linear->fp8_layer, FP8_INPUT, x.shape[0], x.shape[1]);
    linear_quantize(linear, pass, (struct op_quantize){.y = stored, .x = x});
    return stored;
}

void linear_forward(const struct linear *linear, const struct pass *pass, struct tensor y, struct tensor x,
                    enum epilogue epilogue, struct tensor aux) {
    if (epilogue == EPILOGUE_BIAS && !linear->bias)
        epilogue = EPILOGUE_NONE;
    size_t mark = arena_mark(pass->scratch);
    struct tensor in = product_input(linear, pass, x);
    if (linear->sums_input)
        in = pass_gather(pass, pass->scratch, in, "layer input");
    bool scatters = linear->sums_output && pass->splits_rows;
    struct tensor out = scatters ? arena_2d(pass->scratch, y.dtype, in.shape[0], linear->out) : y;
    op_matmul(pass->device,
              &(struct op_matmul){.a = in,
                                  .b = linear_is_fp8(linear, pass) ? linear->fp8->layers[linear->fp8_layer].value
                                                                   : linear->weight->value,
                                  .d = out,
                                  .transpose_b = true,
                                  .alpha = 1,
                                  .epilogue = epilogue,
                                  .activation = ACTIVATION_GELU_TANH,
                                  .bias = epilogue == EPILOGUE_NONE ? (struct tensor){0} : linear->bias->value,
                                  .aux = aux});
    if (linear->sums_output) {
        CHECK(epilogue == EPILOGUE_NONE);
        pass_sum(pass, y, out, "layer output");
    }
    arena_release(pass->scratch, mark);
}

static struct tensor stored_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy,
                                     struct tensor dbias) {
    if (!linear_is_fp8(linear, pass))
        return dy;
    struct tensor stored = linear_take_gradient(linear, pass, dy.shape[0]);
    linear_quantize(
        linear, pass,
        (struct op_quantize){.y = stored, .transposed = linear_transposed(stored), .x = dy, .dbias = dbias});
    return stored;
}

struct tensor linear_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy) {
    return stored_gradient(linear, pass, dy, linear_bias_gradient(linear));
}

struct tensor linear_output_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy) {
    if (linear->sums_output)
        dy = pass_gather(pass, pass->scratch, dy, "layer output gradient");
    return stored_gradient(linear, pass, dy, (struct tensor){0});
}

// d = dy W.
static struct op_matmul input_product(const struct linear *linear, const struct pass *pass, struct tensor d,
                                      struct tensor dy) {
    bool is_fp8 = linear_is_fp8(linear, pass);
    return (struct op_matmul){.a = dy,
                              .b = is_fp8 ? linear->fp8->layers[linear->fp8_layer].transposed : linear->weight->value,
                              .d = d,
                              .transpose_b = is_fp8,
                              .alpha = 1};
}

void linear_backward_input(const struct linear *linear, const struct pass *pass, struct tensor dx, struct tensor dy,
                           struct tensor aux) {
    size_t mark = arena_mark(pass->scratch);
    bool scatters = linear->sums_input && pass->splits_rows;
    struct tensor whole = scatters ? arena_2d(pass->scratch, dx.dtype, dy.shape[0], linear->in) : dx;
    struct op_matmul product = input_product(linear, pass, whole, dy);
    product.epilogue = aux.data ? EPILOGUE_ACTIVATION_GRADIENT : EPILOGUE_NONE;
    product.activation = ACTIVATION_GELU_TANH;
    product.aux = aux;
    op_matmul(pass->device, &product);
    if (linear->sums_input) {
        CHECK(!aux.data);
        pass_sum(pass, dx, whole, "layer input gradient");
    }
    arena_release(pass->scratch, mark);
}

void linear_backward_input_add(const struct linear *linear, const struct pass *pass, struct tensor dx,
                               struct tensor dy) {
    if (!linear->sums_input) {
        struct op_matmul product = input_product(linear, pass, dx, dy);
        product.beta = 1;
        op_matmul(pass->device, &product);
        return;
    }
    size_t mark = arena_mark(pass->scratch);
    struct tensor own = arena_2d(pass->scratch, pass->dtype, dx.shape[0], dx.shape[1]);
    linear_backward_input(linear, pass, own, dy, (struct tensor){0});
    op_dropout_add(pass->device, &(struct op_dropout_add){.out = dx, .x = own, .residual = dx});
    arena_release(pass->scratch, mark);
}

// The transpose of x, in 8 bits and in scratch.
static struct tensor turned_input(const struct linear *linear, const struct pass *pass, struct tensor x) {
    struct tensor turned = fp8_take(linear->fp8, pass->scratch, linear->fp8_layer, FP8_INPUT, x.shape[1], x.shape[0]);
    if (dtype_is_float8(x.dtype)) {
        turned.range = x.range;
        op_transpose(pass->device, &(struct op_transpose){.y = turned, .x = x});
    } else {
        linear_quantize(linear, pass, (struct op_quantize){.transposed = turned, .x = x});
    }
    return turned;
}

void linear_weight_product(const struct linear *linear, const struct pass *pass, struct tensor dy, struct tensor x) {
    bool is_turned = dtype_is_float8(dy.dtype);
    op_matmul(pass->device, &(struct op_matmul){.a = dy,
                                                .b = x,
                                                .d = linear->weight->grad,
                                                .transpose_a = !is_turned,
                                                .transpose_b = is_turned,
                                                .alpha = 1,
                                                .beta = pass->is_first ? 0 : 1});
}

void linear_backward_weight(const struct linear *linear, const struct pass *pass, struct tensor dy, struct tensor x) {
    struct deferred_product product = {.linear = linear, .dy = dy, .x = x};
    bool is_fp8 = linear_is_fp8(linear, pass);
    if (pass->deferred && !is_fp8) {
        deferred_add(pass->deferred, pass, &product);
        return;
    }
    size_t mark = arena_mark(pass->scratch);
    if (linear->sums_input)
        product.x = pass_gather(pass, pass->scratch, x, "layer input");
    if (is_fp8) {
        product.dy = linear_transposed(dy);
        product.x = turned_input(linear, pass, product.x);
    }
    if (pass->deferred)
        deferred_add_turned(pass->deferred, pass, &product);
    else
        linear_weight_product(linear, pass, product.dy, product.x);
    arena_release(pass->scratch, mark);
}

void linear_backward_bias(const struct linear *linear, const struct pass *pass, struct tensor dy) {
    if (linear->bias && !dtype_is_float8(dy.dtype))
        op_column_sum(pass->device, &(struct op_column_sum){.out = linear->bias->grad, .x = dy});
}

void norm_build(struct norm *norm, struct param_list *params, const char *name, const struct norm_options *options) {
    char *gain_name = memory_printf("%s.weight", name), *bias_name = memory_printf("%s.bias", name);
    struct shard whole = shard_whole(1, options->C, 1);
    norm->kind = options->kind;
    norm->gain = param_add(params, gain_name, whole, options->is_centered ? INIT_ZERO : INIT_ONE, 0);
    norm->gain->is_gain = true;
    norm->gain->is_centered = options->is_centered;
    norm->gain_offset = options->is_centered ? 1.0f : 0.0f;
    norm->bias = options->kind == NORM_LAYER ? param_add(params, bias_name, whole, INIT_ZERO, 0) : NULL;
    norm->epsilon = (float)options->epsilon;
    norm->gain->sums_gradient = options->sums_gradient;
    if (norm->bias)
        norm->bias->sums_gradient = options->sums_gradient;
    free(gain_name);
    free(bias_name);
}

void norm_take(const struct norm *norm, const struct pass *pass, struct norm_saved *saved, int64_t rows,
               struct tensor y) {
    bool has_mean = norm->kind == NORM_LAYER;
    saved->mean = has_mean ? arena_1d(pass->saved, DTYPE_F32, rows) : (struct tensor){0};
    saved->rstd = arena_1d(pass->saved, DTYPE_F32, rows);
    saved->y = y.data ? y : arena_2d(pass->saved, pass->dtype, rows, norm->gain->shard.global[0]);
}

void norm_forward(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved, struct tensor x,
                  const struct residual *residual) {
    op_norm_forward(pass->device, &(struct op_norm_forward){
                                      .kind = norm->kind,
                                      .y = saved->y,
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
