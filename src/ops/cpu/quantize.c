// fp8 on the CPU, emulated: the reference for the GPU. Values are computed row by row by the float operations, then
// stored one by one.
#include "ops/cpu/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "tensor/float8.h"

#include <math.h>
#include <stdlib.h>

float cpu_element(struct tensor t, int64_t i) {
    if (t.dtype == DTYPE_F32)
        return ((const float *)t.data)[i];
    uint16_t half = ((const uint16_t *)t.data)[i];
    return t.dtype == DTYPE_BF16 ? half_from_bf16(half) : half_from_f16(half);
}

// One row of x with the bias added.
static void biased_row(const struct op_quantize *op, int64_t row, float *out) {
    int64_t width = op->x.shape[1];
    for (int64_t c = 0; c < width; c++)
        out[c] = cpu_element(op->x, row * width + c) + (op->bias.data ? cpu_element(op->bias, c) : 0.0f);
}

// One row of values; x is a row as biased_row gives it. The float operations run on it as a matrix of one row.
static void value_row(struct device *device, const struct op_quantize *op, int64_t row, float *x, float *value) {
    int64_t width = op->x.shape[1], half = width / 2;
    struct tensor whole = tensor_2d(x, DTYPE_F32, 1, width), result = tensor_2d(value, DTYPE_F32, 1, width);
    bool is_glu_gradient = op->kind == QUANTIZE_GLU_GRADIENT;
    float *dy = value + width;  // the row's gradient, beside the result
    if (op->dy.data)
        for (int64_t c = 0; c < op->dy.shape[1]; c++)
            dy[c] = cpu_element(op->dy, row * op->dy.shape[1] + c);
    struct tensor slope = tensor_2d(dy, DTYPE_F32, 1, is_glu_gradient ? half : width);
    switch (op->kind) {
    case QUANTIZE_PLAIN:
        for (int64_t c = 0; c < width; c++)
            value[c] = x[c];
        return;
    case QUANTIZE_ACTIVATION:
        cpu_activation_forward(device,
                               &(struct op_activation_forward){.y = result, .x = whole, .activation = op->activation});
        return;
    case QUANTIZE_GLU:
        result.shape[1] = half;
        cpu_glu_forward(device, &(struct op_glu_forward){.y = result, .x = whole, .activation = op->activation});
        return;
    case QUANTIZE_ACTIVATION_GRADIENT:
        cpu_activation_backward(device, &(struct op_activation_backward){
                                            .dx = result, .dy = slope, .x = whole, .activation = op->activation});
        return;
    case QUANTIZE_GLU_GRADIENT:
        cpu_glu_backward(
            device, &(struct op_glu_backward){.dx = result, .dy = slope, .x = whole, .activation = op->activation});
        return;
    }
}

void cpu_store_row8(const struct operand *to, int64_t row, int64_t rows, int64_t columns, const float *value) {
    const float *range = to->range.data;
    uint8_t *y = to->value.data, *transposed = to->transposed.data;
    enum dtype dtype = y ? to->value.dtype : to->transposed.dtype;
    for (int64_t c = 0; c < columns && (y || transposed); c++) {
        uint8_t code = float8_encode(dtype, value[c] * range[RANGE_SCALE]);
        if (y)
            y[row * columns + c] = code;
        if (transposed)
            transposed[c * rows + row] = code;
    }
}

// Records the largest magnitude, and adds the row to the column sums.
static void see_row(const struct op_quantize *op, int64_t columns, const float *value) {
    float *range = op->y.range.data, *dbias = op->dbias.data;
    for (int64_t c = 0; c < columns; c++) {
        range[RANGE_SEEN] = fmaxf(range[RANGE_SEEN], cpu_seen_size(value[c]));
        if (dbias)
            dbias[c] += value[c];
    }
}

// Stores the forward pass's result again, from the same row.
static void store_result(struct device *device, const struct op_quantize *op, int64_t row, float *x, float *value) {
    struct op_quantize forward = {.kind = op->kind == QUANTIZE_GLU_GRADIENT ? QUANTIZE_GLU : QUANTIZE_ACTIVATION,
                                  .activation = op->activation,
                                  .x = op->x};
    value_row(device, &forward, row, x, value);
    cpu_store_row8(&op->result, row, op->x.shape[0], op->dy.shape[1], value);
}

void cpu_quantize(struct device *device, const struct op_quantize *op) {
    int64_t width = op->x.shape[1], columns = op->kind == QUANTIZE_GLU ? width / 2 : width;
    float *x = memory_alloc(sizeof *x * (size_t)(3 * width)), *value = x + width;
    for (int64_t row = 0; row < op->x.shape[0]; row++) {
        biased_row(op, row, x);
        value_row(device, op, row, x, value);
        see_row(op, columns, value);
        cpu_store_row8(&op->y, row, op->x.shape[0], columns, value);
        if (op->result.value.data || op->result.transposed.data)
            store_result(device, op, row, x, value);
    }
    free(x);
}

void cpu_transpose(struct device *device, const struct op_transpose *op) {
    (void)device;
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    const uint8_t *x = op->x.data;
    uint8_t *y = op->y.data;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            y[column * rows + row] = x[row * columns + column];
}

void cpu_move_ranges(struct device *device, const struct op_move_ranges *op) {
    (void)device;
    int64_t length = op->history.data ? op->history.shape[1] : 0;
    float *scaled = op->scaled.data ? op->scaled.data : op->ranges.data;
    for (int64_t i = 0; i < op->ranges.shape[0]; i++, scaled += RANGE_LENGTH) {
        float *range = (float *)op->ranges.data + i * RANGE_LENGTH;
        float *history = length > 0 ? (float *)op->history.data + i * length : NULL;
        float expected = range[RANGE_SEEN];
        range[RANGE_SEEN] = 0;
        if (length > 0)
            history[op->place] = isfinite(expected) ? expected : 0;
        for (int64_t k = 0; k < length && op->takes_largest; k++)
            expected = fmaxf(expected, history[k]);
        float scale = scaled[RANGE_LARGEST] / expected * ldexpf(1, -op->margin);
        if (expected > 0 && isfinite(expected) && isfinite(scale))
            scaled[RANGE_SCALE] = scale;
        scaled[RANGE_FACTOR] = 1.0f / scaled[RANGE_SCALE];
    }
}

// A matmul in fp8; operands are decoded to floats.
struct float8_job {
    const struct op_matmul *op;
    float first[256], second[256];  // decoded values of the codes of a and b
};

static float decoded_dot(const struct float8_job *job, const uint8_t *a, const uint8_t *b, int64_t count) {
    double sum = 0;
    for (int64_t k = 0; k < count; k++)
        sum += (double)(job->first[a[k]] * job->second[b[k]]);
    return (float)sum;
}

void cpu_store_element(struct tensor t, int64_t i, float value) {
    if (t.dtype == DTYPE_F32)
        ((float *)t.data)[i] = value;
    else
        ((uint16_t *)t.data)[i] = t.dtype == DTYPE_BF16 ? half_to_bf16(value) : half_to_f16(value);
}

static void matmul_task(void *context, int64_t row, int thread) {
    (void)thread;
    const struct float8_job *job = context;
    const struct op_matmul *op = job->op;
    const uint8_t *a = (const uint8_t *)op->a.data + row * op->a.stride[0];
    for (int64_t column = 0; column < op->d.shape[1]; column++) {
        const uint8_t *b = (const uint8_t *)op->b.data + column * op->b.stride[0];
        int64_t place = row * op->d.stride[0] + column;
        float value = op->alpha * decoded_dot(job, a, b, op->a.shape[1]);
        if (op->beta != 0)
            value += op->beta * cpu_element(op->d, place);
        if (op->epilogue == EPILOGUE_BIAS)
            value += cpu_element(op->bias, column);
        cpu_store_element(op->d, place, value);
    }
}

void cpu_matmul_float8(struct device *device, const struct op_matmul *op) {
    struct float8_job job = {.op = op};
    if (op->a_scaling != SCALING_TENSOR) {
        cpu_matmul_blocks(device, op);
        return;
    }
    for (int code = 0; code < 256; code++) {
        job.first[code] = float8_decode(op->a.dtype, (uint8_t)code) * ((const float *)op->a_range.data)[RANGE_FACTOR];
        job.second[code] = float8_decode(op->b.dtype, (uint8_t)code) * ((const float *)op->b_range.data)[RANGE_FACTOR];
    }
    cpu_run(device, op->d.shape[0], matmul_task, &job);
}
