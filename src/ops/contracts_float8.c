// Contracts and checked entry points of operations in fp8 and NVFP4.
#include "ops/contract.h"
#include "base/error.h"

enum { RANGE_BYTES = 16, SIZE_STEP = 16, ROW_STEP = 4 };

void contract_range(struct contract_call *call, struct tensor range) {
    contract_tensor(call, "range", range, F32, "4");
    RULE(call, (uintptr_t)range.data % RANGE_BYTES == 0, "a range must be aligned to 16 bytes");
}

void contract_scaling(struct contract_call *call, enum scaling scaling, struct tensor range,
                      const struct scaled_matrix *matrix) {
    RULE(call, scaling >= 0 && scaling < SCALING_COUNT, "unknown scaling");
    if (scaling == SCALING_TENSOR) {
        contract_range(call, range);
        return;
    }
    struct scales_shape shape = scales_shape(scaling, matrix->rows, matrix->columns);
    contract_set(call, 'a', matrix->parts * shape.rows);
    contract_set(call, 'b', shape.columns);
    contract_tensor(call, "scales", range, DTYPE_BIT(shape.dtype), "a b");
    RULE(call, (uintptr_t)range.data % RANGE_BYTES == 0, "scales must be aligned to 16 bytes");
}

CONTRACT_OF(matmul_float8, matmul, IN(a, SCALED | COMPUTED, "M K", STRIDED), IN(b, SCALED | COMPUTED, "N K", STRIDED),
            OUT(d, ACT, "M N", STRIDED), IN(bias, ACT, "N", IF_ONE_OF(epilogue, 1 << EPILOGUE_BIAS)), APART(d, a),
            APART(d, b));

// The matrix of numbers that an operand holds.
static struct scaled_matrix numbers_of(const struct tensor *t) {
    return (struct scaled_matrix){t->shape[0], t->shape[1] * (t->dtype == DTYPE_E2M1X2 ? 2 : 1), 1};
}

void contract_matmul_scaled(struct contract_call *call, const struct op_matmul *m) {
    const struct scaled_matrix a = numbers_of(&m->a), b = numbers_of(&m->b);
    contract_scaling(call, m->a_scaling, m->a_range, &a);
    contract_scaling(call, m->b_scaling, m->b_range, &b);
    RULE(call,
         (m->a_scaling == SCALING_TENSOR) == (m->b_scaling == SCALING_TENSOR) &&
             (m->a_scaling == SCALING_VECTOR32) == (m->b_scaling == SCALING_VECTOR32) &&
             scaling_is_float4(m->a_scaling) == scaling_is_float4(m->b_scaling) &&
             (m->a.dtype == DTYPE_E2M1X2) == scaling_is_float4(m->a_scaling) &&
             (m->b.dtype == DTYPE_E2M1X2) == scaling_is_float4(m->b_scaling) &&
             !(m->a_scaling == SCALING_BLOCK128 && m->b_scaling == SCALING_BLOCK128),
         "these scalings do not go together");
    RULE(call, !m->transpose_a && m->transpose_b, "an fp8 matmul transposes b only");
    RULE(call, m->a.dtype != DTYPE_E5M2 || m->b.dtype != DTYPE_E5M2, "an fp8 matmul takes at most one E5M2 operand");
    RULE(call, SIZE(call, M) % SIZE_STEP == 0 && SIZE(call, N) % SIZE_STEP == 0 && SIZE(call, K) % SIZE_STEP == 0,
         "the sizes of an fp8 or fp4 matmul must be multiples of 16 bytes");
    RULE(call, m->a.stride[0] % SIZE_STEP == 0 && m->b.stride[0] % SIZE_STEP == 0,
         "fp8 rows must start at multiples of 16 bytes");
    RULE(call, m->epilogue == EPILOGUE_NONE || (m->epilogue == EPILOGUE_BIAS && m->beta == 0),
         "the only epilogue of an fp8 matmul is a bias with beta 0");
}

void contract_stored(struct contract_call *call, const struct operand *y) {
    RULE(call, y->scaling == SCALING_TENSOR || y->scaling == SCALING_VECTOR128 || y->scaling == SCALING_VECTOR32,
         "it is stored with one range, or by blocks of a row");
    const struct tensor *value = &y->value, *transposed = &y->transposed;
    const struct scaled_matrix matrix = {value->shape[0], value->shape[1], 1},
                               other = {transposed->shape[0], transposed->shape[1], 1};
    if (y->scaling == SCALING_TENSOR || value->data)
        contract_scaling(call, y->scaling, y->range, &matrix);
    if (y->scaling != SCALING_TENSOR && transposed->data)
        contract_scaling(call, y->scaling, y->transposed_range, &other);
    RULE(call, !value->data || !transposed->data || value->dtype == transposed->dtype,
         "both outputs must be of one type");
}

static bool is_stored_as(const struct operand *y, enum dtype dtype) {
    return (!y->value.data || y->value.dtype == dtype) && (!y->transposed.data || y->transposed.dtype == dtype);
}

// W columns of x, C stored columns, A columns of the activation whose gradient is computed.
enum { GRADIENTS = 1 << QUANTIZE_ACTIVATION_GRADIENT | 1 << QUANTIZE_GLU_GRADIENT };
SIZED_AND_RULED(quantize, IN(x, ACT, "N W"), IN(bias, ACT, "W", MAYBE), IN(dy, ACT, "N A", IF_ONE_OF(kind, GRADIENTS)),
                STORED(y, "N C", "C N"), ADDED(dbias, F32, "C", MAYBE), STORED(result, "N A", "A N"));

static void quantize_sizes(struct contract_call *call, const struct op_quantize *op) {
    int64_t width = op->x.shape[1];
    RULE(call, op->kind >= QUANTIZE_PLAIN && op->kind <= QUANTIZE_GLU_GRADIENT, "unknown kind of values");
    contract_set(call, 'C', op->kind == QUANTIZE_GLU ? width / 2 : width);
    contract_set(call, 'A', op->kind == QUANTIZE_GLU_GRADIENT ? width / 2 : width);
}

static void quantize_rules(struct contract_call *call, const struct op_quantize *op) {
    bool is_gradient = op->kind >= QUANTIZE_ACTIVATION_GRADIENT;
    contract_activation(call, op->activation);
    RULE(call,
         SIZE(call, N) % ROW_STEP == 0 && SIZE(call, W) % SIZE_STEP == 0 && SIZE(call, A) % 8 == 0 &&
             SIZE(call, C) % 8 == 0,
         "the columns must be a multiple of 16, the rows of 4");
    RULE(call, op->kind != QUANTIZE_PLAIN || !op->bias.data, "plain values have no bias");
    RULE(call, op->y.scaling == SCALING_TENSOR && op->result.scaling == SCALING_TENSOR,
         "blocks are stored by op_quantize_blocks");
    contract_stored(call, &op->y);
    RULE(call, op->kind == QUANTIZE_PLAIN || is_stored_as(&op->y, is_gradient ? DTYPE_E5M2 : DTYPE_E4M3),
         "activations are stored as E4M3, gradients as E5M2");
    if (!op->result.value.data && !op->result.transposed.data)
        return;
    RULE(call, is_gradient, "only gradients compute the activation's result again");
    RULE(call, is_stored_as(&op->result, DTYPE_E4M3), "the activation's result is stored as E4M3");
    contract_stored(call, &op->result);
}

// c and t are the bytes that hold the N or C numbers of a row.
SIZED_AND_RULED(quantize_blocks, IN(x, ACT, "N C"), OUT(y.value, SCALED | COMPUTED, "N c", MAYBE, CALLED("y")),
                OUT(y.transposed, SCALED | COMPUTED, "C t", MAYBE), IN(rounding.row_ids, I64, "N", MAYBE, FREE));

static void quantize_blocks_sizes(struct contract_call *call, const struct op_quantize_blocks *op) {
    int64_t each = scaling_is_float4(op->y.scaling) ? 2 : 1;
    contract_set(call, 'c', op->x.shape[1] / each);
    contract_set(call, 't', op->x.shape[0] / each);
}

static void quantize_blocks_rules(struct contract_call *call, const struct op_quantize_blocks *op) {
    struct tensor value = op->y.value, transposed = op->y.transposed;
    int64_t rows = SIZE(call, N), columns = SIZE(call, C), parts = op->parts > 0 ? op->parts : 1, height = rows / parts;
    bool is_float4 = scaling_is_float4(op->y.scaling);
    RULE(call, op->y.scaling != SCALING_TENSOR, "a tensor with one range is not quantized by blocks");
    RULE(call, op->parts >= 0 && rows % parts == 0 && (parts == 1 || !is_float4),
         "the parts must be equal, and in NVFP4 one");
    RULE(call, height % (is_float4 ? 2 * SIZE_STEP : ROW_STEP) == 0 && columns % (is_float4 ? 32 : SIZE_STEP) == 0,
         "the columns must be a multiple of 16, the rows of 4, both of 32 in NVFP4");
    RULE(call, is_float4 || (!op->mixes && !op->rounding.row_ids.data), "only NVFP4 is mixed or drawn");
    RULE(call, op->rounding.first_column % 8 == 0 && op->rounding.site < 65536, "this is not how draws are keyed");
    const struct scaled_matrix plain = {height, columns, parts}, turned = {columns, height, parts};
    if (value.data)
        contract_scaling(call, op->y.scaling, op->y.range, &plain);
    if (transposed.data)
        contract_scaling(call, op->y.scaling, op->y.transposed_range, &turned);
    RULE(call, !value.data || !transposed.data || value.dtype == transposed.dtype, "both outputs must be of one type");
    RULE(call, ((value.data ? value : transposed).dtype == DTYPE_E2M1X2) == is_float4,
         "blocks of 16 are E2M1, other blocks are not");
}

RULED(transpose, IN(x, SCALED | COMPUTED, "N C"), OUT(y, SCALED | COMPUTED, "C N"), APART(y, x));

static void transpose_rules(struct contract_call *call, const struct op_transpose *op) {
    RULE(call, op->x.dtype == op->y.dtype, "x and y must be of one type");
    RULE(call, SIZE(call, N) % ROW_STEP == 0 && SIZE(call, C) % SIZE_STEP == 0,
         "the columns must be a multiple of 16, the rows of 4");
}

RULED(move_ranges, CHANGED(ranges, F32, "R 4"), CHANGED(scaled, F32, "R 4", MAYBE, ONCE),
      CHANGED(history, F32, "R A", MAYBE, ONCE));

static void move_ranges_rules(struct contract_call *call, const struct op_move_ranges *op) {
    RULE(call, !op->history.data || (op->place >= 0 && op->place < SIZE(call, A)),
         "the latest magnitude has no place in the history");
}
