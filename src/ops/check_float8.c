// Checked entry points of what is done in fp8. Each verifies the contract written beside its struct in ops.h, then
// calls the device's table.
#include "ops/check.h"

enum { RANGE_BYTES = 16, SIZE_STEP = 16, ROW_STEP = 4 };

void check_float8(struct device *device, const char *op, const char *name, struct tensor t) {
    check_rule(op, t.data && dtype_is_scaled(t.dtype), "an fp8 or fp4 tensor is missing");
    check_rule(op, device->ops->supports(device, t.dtype), "this device has no fp8 or fp4 matmul");
    check_strided(op, name, t, check_2d(t.dtype, t.shape[0], t.shape[1]));
}

void check_range(const char *op, struct tensor range) {
    check_tensor(op, "range", range, check_1d(DTYPE_F32, RANGE_LENGTH));
    check_rule(op, (uintptr_t)range.data % RANGE_BYTES == 0, "a range must be aligned to 16 bytes");
}

void check_scaling(const char *op, enum scaling scaling, struct tensor range, struct tensor matrix, int64_t parts) {
    check_rule(op, scaling >= 0 && scaling < SCALING_COUNT, "unknown scaling");
    if (scaling == SCALING_TENSOR) {
        check_range(op, range);
        return;
    }
    struct scales_shape shape = scales_shape(scaling, matrix.shape[0], matrix.shape[1]);
    check_tensor(op, "scales", range, check_2d(shape.dtype, parts * shape.rows, shape.columns));
    check_rule(op, (uintptr_t)range.data % RANGE_BYTES == 0, "scales must be aligned to 16 bytes");
}

// The matrix of numbers that an operand holds.
static struct tensor numbers_of(struct tensor t) {
    return check_2d(t.dtype, t.shape[0], t.shape[1] * (t.dtype == DTYPE_E2M1X2 ? 2 : 1));
}

void check_matmul_float8(struct device *device, const char *op, const struct op_matmul *m) {
    check_float8(device, op, "a", m->a);
    check_float8(device, op, "b", m->b);
    check_scaling(op, m->a_scaling, m->a_range, numbers_of(m->a), 1);
    check_scaling(op, m->b_scaling, m->b_range, numbers_of(m->b), 1);
    check_rule(op,
               (m->a_scaling == SCALING_TENSOR) == (m->b_scaling == SCALING_TENSOR) &&
                   (m->a_scaling == SCALING_VECTOR32) == (m->b_scaling == SCALING_VECTOR32) &&
                   scaling_is_float4(m->a_scaling) == scaling_is_float4(m->b_scaling) &&
                   (m->a.dtype == DTYPE_E2M1X2) == scaling_is_float4(m->a_scaling) &&
                   (m->b.dtype == DTYPE_E2M1X2) == scaling_is_float4(m->b_scaling) &&
                   !(m->a_scaling == SCALING_BLOCK128 && m->b_scaling == SCALING_BLOCK128),
               "these scalings do not go together");
    check_activation(device, op, "d", m->d, 2);
    int64_t rows = m->d.shape[0], columns = m->d.shape[1], inner = m->a.shape[1];
    check_rule(op, !m->transpose_a && m->transpose_b, "an fp8 matmul transposes b only");
    check_rule(op, m->a.dtype != DTYPE_E5M2 || m->b.dtype != DTYPE_E5M2,
               "an fp8 matmul takes at most one E5M2 operand");
    check_rule(op, rows % SIZE_STEP == 0 && columns % SIZE_STEP == 0 && inner % SIZE_STEP == 0,
               "the sizes of an fp8 or fp4 matmul must be multiples of 16 bytes");
    check_rule(op, m->a.stride[0] % SIZE_STEP == 0 && m->b.stride[0] % SIZE_STEP == 0,
               "fp8 rows must start at multiples of 16 bytes");
    check_strided(op, "a", m->a, check_2d(m->a.dtype, rows, inner));
    check_strided(op, "b", m->b, check_2d(m->b.dtype, columns, inner));
    check_strided(op, "d", m->d, check_2d(m->d.dtype, rows, columns));
    check_rule(op, m->epilogue == EPILOGUE_NONE || (m->epilogue == EPILOGUE_BIAS && m->beta == 0),
               "the only epilogue of an fp8 matmul is a bias with beta 0");
    if (m->epilogue == EPILOGUE_BIAS)
        check_tensor(op, "bias", m->bias, check_1d(m->d.dtype, columns));
    check_apart(op, "d", m->d, "a", m->a);
    check_apart(op, "d", m->d, "b", m->b);
}

void check_stored(struct device *device, const char *name, const struct operand *y, int64_t rows, int64_t columns) {
    check_rule(name, y->scaling == SCALING_TENSOR || y->scaling == SCALING_VECTOR128 || y->scaling == SCALING_VECTOR32,
               "it is stored with one range, or by blocks of a row");
    if (y->scaling == SCALING_TENSOR)
        check_range(name, y->range);
    if (y->value.data) {
        check_float8(device, name, "y", y->value);
        check_tensor(name, "y", y->value, check_2d(y->value.dtype, rows, columns));
        check_scaling(name, y->scaling, y->range, y->value, 1);
    }
    if (y->transposed.data) {
        check_float8(device, name, "transposed", y->transposed);
        check_tensor(name, "transposed", y->transposed, check_2d(y->transposed.dtype, columns, rows));
        if (y->scaling != SCALING_TENSOR)
            check_scaling(name, y->scaling, y->transposed_range, y->transposed, 1);
        check_rule(name, !y->value.data || y->value.dtype == y->transposed.dtype, "both outputs must be of one type");
    }
}

static bool is_stored_as(const struct operand *y, enum dtype dtype) {
    return (!y->value.data || y->value.dtype == dtype) && (!y->transposed.data || y->transposed.dtype == dtype);
}

static void check_outputs(struct device *device, const char *name, const struct op_quantize *op, int64_t columns) {
    bool is_gradient = op->kind >= QUANTIZE_ACTIVATION_GRADIENT;
    check_rule(name, op->y.scaling == SCALING_TENSOR && op->result.scaling == SCALING_TENSOR,
               "blocks are stored by op_quantize_blocks");
    check_stored(device, name, &op->y, op->x.shape[0], columns);
    check_rule(name, op->kind == QUANTIZE_PLAIN || is_stored_as(&op->y, is_gradient ? DTYPE_E5M2 : DTYPE_E4M3),
               "activations are stored as E4M3, gradients as E5M2");
    check_optional(name, "dbias", op->dbias, check_1d(DTYPE_F32, columns));
    if (!op->result.value.data && !op->result.transposed.data)
        return;
    check_rule(name, is_gradient, "only gradients compute the activation's result again");
    check_rule(name, is_stored_as(&op->result, DTYPE_E4M3), "the activation's result is stored as E4M3");
    check_stored(device, name, &op->result, op->dy.shape[0], op->dy.shape[1]);
}

void op_quantize(struct device *device, const struct op_quantize *op) {
    const char *name = "op_quantize";
    check_activation(device, name, "x", op->x, 2);
    bool is_glu = op->kind == QUANTIZE_GLU, is_glu_gradient = op->kind == QUANTIZE_GLU_GRADIENT;
    bool is_gradient = is_glu_gradient || op->kind == QUANTIZE_ACTIVATION_GRADIENT;
    int64_t rows = op->x.shape[0], width = op->x.shape[1], columns = is_glu ? width / 2 : width;
    check_rule(name, op->kind >= QUANTIZE_PLAIN && op->kind <= QUANTIZE_GLU_GRADIENT, "unknown kind of values");
    check_rule(name, op->activation >= 0 && op->activation < ACTIVATION_COUNT, "unknown activation");
    check_rule(name, rows % ROW_STEP == 0 && width % SIZE_STEP == 0 && (is_glu_gradient ? width / 2 : columns) % 8 == 0,
               "the columns must be a multiple of 16, the rows of 4");
    check_rule(name, op->kind != QUANTIZE_PLAIN || !op->bias.data, "plain values have no bias");
    check_tensor(name, "x", op->x, check_2d(op->x.dtype, rows, width));
    check_optional(name, "bias", op->bias, check_1d(op->x.dtype, width));
    if (is_gradient)
        check_tensor(name, "dy", op->dy, check_2d(op->x.dtype, rows, is_glu_gradient ? width / 2 : width));
    check_outputs(device, name, op, columns);
    device->ops->quantize(device, op);
}

void op_quantize_blocks(struct device *device, const struct op_quantize_blocks *op) {
    const char *name = "op_quantize_blocks";
    struct tensor value = op->y.value, transposed = op->y.transposed;
    check_activation(device, name, "x", op->x, 2);
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    check_tensor(name, "x", op->x, check_2d(op->x.dtype, rows, columns));
    check_rule(name, op->y.scaling != SCALING_TENSOR, "a tensor with one range is not quantized by blocks");
    bool is_float4 = scaling_is_float4(op->y.scaling);
    int64_t each = is_float4 ? 2 : 1;
    int64_t parts = op->parts > 0 ? op->parts : 1, height = rows / parts;
    check_rule(name, op->parts >= 0 && rows % parts == 0 && (parts == 1 || !is_float4),
               "the parts must be equal, and in NVFP4 one");
    check_rule(name, height % (is_float4 ? 2 * SIZE_STEP : ROW_STEP) == 0 && columns % (each * SIZE_STEP) == 0,
               "the columns must be a multiple of 16, the rows of 4, both of 32 in NVFP4");
    check_rule(name, is_float4 || (!op->mixes && !op->rounding.row_ids.data), "only NVFP4 is mixed or drawn");
    check_optional(name, "row_ids", op->rounding.row_ids, check_1d(DTYPE_I64, rows));
    check_rule(name, op->rounding.first_column % 8 == 0 && op->rounding.site < 65536,
               "this is not how draws are keyed");
    if (value.data) {
        check_float8(device, name, "y", value);
        check_tensor(name, "y", value, check_2d(value.dtype, rows, columns / each));
        check_scaling(name, op->y.scaling, op->y.range, check_2d(value.dtype, height, columns), parts);
    }
    if (transposed.data) {
        check_float8(device, name, "transposed", transposed);
        check_tensor(name, "transposed", transposed, check_2d(transposed.dtype, columns, rows / each));
        check_scaling(name, op->y.scaling, op->y.transposed_range, check_2d(value.dtype, columns, height), parts);
    }
    check_rule(name, !value.data || !transposed.data || value.dtype == transposed.dtype,
               "both outputs must be of one type");
    check_rule(name, ((value.data ? value : transposed).dtype == DTYPE_E2M1X2) == is_float4,
               "blocks of 16 are E2M1, other blocks are not");
    device->ops->quantize_blocks(device, op);
}

void op_transpose(struct device *device, const struct op_transpose *op) {
    const char *name = "op_transpose";
    check_float8(device, name, "x", op->x);
    check_float8(device, name, "y", op->y);
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    check_rule(name, rows % ROW_STEP == 0 && columns % SIZE_STEP == 0,
               "the columns must be a multiple of 16, the rows of 4");
    check_tensor(name, "x", op->x, check_2d(op->x.dtype, rows, columns));
    check_tensor(name, "y", op->y, check_2d(op->x.dtype, columns, rows));
    check_apart(name, "y", op->y, "x", op->x);
    device->ops->transpose(device, op);
}

void op_move_ranges(struct device *device, const struct op_move_ranges *op) {
    const char *name = "op_move_ranges";
    check_rule(name, op->ranges.rank == 2, "ranges must be a matrix");
    int64_t count = op->ranges.shape[0];
    check_tensor(name, "ranges", op->ranges, check_2d(DTYPE_F32, count, RANGE_LENGTH));
    check_optional(name, "scaled", op->scaled, check_2d(DTYPE_F32, count, RANGE_LENGTH));
    if (op->history.data) {
        check_rule(name, op->history.rank == 2 && op->place >= 0 && op->place < op->history.shape[1],
                   "the latest magnitude has no place in the history");
        check_tensor(name, "history", op->history, check_2d(DTYPE_F32, count, op->history.shape[1]));
    }
    device->ops->move_ranges(device, op);
}
