// Ranges and weights of fp8 matmuls. See fp8.h.
#include "model/fp8.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "ops/device.h"
#include "tensor/float8.h"

#include <stdlib.h>
#include <string.h>

void fp8_set(struct fp8 *fp8, const struct config *config, const struct mesh *mesh) {
    int64_t samples = config->run.micro_batch_size * mesh_count(mesh, MESH_SAMPLES);
    bool is_blockwise = strcmp(config->run.fp8_recipe, "blockwise") == 0,
         is_mx = strcmp(config->run.fp8_recipe, "mxfp8") == 0;
    bool is_e4m3 = config->run.fp8_format && strcmp(config->run.fp8_format, "e4m3") == 0,
         is_fp4 = config->run.fp4_format != NULL;
    *fp8 = (struct fp8){.inputs = is_fp4         ? SCALING_VECTOR16
                                  : is_blockwise ? SCALING_VECTOR128
                                  : is_mx        ? SCALING_VECTOR32
                                                 : SCALING_TENSOR,
                        .weights = is_fp4         ? SCALING_BLOCK16
                                   : is_blockwise ? SCALING_BLOCK128
                                   : is_mx        ? SCALING_VECTOR32
                                                  : SCALING_TENSOR,
                        .values = is_fp4 ? DTYPE_E2M1X2 : DTYPE_E4M3,
                        .gradients = is_fp4    ? DTYPE_E2M1X2
                                     : is_e4m3 ? DTYPE_E4M3
                                               : DTYPE_E5M2,
                        .length = config->run.fp8_amax_history_len,
                        .is_delayed = strcmp(config->run.fp8_recipe, "delayed") == 0,
                        .takes_largest = strcmp(config->run.fp8_amax_compute_algo, "max") == 0,
                        .has_fast_gradients = config->run.fp8_fast_input_gradients,
                        .keeps_ranges = config->machine.pipeline_model_parallel_size > 1,
                        .keeps_weights = config->run.global_batch_size > samples,
                        .margin = (int)config->run.fp8_margin};
}

int fp8_add(struct fp8 *fp8, const struct param *weight) {
    MEMORY_GROW(fp8->layers, fp8->count, fp8->capacity);
    fp8->layers[fp8->count] = (struct fp8_layer){.weight = weight};
    return fp8->count++;
}

void fp8_free(struct fp8 *fp8) {
    free(fp8->layers);
    *fp8 = (struct fp8){0};
}

// The weight of a layer as one matrix; those of experts are stacked.
static struct tensor weight_matrix(const struct fp8_layer *layer) {
    struct tensor value = layer->weight->value;
    return value.rank == 3 ? tensor_reshape_2d(value, value.shape[0] * value.shape[1], value.shape[2]) : value;
}

// With scaling by blocks, each expert's matrix is quantized separately.
static int64_t weight_parts(const struct fp8_layer *layer) {
    struct tensor value = layer->weight->value;
    return value.rank == 3 ? value.shape[0] : 1;
}

static enum dtype dtype_of(enum fp8_role role) {
    return role == FP8_GRADIENT ? DTYPE_E5M2 : DTYPE_E4M3;
}

struct tensor fp8_range(const struct fp8 *fp8, int layer, enum fp8_role role) {
    return tensor_flat(tensor_rows(fp8->ranges, layer * FP8_ROLES + (int)role, 1));
}

static struct tensor take_scales(struct scales_shape shape, int64_t parts, struct arena *arena) {
    return arena_2d(arena, shape.dtype, parts * shape.rows, shape.columns);
}

// x is `parts` stacked matrices of equal size, see op_quantize_blocks.
static struct operand take_parts(enum scaling scaling, enum dtype dtype, struct tensor x, int64_t parts, int orders,
                                 struct arena *arena) {
    struct operand taken = {.scaling = scaling};
    int64_t rows = x.shape[0], columns = x.shape[1], each = dtype == DTYPE_E2M1X2 ? 2 : 1;
    if (orders & FP8_VALUE) {
        taken.value = arena_2d(arena, dtype, rows, columns / each);
        taken.range = take_scales(scales_shape(scaling, rows / parts, columns), parts, arena);
    }
    if (orders & FP8_TRANSPOSED) {
        taken.transposed = arena_2d(arena, dtype, columns, rows / each);
        taken.transposed_range = take_scales(scales_shape(scaling, columns, rows / parts), parts, arena);
    }
    return taken;
}

struct operand fp8_take(enum scaling scaling, enum dtype dtype, struct tensor x, int orders, struct arena *arena) {
    return take_parts(scaling, dtype, x, 1, orders, arena);
}

void fp8_lay_out(struct fp8 *fp8, struct arena *arena) {
    if (fp8->count == 0)
        return;
    fp8->ranges = arena_2d(arena, DTYPE_F32, (int64_t)fp8->count * FP8_ROLES, RANGE_LENGTH);
    fp8->history = arena_2d(arena, DTYPE_F32, (int64_t)fp8->count * FP8_ROLES, fp8->length);
    fp8->measured = arena_2d(arena, DTYPE_F32, 1, RANGE_LENGTH);
    for (int i = 0; i < fp8->count; i++) {
        struct fp8_layer *layer = &fp8->layers[i];
        struct tensor x = weight_matrix(layer);
        layer->operand = (struct operand){.range = fp8_range(fp8, i, FP8_WEIGHT)};
        if (!fp8->keeps_weights)
            continue;
        if (fp8->weights != SCALING_TENSOR) {
            layer->operand =
                take_parts(fp8->weights, fp8->values, x, weight_parts(layer), FP8_VALUE | FP8_TRANSPOSED, arena);
            continue;
        }
        layer->operand.value = arena_2d(arena, DTYPE_E4M3, x.shape[0], x.shape[1]);
        layer->operand.transposed = arena_2d(arena, DTYPE_E4M3, x.shape[1], x.shape[0]);
    }
}

void fp8_reset(struct fp8 *fp8, struct device *device) {
    fp8->step = 0;
    fp8->is_known = false;
    if (fp8->count == 0)
        return;
    size_t count = (size_t)fp8->count * FP8_ROLES;
    float *ranges = memory_alloc(sizeof *ranges * count * RANGE_LENGTH);
    for (size_t i = 0; i < count; i++) {
        float *range = ranges + i * RANGE_LENGTH;
        range[RANGE_FACTOR] = range[RANGE_SCALE] = 1;
        range[RANGE_LARGEST] = float8_kind(dtype_of((enum fp8_role)(i % FP8_ROLES))).largest;
    }
    device_copy_in(device, fp8->ranges, ranges);
    device_zero(device, fp8->history);
    device_zero(device, fp8->measured);
    device_synchronize(device);
    free(ranges);
}

void fp8_resume(struct fp8 *fp8, int64_t steps, bool has_ranges) {
    fp8->step = steps;
    fp8->is_known = fp8->is_delayed && has_ranges;
}

struct operand fp8_weight(const struct fp8 *fp8, int layer, bool is_transposed, struct device *device,
                          struct arena *arena) {
    struct operand weight = fp8->layers[layer].operand;
    struct tensor x = weight_matrix(&fp8->layers[layer]);
    if (weight.value.data)
        return weight;
    if (fp8->weights != SCALING_TENSOR) {
        int64_t parts = weight_parts(&fp8->layers[layer]);
        weight = take_parts(fp8->weights, fp8->values, x, parts, is_transposed ? FP8_TRANSPOSED : FP8_VALUE, arena);
        op_quantize_blocks(device, &(struct op_quantize_blocks){.y = weight, .x = x, .parts = parts});
        return weight;
    }
    if (is_transposed)
        weight.transposed = arena_2d(arena, DTYPE_E4M3, x.shape[1], x.shape[0]);
    else
        weight.value = arena_2d(arena, DTYPE_E4M3, x.shape[0], x.shape[1]);
    op_quantize(device, &(struct op_quantize){.y = weight, .x = x});
    return weight;
}

void fp8_measure(const struct fp8 *fp8, struct device *device, const struct op_quantize *op, const struct mesh *mesh) {
    if (fp8->is_known)
        return;
    struct op_quantize measure = *op;
    measure.y = (struct operand){.range = tensor_flat(fp8->measured)};
    measure.dbias = (struct tensor){0};
    measure.result = (struct operand){0};
    op_quantize(device, &measure);
    if (mesh)
        comm_all_reduce(mesh->group[AXIS_TENSOR], tensor_rows(measure.y.range, RANGE_SEEN, 1), REDUCE_MAX, "fp8 range");
    struct tensor range = tensor_2d(op->y.range.data, DTYPE_F32, 1, RANGE_LENGTH);
    op_move_ranges(device, &(struct op_move_ranges){.ranges = fp8->measured, .scaled = range, .margin = fp8->margin});
}

void fp8_quantize(const struct fp8 *fp8, struct device *device, const struct op_quantize *op, const struct mesh *mesh) {
    fp8_measure(fp8, device, op, mesh);
    op_quantize(device, op);
}

void fp8_begin_step(struct fp8 *fp8, struct device *device) {
    for (int i = 0; i < fp8->count; i++) {
        struct op_quantize op = {.y = fp8->layers[i].operand, .x = weight_matrix(&fp8->layers[i])};
        if (fp8->weights != SCALING_TENSOR) {
            if (fp8->keeps_weights)
                op_quantize_blocks(
                    device, &(struct op_quantize_blocks){.y = op.y, .x = op.x, .parts = weight_parts(&fp8->layers[i])});
            continue;
        }
        fp8_measure(fp8, device, &op, NULL);
        if (fp8->keeps_weights)
            op_quantize(device, &op);
    }
}

// All ranks agree on the largest magnitude of each tensor, so results do not depend on how it is split among them.
// Measured scales differ among ranks until op_move_ranges here; if a range saw nothing finite, all ranks keep the
// largest of their scales and its factor is computed again.
void fp8_end_step(struct fp8 *fp8, struct device *device, const struct mesh *mesh) {
    bool has_ranges = fp8->count > 0 && fp8->inputs == SCALING_TENSOR;
    if (has_ranges)
        comm_all_reduce(mesh->stage, fp8->ranges, REDUCE_MAX, "fp8 ranges");
    if (has_ranges)
        op_move_ranges(device, &(struct op_move_ranges){.ranges = fp8->ranges,
                                                        .history = fp8->history,
                                                        .place = fp8->step % fp8->length,
                                                        .takes_largest = fp8->takes_largest,
                                                        .margin = fp8->margin});
    fp8_resume(fp8, fp8->step + 1, true);
}
