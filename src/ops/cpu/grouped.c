// Matmuls over ragged groups of rows, one matmul per expert: small groups are one call of OpenBLAS each, or sums in
// double (small.h), in parallel on all threads; larger ones run one after the other, each on all threads. The choice
// depends on the groups alone, and results are bitwise equal for any number of threads.
#include "ops/cpu/cpu.h"
#include "ops/cpu/kernel.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/small.h"
#include <cblas.h>
#include <limits.h>
#include <string.h>

// Number of multiplications up to which packing and threads do not pay off.
enum { SMALL_GROUP = 1 << 20 };

// The matmul of one expert with `count` rows from `first` on.
static struct op_matmul expert_matmul(const struct op_grouped_matmul *op, int64_t e, int64_t first, int64_t count) {
    bool is_weight = op->kind == GROUPED_WEIGHT;
    struct tensor three = is_weight ? op->d : op->b;
    int64_t outputs = three.shape[1], inputs = three.shape[2];
    struct tensor weight = tensor_2d((char *)three.data + (size_t)(e * outputs * inputs) * dtype_bytes(three.dtype),
                                     three.dtype, outputs, inputs);
    struct op_matmul matmul = {.a = tensor_rows(op->a, first, count),
                               .transpose_a = is_weight,
                               .transpose_b = op->kind == GROUPED_FORWARD,
                               .alpha = 1,
                               .beta = op->beta};
    matmul.b = is_weight ? tensor_rows(op->b, first, count) : weight;
    matmul.d = is_weight ? weight : tensor_rows(op->d, first, count);
    return matmul;
}

static struct op_matmul matmul_of(const struct op_grouped_matmul *op, int64_t e) {
    const int32_t *offsets = op->offsets.data;
    return expert_matmul(op, e, offsets[e], offsets[e + 1] - offsets[e]);
}

static bool is_small(const struct op_matmul *op) {
    double size = (double)op->d.shape[0] * (double)op->d.shape[1] * (double)op->a.shape[op->transpose_a ? 0 : 1];
    return op->a.dtype == DTYPE_F32 && size <= SMALL_GROUP && op->a.stride[0] <= INT_MAX && op->b.stride[0] <= INT_MAX;
}

// An expert without rows, or with few.
static void small_group_task(void *context, int64_t e, int thread) {
    (void)thread;
    const struct op_grouped_matmul *op = context;
    struct op_matmul m = matmul_of(op, e);
    int64_t rows = m.a.shape[0], inner = m.a.shape[m.transpose_a ? 0 : 1];
    if (rows == 0) {
        if (op->kind == GROUPED_WEIGHT && op->beta == 0)
            memset(m.d.data, 0, tensor_bytes(m.d));
        return;
    }
    if (!is_small(&m))
        return;
    if (small_is(m.d.shape[0], m.d.shape[1], inner))
        matmul_small(&m);
    else
        cblas_sgemm(CblasRowMajor, m.transpose_a ? CblasTrans : CblasNoTrans, m.transpose_b ? CblasTrans : CblasNoTrans,
                    (blasint)m.d.shape[0], (blasint)m.d.shape[1], (blasint)inner, 1, m.a.data, (blasint)m.a.shape[1],
                    m.b.data, (blasint)m.b.shape[1], m.beta, m.d.data, (blasint)m.d.shape[1]);
}

void half_grouped_matmul(struct device *device, const struct op_grouped_matmul *op) {
    if (dtype_is_float8(op->a.dtype)) {
        cpu_grouped_float8(device, op);
        return;
    }
    int64_t experts = op->offsets.shape[0] - 1;
    cpu_run(device, experts, small_group_task, op);
    for (int64_t e = 0; e < experts; e++) {
        struct op_matmul matmul = matmul_of(op, e);
        if (matmul.a.shape[0] > 0 && !is_small(&matmul))
            half_matmul(device, &matmul);
    }
}

// The most that any expert can need: with all rows, or with so few that another kernel is used.
struct own_need grouped_matmul_own_bytes(const struct device *device, const struct op_grouped_matmul *op) {
    struct own_need most = {0};
    if (dtype_is_float8(op->a.dtype))
        return most;
    for (int64_t i = 0; i <= KERNEL_MOST_ROWS; i++) {
        int64_t rows = i == 0 || i > op->a.shape[0] ? op->a.shape[0] : i;
        struct op_matmul matmul = expert_matmul(op, 0, 0, rows);
        struct own_need need = rows > 0 ? half_own_bytes.matmul(device, &matmul) : (struct own_need){0};
        own_need_raise(&most, &need);
    }
    return most;
}
