// Plain activations and gated units. A row is processed in pieces that stay in the L1 cache, so a gated unit can use
// the plain functions below for its gate and then multiply.
#include "ops/cpu/cpu.h"
#include "ops/cpu/vector_math.h"
#include <math.h>
#include <string.h>

enum { PIECE = 256 };

static const float QUICK = 1.702f;

// y[i] = value, an expression of x[i].
#define EACH(name_, value_)                                                                                            \
    CPU_CLONES static void name_(float *y, const float *x, int64_t count) {                                            \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) y[i] = value_;                                         \
    }

// clang-format off
EACH(gelu_tanh, vector_gelu(x[i]))
EACH(gelu_tanh_gradient, vector_gelu_gradient(x[i]))
EACH(gelu, vector_gelu_erf(x[i]))
EACH(gelu_gradient, vector_gelu_erf_gradient(x[i]))
// NaN is not below 0 and so passes through.
EACH(relu, x[i] < 0 ? 0.0f : x[i])
EACH(relu_gradient, x[i] > 0 ? 1.0f : 0.0f)
EACH(squared_relu, x[i] < 0 ? 0.0f : x[i] * x[i])
EACH(squared_relu_gradient, x[i] > 0 ? 2.0f * x[i] : 0.0f)
EACH(silu, vector_silu(x[i]))
EACH(silu_gradient, vector_silu_gradient(x[i]))
EACH(quick_gelu, x[i] * vector_logistic(QUICK * x[i]))
// The slope of SiLU at 1.702 x.
EACH(quick_gelu_gradient, vector_silu_gradient(QUICK * x[i]))
// clang-format on

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
    [ACTIVATION_QUICK_GELU] = {quick_gelu, quick_gelu_gradient},
};

bool cpu_glu_has_rule(struct glu_rule rule) {
    return rule.limit > 0 || rule.offset != 0;
}

// NaN passes through.
CPU_CLONES void cpu_glu_prepare(float *gate, float *up, struct glu_rule rule, int64_t count) {
    float limit = rule.limit > 0 ? rule.limit : INFINITY;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float least = up[i] < -limit ? -limit : up[i];
        gate[i] = gate[i] > limit ? limit : gate[i];
        up[i] = (least > limit ? limit : least) + rule.offset;
    }
}

CPU_CLONES void cpu_glu_mask(float *dgate, float *dup, const float *gate, const float *up, float limit, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        dgate[i] = gate[i] > limit ? 0.0f : dgate[i];
        dup[i] = up[i] > limit || up[i] < -limit ? 0.0f : dup[i];
    }
}

CPU_CLONES static void multiply(float *out, const float *a, const float *b, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] * b[i];
}

static void activation_forward_task(void *context, struct cpu_range range) {
    const struct op_activation_forward *op = context;
    cpu_activations[op->activation].value((float *)op->y.data + range.first, (const float *)op->x.data + range.first,
                                          range.end - range.first);
}

void cpu_activation_forward(struct device *device, const struct op_activation_forward *op) {
    cpu_run_ranges(device, tensor_count(op->x), CPU_FLAT_CHUNK / 4, activation_forward_task, op);
}

static void activation_backward_task(void *context, struct cpu_range range) {
    const struct op_activation_backward *op = context;
    float value[PIECE], slope[PIECE];
    for (int64_t first = range.first; first < range.end; first += PIECE) {
        int64_t count = range.end - first < PIECE ? range.end - first : PIECE;
        cpu_activations[op->activation].gradient(slope, (const float *)op->x.data + first, count);
        if (op->y.data)
            cpu_activations[op->activation].value(value, (const float *)op->x.data + first, count);
        multiply((float *)op->dx.data + first, (const float *)op->dy.data + first, slope, count);
        if (op->y.data)  // the last write: dx may alias x, and y may alias dy
            memcpy((float *)op->y.data + first, value, (size_t)count * sizeof *value);
    }
}

void cpu_activation_backward(struct device *device, const struct op_activation_backward *op) {
    cpu_run_ranges(device, tensor_count(op->x), CPU_FLAT_CHUNK / 4, activation_backward_task, op);
}

// A piece of both halves; if there is a rule, it is prepared in `memory`.
struct glu_piece {
    const float *gate, *up;
};
static struct glu_piece glu_piece(const float *gate, const float *up, struct glu_rule rule, int64_t count,
                                  float memory[2][PIECE]) {
    if (!cpu_glu_has_rule(rule))
        return (struct glu_piece){gate, up};
    memcpy(memory[0], gate, (size_t)count * sizeof *gate);
    memcpy(memory[1], up, (size_t)count * sizeof *up);
    cpu_glu_prepare(memory[0], memory[1], rule, count);
    return (struct glu_piece){memory[0], memory[1]};
}

static void glu_forward_task(void *context, struct cpu_range rows) {
    const struct op_glu_forward *op = context;
    int64_t width = op->y.shape[1];
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *gate = (const float *)op->x.data + n * 2 * width, *up = gate + width;
        float *y = (float *)op->y.data + n * width, memory[2][PIECE];
        for (int64_t c = 0; c < width; c += PIECE) {
            int64_t count = width - c < PIECE ? width - c : PIECE;
            struct glu_piece piece = glu_piece(gate + c, up + c, op->rule, count, memory);
            cpu_activations[op->activation].value(y + c, piece.gate, count);
            multiply(y + c, y + c, piece.up, count);
        }
    }
}

void cpu_glu_forward(struct device *device, const struct op_glu_forward *op) {
    cpu_run_ranges(device, op->y.shape[0], cpu_rows_per_task(op->y.shape[1]), glu_forward_task, op);
}

static void glu_backward_task(void *context, struct cpu_range rows) {
    const struct op_glu_backward *op = context;
    int64_t width = op->dy.shape[1];
    float value[PIECE], slope[PIECE], again[PIECE], memory[2][PIECE];
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *gate = (const float *)op->x.data + n * 2 * width, *up = gate + width;
        const float *dy = (const float *)op->dy.data + n * width;
        float *dgate = (float *)op->dx.data + n * 2 * width, *dup = dgate + width;
        float *y = op->y.data ? (float *)op->y.data + n * width : NULL;
        for (int64_t c = 0; c < width; c += PIECE) {
            int64_t count = width - c < PIECE ? width - c : PIECE;
            struct glu_piece piece = glu_piece(gate + c, up + c, op->rule, count, memory);
            cpu_activations[op->activation].value(value, piece.gate, count);
            cpu_activations[op->activation].gradient(slope, piece.gate, count);
            multiply(slope, slope, piece.up, count);
            if (y)
                multiply(again, value, piece.up, count);
            if (op->rule.limit > 0)  // the last read of data that dx may overwrite
                cpu_glu_mask(slope, value, gate + c, up + c, op->rule.limit, count);
            multiply(dgate + c, dy + c, slope, count);
            multiply(dup + c, dy + c, value, count);
            if (y)
                memcpy(y + c, again, (size_t)count * sizeof *again);
        }
    }
}

void cpu_glu_backward(struct device *device, const struct op_glu_backward *op) {
    cpu_run_ranges(device, op->dy.shape[0], cpu_rows_per_task(op->dy.shape[1]), glu_backward_task, op);
}
