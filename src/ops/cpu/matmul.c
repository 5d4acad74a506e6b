// Matmuls: the choice between our own micro-kernel, OpenBLAS, sums over bf16 weights (for few rows) and sums in double
// (small matmuls), and the epilogues of all.
#include "ops/cpu/matmul.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/small.h"
#include "ops/cpu/vector_math.h"
#include "tensor/half.h"

CPU_CLONES static void gelu_row(float *d, const float *aux, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        d[j] = vector_gelu(aux[j]);
}

CPU_CLONES static void gelu_gradient_row(float *d, const float *aux, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        d[j] *= vector_gelu_gradient(aux[j]);
}

static void finish_row(const struct op_matmul *op, float *d, const float *aux, int64_t count) {
    if (op->epilogue == EPILOGUE_BIAS_ACTIVATION)
        gelu_row(d, aux, count);
    else if (op->epilogue == EPILOGUE_ACTIVATION_GRADIENT)
        gelu_gradient_row(d, aux, count);
}

// aux of a gradient is read in short pieces of distant rows, which hardware does not prefetch. Prefetches these columns
// of a row some rows below this one, if there is one.
static void fetch_aux(const struct op_matmul *op, struct cpu_range rows, int64_t row, struct cpu_range columns) {
    enum { ROWS_AHEAD = 8, LINE_BYTES = 64 };
    int64_t size = (int64_t)dtype_bytes(op->aux.dtype), ahead = row + ROWS_AHEAD;
    if (op->epilogue != EPILOGUE_ACTIVATION_GRADIENT || !op->aux.data || ahead >= rows.end)
        return;
    const char *from = (const char *)op->aux.data + (ahead * op->d.shape[1] + columns.first) * size;
    for (int64_t i = 0; i < (columns.end - columns.first) * size; i += LINE_BYTES)
        __builtin_prefetch(from + i);
}

// The epilogue if the matmul's result is in a buffer and d and aux are bf16; a piece of a row at a time.
static void finish_half(const struct op_matmul *op, const struct matmul_part *part) {
    enum { PIECE = 128 };
    float aux_piece[PIECE];
    for (int64_t i = part->rows.first; i < part->rows.end; i++) {
        fetch_aux(op, part->rows, i, part->columns);
        for (int64_t j = part->columns.first; j < part->columns.end; j += PIECE) {
            int64_t count = part->columns.end - j < PIECE ? part->columns.end - j : PIECE;
            float *result = part->result + (i - part->rows.first) * part->stride + j - part->columns.first;
            uint16_t *d = (uint16_t *)op->d.data + i * op->d.stride[0] + j;
            uint16_t *aux = op->aux.data ? (uint16_t *)op->aux.data + i * op->d.shape[1] + j : NULL;
            if (aux && op->epilogue == EPILOGUE_BIAS_ACTIVATION)
                cpu_convert(aux, DTYPE_BF16, result, DTYPE_F32, count);
            else if (aux)
                cpu_convert(aux_piece, DTYPE_F32, aux, DTYPE_BF16, count);
            finish_row(op, result, op->epilogue == EPILOGUE_ACTIVATION_GRADIENT ? aux_piece : result, count);
            cpu_convert(d, DTYPE_BF16, result, DTYPE_F32, count);
        }
    }
}

void matmul_finish(const struct op_matmul *op, const struct matmul_part *part) {
    if (op->d.dtype != DTYPE_F32) {
        finish_half(op, part);
        return;
    }
    int64_t first = part->columns.first, count = part->columns.end - first;
    for (int64_t i = part->rows.first; i < part->rows.end; i++) {
        fetch_aux(op, part->rows, i, part->columns);
        float *d = (float *)op->d.data + i * op->d.stride[0] + first;
        const float *aux = op->aux.data ? (const float *)op->aux.data + i * op->d.shape[1] + first : d;
        finish_row(op, d, aux, count);
    }
}

static const struct cpu_kernel *kernel_of(const struct device *device, const struct op_matmul *op, enum dtype dtype) {
    const struct cpu_kernel *const *kernel = ((const struct cpu_device *)device)->kernels;
    while (*kernel &&
           ((*kernel)->dtype != dtype || op->d.shape[0] < (*kernel)->a.width || op->d.shape[1] < (*kernel)->b.width))
        kernel++;
    return *kernel;
}

static bool has_few_products(const struct op_matmul *op) {
    return small_is(op->d.shape[0], op->d.shape[1], op->a.shape[op->transpose_a ? 0 : 1]);
}

const struct cpu_kernel *matmul_kernel(const struct device *device, const struct op_matmul *op) {
    const struct cpu_kernel *kernel = kernel_of(device, op, op->a.dtype);
    bool may_widen = op->a.dtype == op->b.dtype && (op->a.dtype == DTYPE_BF16 || op->a.dtype == DTYPE_F16);
    return !kernel && may_widen && !has_few_products(op) ? kernel_of(device, op, DTYPE_F32) : kernel;
}

static bool is_small(const struct op_matmul *op) {
    return op->a.dtype == DTYPE_F32 && op->b.dtype == DTYPE_F32 && op->d.dtype == DTYPE_F32 && has_few_products(op);
}

void matmul_small(const struct op_matmul *op) {
    const struct tensor *target = matmul_target(op);
    int64_t a_stride = op->a.stride[0], b_stride = op->b.stride[0], rows = op->d.shape[0], columns = op->d.shape[1];
    bool has_bias = matmul_has_bias(op);
    small_multiply(&(struct small_matmul){
        .a = {op->a.data, op->transpose_a ? 1 : a_stride, op->transpose_a ? a_stride : 1},
        .b = {op->b.data, op->transpose_b ? b_stride : 1, op->transpose_b ? 1 : b_stride},
        .rows = rows,
        .columns = columns,
        .inner = op->a.shape[op->transpose_a ? 0 : 1],
        .factor = (double)op->alpha,
        .addend_factor = has_bias ? 1 : (double)op->beta,
        .addend = has_bias        ? op->bias.data
                  : op->beta != 0 ? target->data
                                  : NULL,
        .addend_stride = has_bias ? 0 : target->stride[0],
        .d = target->data,
        .stride = target->stride[0],
    });
    matmul_finish(op, &(struct matmul_part){{0, rows}, {0, columns}, target->data, target->stride[0]});
}

// ---- few rows ----

// A few rows times bf16 weights, as in text generation: bound by reading the weights, so they are read once and
// unconverted. A task takes some columns of the result; each element is one sum in fp32, whose order depends on the
// inner dimension alone.

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

// ---- all matmuls ----

void cpu_matmul(struct device *device, const struct op_matmul *op) {
    if (op->d.shape[0] == 0 || op->d.shape[1] == 0)
        return;
    if (is_small(op)) {
        matmul_small(op);
        return;
    }
    const struct cpu_kernel *kernel = matmul_kernel(device, op);
    if (op->a.dtype != op->b.dtype)
        cpu_run_ranges(device, op->d.shape[1], COLUMNS_PER_TASK, rows_task, op);
    else if (kernel)
        matmul_packed(device, op, kernel);
    else
        matmul_blas(device, op);
}
