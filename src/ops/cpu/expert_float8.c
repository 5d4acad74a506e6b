// fp8 of experts on the CPU, emulated as for other layers (quantize.c, blocks.c): rows at their places and activations
// are computed by the float operations and then stored; matmuls over groups are plain loops.
#include "base/memory.h"
#include "ops/cpu/pieces.h"
#include "tensor/float8.h"

#include <math.h>
#include <stdlib.h>

// Stores a matrix of floats; if `sees`, the range records its largest magnitude.
static void store_rows(const struct operand *to, const float *value, int64_t rows, int64_t columns, bool sees) {
    if (to->scaling != SCALING_TENSOR) {
        cpu_store_blocks(to, value, rows, columns, 1);
        return;
    }
    float *seen = (float *)to->range.data + RANGE_SEEN;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < columns && sees; c++)
            *seen = fmaxf(*seen, cpu_seen_size(value[row * columns + c]));
        cpu_store_row8(to, row, rows, columns, value + row * columns);
    }
}

void cpu_quantize_slots(struct device *device, const struct op_quantize_slots *op) {
    int64_t rows = op->sources.shape[0], columns = op->x.shape[1];
    float *value = memory_alloc(sizeof *value * (size_t)(rows * columns + 1));
    const int32_t *sources = op->sources.data;
    (void)device;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t c = 0; c < columns; c++)
            value[row * columns + c] =
                sources[row] < 0 ? 0 : cpu_element(op->x, sources[row] / op->per_row * columns + c);
    store_rows(&op->y, value, rows, columns, true);
    free(value);
}

void cpu_quantize_expert_forward(struct device *device, const struct op_quantize_expert_forward *op) {
    int64_t rows = op->x.shape[0], columns = op->is_gated ? op->x.shape[1] / 2 : op->x.shape[1];
    float *value = memory_alloc(sizeof *value * (size_t)(rows * columns + 1));
    struct op_expert_activation_forward plain = {.y = tensor_2d(value, DTYPE_F32, rows, columns),
                                                 .x = op->x,
                                                 .weights = op->weights,
                                                 .offsets = op->offsets,
                                                 .sources = op->sources,
                                                 .activation = op->activation,
                                                 .is_gated = op->is_gated,
                                                 .rule = op->rule};
    cpu_expert_activation_forward(device, &plain);
    store_rows(&op->y, value, rows, columns, true);
    free(value);
}

void cpu_quantize_expert_backward(struct device *device, const struct op_quantize_expert_backward *op) {
    int64_t rows = op->x.shape[0], width = op->x.shape[1], columns = op->dy.shape[1];
    float *dx = memory_alloc(sizeof *dx * (size_t)(rows * (width + columns) + 1)), *y = dx + rows * width;
    struct op_expert_activation_backward plain = {.dx = tensor_2d(dx, DTYPE_F32, rows, width),
                                                  .y = tensor_2d(y, DTYPE_F32, rows, columns),
                                                  .dweights = op->dweights,
                                                  .dy = op->dy,
                                                  .x = op->x,
                                                  .weights = op->weights,
                                                  .offsets = op->offsets,
                                                  .sources = op->sources,
                                                  .activation = op->activation,
                                                  .is_gated = op->is_gated,
                                                  .rule = op->rule};
    cpu_expert_activation_backward(device, &plain);
    store_rows(&op->dx, dx, rows, width, true);
    store_rows(&op->y, y, rows, columns, false);
    free(dx);
}

struct grouped_float8_job {
    const struct op_grouped_matmul *op;
    float first[256], second[256];  // decoded values of the codes of a and b
    float *a, *b;                   // by blocks: the dequantized a and b
};

// Eight partial sums, so that compilers vectorize the loop. `count` is a multiple of 16.
static float restored_dot(const float *a, const float *b, int64_t count) {
    enum { LANES = 8 };
    double part[LANES] = {0}, sum = 0;
    for (int64_t k = 0; k < count; k += LANES)
        for (int i = 0; i < LANES; i++)
            part[i] += (double)a[k + i] * (double)b[k + i];
    for (int i = 0; i < LANES; i++)
        sum += part[i];
    return (float)sum;
}

// The dot product of `count` elements of a and b, from these positions.
static float decoded_dot(const struct grouped_float8_job *job, int64_t a_first, int64_t b_first, int64_t count) {
    const uint8_t *a = (const uint8_t *)job->op->a.data + a_first, *b = (const uint8_t *)job->op->b.data + b_first;
    double sum = 0;
    if (job->a)
        return restored_dot(job->a + a_first, job->b + b_first, count);
    for (int64_t k = 0; k < count; k++)
        sum += (double)(job->first[a[k]] * job->second[b[k]]);
    return (float)sum;
}

// Computes a row of d: of a place, or of an expert's outputs.
static void grouped_row_task(void *context, int64_t row, int thread) {
    (void)thread;
    const struct grouped_float8_job *job = context;
    const struct op_grouped_matmul *op = job->op;
    const int32_t *offsets = op->offsets.data;
    int64_t experts = op->offsets.shape[0] - 1, columns = op->d.shape[op->d.rank - 1];
    if (op->kind == GROUPED_WEIGHT) {
        int64_t outputs = op->d.shape[1], e = row / outputs, R = op->a.shape[1], first = offsets[e];
        float *d = (float *)op->d.data + row * columns;
        for (int64_t i = 0; i < columns; i++)
            d[i] = (op->beta != 0 ? d[i] : 0) +
                   decoded_dot(job, row % outputs * R + first, i * R + first, offsets[e + 1] - first);
        return;
    }
    int64_t inner = op->a.shape[1], e = piece_expert(offsets, experts, 0, row);
    bool is_forward = op->kind == GROUPED_FORWARD;
    int64_t stride = is_forward ? inner : experts * inner, start = e * (is_forward ? columns * inner : inner);
    for (int64_t c = 0; c < columns && e < experts; c++)
        cpu_store_element(op->d, row * columns + c, decoded_dot(job, row * inner, start + c * stride, inner));
}

// Dequantizes operands by blocks. Those of weights have a part for each expert.
static void restore_operands(struct grouped_float8_job *job) {
    const struct op_grouped_matmul *op = job->op;
    struct operand a = {.value = op->a, .range = op->a_range, .scaling = op->a_scaling};
    struct operand b = {.range = op->b_range, .scaling = op->b_scaling};
    if (op->kind == GROUPED_INPUT)
        b.transposed = op->b;
    else
        b.value = op->b.rank == 3 ? tensor_reshape_2d(op->b, op->b.shape[0] * op->b.shape[1], op->b.shape[2]) : op->b;
    job->a = cpu_restored_parts(&a, 1);
    job->b = cpu_restored_parts(&b, op->kind == GROUPED_WEIGHT ? 1 : op->offsets.shape[0] - 1);
}

void cpu_grouped_float8(struct device *device, const struct op_grouped_matmul *op) {
    struct grouped_float8_job job = {.op = op};
    bool has_blocks = op->a_scaling != SCALING_TENSOR;
    if (has_blocks)
        restore_operands(&job);
    for (int code = 0; code < 256 && !has_blocks; code++) {
        job.first[code] = float8_decode(op->a.dtype, (uint8_t)code) * ((const float *)op->a_range.data)[RANGE_FACTOR];
        job.second[code] = float8_decode(op->b.dtype, (uint8_t)code) * ((const float *)op->b_range.data)[RANGE_FACTOR];
    }
    int64_t columns = op->d.shape[op->d.rank - 1];
    cpu_run(device, columns > 0 ? tensor_count(op->d) / columns : 0, grouped_row_task, &job);
    free(job.a);
    free(job.b);
}
