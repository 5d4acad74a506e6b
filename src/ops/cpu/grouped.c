// Matmuls over ragged groups of rows: one matmul per expert, each in all threads. Matmuls give the same bits for any
// number of threads, and so do these.
#include "ops/cpu/half.h"
#include "ops/cpu/kernel.h"
#include <string.h>

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

void half_grouped_matmul(struct device *device, const struct op_grouped_matmul *op) {
    const int32_t *offsets = op->offsets.data;
    for (int64_t e = 0; e + 1 < op->offsets.shape[0]; e++) {
        struct op_matmul matmul = expert_matmul(op, e, offsets[e], offsets[e + 1] - offsets[e]);
        if (offsets[e + 1] > offsets[e])
            half_matmul(device, &matmul);
        else if (op->kind == GROUPED_WEIGHT && op->beta == 0)
            device->ops->zero(device, matmul.d.data, tensor_bytes(matmul.d), STREAM_COMPUTE);
    }
}

// The most that any expert can take: all rows, or so few that another kernel serves them.
size_t grouped_matmul_own_bytes(const struct device *device, const struct op_grouped_matmul *op) {
    size_t most = 0;
    for (int64_t i = 0; i <= KERNEL_MOST_ROWS; i++) {
        int64_t rows = i == 0 || i > op->a.shape[0] ? op->a.shape[0] : i;
        struct op_matmul matmul = expert_matmul(op, 0, 0, rows);
        size_t bytes = rows > 0 ? half_own_bytes.matmul(device, &matmul) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}
