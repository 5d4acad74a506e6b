// Matrix products: the choice between a micro-kernel of our own and OpenBLAS, and the epilogues of both.
#include "ops/cpu/matmul.h"
#include "ops/cpu/vector_math.h"

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

void matmul_finish(const struct op_matmul *op, struct cpu_range rows, struct cpu_range columns) {
    if (op->epilogue != EPILOGUE_BIAS_ACTIVATION && op->epilogue != EPILOGUE_ACTIVATION_GRADIENT)
        return;
    int64_t count = columns.end - columns.first;
    for (int64_t i = rows.first; i < rows.end; i++) {
        float *d = (float *)op->d.data + i * op->d.stride[0] + columns.first;
        const float *aux = op->aux.data ? (const float *)op->aux.data + i * op->d.shape[1] + columns.first : d;
        if (op->epilogue == EPILOGUE_BIAS_ACTIVATION)
            gelu_row(d, aux, count);
        else
            gelu_gradient_row(d, aux, count);
    }
}

const struct cpu_kernel *matmul_kernel(const struct op_matmul *op) {
    const struct cpu_kernel *kernel = cpu_kernel(op->a.dtype);
    return kernel && op->d.shape[0] >= kernel->rows && op->d.shape[1] >= kernel->columns ? kernel : NULL;
}

void cpu_matmul(struct device *device, const struct op_matmul *op) {
    const struct cpu_kernel *kernel = matmul_kernel(op);
    if (op->d.shape[0] == 0 || op->d.shape[1] == 0)
        return;
    if (kernel)
        matmul_packed(device, op, kernel);
    else
        matmul_blas(device, op);
}
