// Dropout with the additions around it, forward and backward. One block per row, four columns per thread and step, each
// element read before the same thread writes it: outputs may be the inputs' memory.
#include "ops/cuda/cuda.cuh"

template <typename T> struct dropout_args {
    T *out;             // (N, C); may be x or residual
    const T *x;         // (N, C)
    const T *residual;  // (N, C) or NULL
    const T *bias;      // (C) or NULL
    int64_t columns;
    struct cuda_dropout dropout;
};

// out = residual + dropout(x + bias)
template <typename T> static __global__ void dropout_kernel(dropout_args<T> args) {
    int64_t row = blockIdx.x, columns = args.columns, offset = row * columns;
    for (int64_t column = 4 * threadIdx.x; column < columns; column += 4 * blockDim.x) {
        float x[4], bias[4] = {0, 0, 0, 0}, residual[4] = {0, 0, 0, 0};
        load4(x, args.x + offset, column, columns);
        if (args.bias)
            load4(bias, args.bias, column, columns);
        if (args.residual)
            load4(residual, args.residual + offset, column, columns);
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i] += bias[i];
        dropout_apply(x, args.dropout, row, column);
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i] += residual[i];
        store4(args.out + offset, column, columns, x);
    }
}

static void dropout_run(struct cuda_device *cuda, const struct op_dropout_add *op) {
    int64_t rows = op->x.shape[0], columns = op->x.shape[1];
    if (rows == 0 || columns == 0)
        return;
    WITH_TYPE(op->x.dtype, T, {
        dropout_args<T> args = {};
        args.out = (T *)op->out.data;
        args.x = (const T *)op->x.data;
        args.residual = (const T *)op->residual.data;
        args.bias = (const T *)op->bias.data;
        args.columns = columns;
        args.dropout = cuda_dropout(&op->dropout);
        LAUNCH(cuda, dropout_kernel<T>, grid_x(rows), row_threads(columns), 0, args);
    });
}

extern "C" void cuda_dropout_add(struct device *device, const struct op_dropout_add *op) {
    dropout_run(cuda_use(device), op);
}

// The gradient passes through the same mask: the forward kernel without bias and residual.
extern "C" void cuda_dropout_backward(struct device *device, const struct op_dropout_backward *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct op_dropout_add forward = {};
    forward.out = op->dx;
    forward.x = op->dy;
    forward.dropout = op->dropout;
    dropout_run(cuda, &forward);
    if (op->dbias.data)
        column_sum(cuda, (float *)op->dbias.data, op->dx);
}
