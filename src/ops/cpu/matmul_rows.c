// A few rows times bf16 weights, as in text generation: bound by reading the weights, so they are read once and
// unconverted. A task takes some columns of the result; each element is one sum in fp32, whose order depends on the
// inner dimension alone.
#include "ops/cpu/matmul.h"
#include "ops/cpu/small.h"
#include "tensor/half.h"

enum { COLUMNS_PER_TASK = 64 };

CPU_CLONES static float row_sum(const float *a, const uint16_t *b, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < count; k++)
        sum += a[k] * half_from_bf16(b[k]);
    return sum;
}

// Prefetches the weights of a later column: a row of weights is too short for hardware prefetching.
static void fetch_ahead(const struct op_matmul *op, int64_t column) {
    enum { COLUMNS_AHEAD = 4, LINE = 32 };
    if (column + COLUMNS_AHEAD >= op->d.shape[1])
        return;
    const uint16_t *from = (const uint16_t *)op->b.data + (column + COLUMNS_AHEAD) * op->b.stride[0];
    for (int64_t k = 0; k < op->a.shape[1]; k += LINE)
        __builtin_prefetch(from + k);
}

static void rows_task(void *context, struct cpu_range columns) {
    const struct op_matmul *op = context;
    const struct tensor *target = matmul_target(op);
    int64_t rows = op->d.shape[0], inner = op->a.shape[1];
    float *result = (float *)target->data;
    for (int64_t j = columns.first; j < columns.end; j++) {
        const uint16_t *weights = (const uint16_t *)op->b.data + j * op->b.stride[0];
        fetch_ahead(op, j);
        for (int64_t i = 0; i < rows; i++) {
            float *d = result + i * target->stride[0] + j, addend = 0;
            if (matmul_has_bias(op))
                addend = ((const float *)op->bias.data)[j];
            else if (op->beta != 0)
                addend = op->beta * *d;
            *d = op->alpha * row_sum((const float *)op->a.data + i * op->a.stride[0], weights, inner) + addend;
        }
    }
    matmul_finish(op, &(struct matmul_part){{0, rows}, columns, result + columns.first, target->stride[0]});
}

bool matmul_has_few_rows(const struct device *device, const struct op_matmul *op) {
    const struct cpu_kernel *kernel = cpu_kernel(device, DTYPE_F32);
    return kernel && op->d.shape[0] < kernel->a.width && op->b.dtype == DTYPE_BF16 && !op->transpose_a &&
           op->transpose_b && !small_is(op->d.shape[0], op->d.shape[1], op->a.shape[1]);
}

void matmul_rows(struct device *device, const struct op_matmul *op) {
    cpu_run_ranges(device, op->d.shape[1], COLUMNS_PER_TASK, rows_task, op);
}
