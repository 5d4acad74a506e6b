// Activations by themselves, and gated units. A row is worked on in pieces that stay in the nearest cache, so that a
// gated unit can use the plain functions below for its gate and then multiply.
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/vector_math.h"
#include <math.h>
#include <string.h>

enum { PIECE = 256 };

CPU_CLONES static void gelu_tanh(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = vector_gelu(x[i]);
}

CPU_CLONES static void gelu_tanh_gradient(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = vector_gelu_gradient(x[i]);
}

CPU_CLONES static void gelu(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = vector_gelu_erf(x[i]);
}

CPU_CLONES static void gelu_gradient(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = vector_gelu_erf_gradient(x[i]);
}

// NaN is not below 0 and so passes through.
CPU_CLONES static void relu(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0.0f : x[i];
}

CPU_CLONES static void relu_gradient(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] > 0 ? 1.0f : 0.0f;
}

CPU_CLONES static void squared_relu(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0.0f : x[i] * x[i];
}

CPU_CLONES static void squared_relu_gradient(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] > 0 ? 2.0f * x[i] : 0.0f;
}

CPU_CLONES static void silu(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = vector_silu(x[i]);
}

CPU_CLONES static void silu_gradient(float *y, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        y[i] = vector_silu_gradient(x[i]);
}

// Only a pooler uses these two, on one row per sample.
static void tangent(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        y[i] = tanhf(x[i]);
}

static void tangent_gradient(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        y[i] = 1.0f - tanhf(x[i]) * tanhf(x[i]);
}

const struct cpu_activation cpu_activations[ACTIVATION_COUNT] = {
    [ACTIVATION_GELU_TANH] = {gelu_tanh, gelu_tanh_gradient},
    [ACTIVATION_GELU] = {gelu, gelu_gradient},
    [ACTIVATION_RELU] = {relu, relu_gradient},
    [ACTIVATION_SQUARED_RELU] = {squared_relu, squared_relu_gradient},
    [ACTIVATION_SILU] = {silu, silu_gradient},
    [ACTIVATION_TANH] = {tangent, tangent_gradient},
};

CPU_CLONES static void multiply(float *out, const float *a, const float *b, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] * b[i];
}

static void activation_forward_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_activation_forward *op = context;
    struct cpu_range range = cpu_piece(tensor_count(op->x), CPU_FLAT_CHUNK / 4, index);
    cpu_activations[op->activation].value((float *)op->y.data + range.first, (const float *)op->x.data + range.first,
                                          range.end - range.first);
}

void cpu_activation_forward(struct device *device, const struct op_activation_forward *op) {
    cpu_run(device, cpu_pieces(tensor_count(op->x), CPU_FLAT_CHUNK / 4), activation_forward_task, op);
}

static void activation_backward_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_activation_backward *op = context;
    struct cpu_range range = cpu_piece(tensor_count(op->x), CPU_FLAT_CHUNK / 4, index);
    float value[PIECE], slope[PIECE];
    for (int64_t first = range.first; first < range.end; first += PIECE) {
        int64_t count = range.end - first < PIECE ? range.end - first : PIECE;
        cpu_activations[op->activation].gradient(slope, (const float *)op->x.data + first, count);
        if (op->y.data)
            cpu_activations[op->activation].value(value, (const float *)op->x.data + first, count);
        multiply((float *)op->dx.data + first, (const float *)op->dy.data + first, slope, count);
        if (op->y.data)  // the last write, because dx may lie where x does and y where dy does
            memcpy((float *)op->y.data + first, value, (size_t)count * sizeof *value);
    }
}

void cpu_activation_backward(struct device *device, const struct op_activation_backward *op) {
    cpu_run(device, cpu_pieces(tensor_count(op->x), CPU_FLAT_CHUNK / 4), activation_backward_task, op);
}

static void glu_forward_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_glu_forward *op = context;
    int64_t width = op->y.shape[1];
    struct cpu_range rows = cpu_piece(op->y.shape[0], cpu_rows_per_task(width), index);
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *gate = (const float *)op->x.data + n * 2 * width, *up = gate + width;
        float *y = (float *)op->y.data + n * width;
        for (int64_t c = 0; c < width; c += PIECE) {
            int64_t count = width - c < PIECE ? width - c : PIECE;
            cpu_activations[op->activation].value(y + c, gate + c, count);
            multiply(y + c, y + c, up + c, count);
        }
    }
}

void cpu_glu_forward(struct device *device, const struct op_glu_forward *op) {
    cpu_run(device, cpu_pieces(op->y.shape[0], cpu_rows_per_task(op->y.shape[1])), glu_forward_task, op);
}

static void glu_backward_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_glu_backward *op = context;
    int64_t width = op->dy.shape[1];
    struct cpu_range rows = cpu_piece(op->dy.shape[0], cpu_rows_per_task(width), index);
    float value[PIECE], slope[PIECE], again[PIECE];
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *gate = (const float *)op->x.data + n * 2 * width, *up = gate + width;
        const float *dy = (const float *)op->dy.data + n * width;
        float *dgate = (float *)op->dx.data + n * 2 * width, *dup = dgate + width;
        float *y = op->y.data ? (float *)op->y.data + n * width : NULL;
        for (int64_t c = 0; c < width; c += PIECE) {
            int64_t count = width - c < PIECE ? width - c : PIECE;
            cpu_activations[op->activation].value(value, gate + c, count);
            cpu_activations[op->activation].gradient(slope, gate + c, count);
            multiply(slope, slope, up + c, count);
            if (y)
                multiply(again, value, up + c, count);  // the last read of what dx may overwrite
            multiply(dgate + c, dy + c, slope, count);
            multiply(dup + c, dy + c, value, count);
            if (y)
                memcpy(y + c, again, (size_t)count * sizeof *again);
        }
    }
}

void cpu_glu_backward(struct device *device, const struct op_glu_backward *op) {
    cpu_run(device, cpu_pieces(op->dy.shape[0], cpu_rows_per_task(op->dy.shape[1])), glu_backward_task, op);
}
