// Every operation in 16 bits is the fp32 one between two conversions: its 16-bit inputs are widened into memory of the
// device's own, and its 16-bit outputs are rounded out of it. So sums are in fp32 and each stored number is rounded
// once, which is what makes this backend the truth for those that compute in 16 bits. What an operation reads and
// writes is listed below, tensor by tensor; those of other dtypes pass as they are. Products alone may take bf16
// operands as they are: what processors with instructions for them add up is fp32 too.
//
// The memory grows to the largest operation in the first step and stays. It is not part of the plan of a step: 16 bits
// on the CPU are for small models.
#include "ops/cpu/half.h"
#include "ops/cpu/matmul.h"
#include "base/error.h"
#include "base/memory.h"
#include <stddef.h>

enum { READ = 1, WRITTEN = 2, CHANGED = READ | WRITTEN };

struct field {
    size_t offset;  // of a struct tensor in the operation
    int use;
};

static bool is_half(const struct tensor *t) {
    return t->data && (t->dtype == DTYPE_BF16 || t->dtype == DTYPE_F16);
}

static struct tensor *tensor_at(void *op, const struct field *field) {
    return (struct tensor *)(void *)((char *)op + field->offset);
}

static size_t wide_bytes(const struct tensor *t) {
    return ((size_t)tensor_count(*t) * sizeof(float) + 63) / 64 * 64;
}

static void reserve(struct cpu_device *cpu, size_t bytes) {
    if (bytes <= cpu->wide_bytes)
        return;
    device_free(&cpu->base, cpu->wide);
    cpu->wide = device_alloc(&cpu->base, bytes);
    if (!cpu->wide)
        die_code(EXIT_CODE_OUT_OF_MEMORY, "computing in 16 bits on the CPU: %s", error_message());
    cpu->wide_bytes = bytes;
}

static struct tensor widened(const struct tensor *t, void *memory) {
    struct tensor wide = *t;
    wide.data = memory;
    wide.dtype = DTYPE_F32;
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        wide.stride[i] = stride;
        stride *= t->shape[i];
    }
    return wide;
}

// Puts fp32 tensors in the place of 16-bit ones; false if there are none.
static bool widen(struct device *device, void *op, const struct field *fields, size_t count) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (is_half(tensor_at(op, &fields[i])))
            bytes += wide_bytes(tensor_at(op, &fields[i]));
    if (bytes == 0)
        return false;
    reserve(cpu, bytes);
    char *memory = cpu->wide;
    for (size_t i = 0; i < count; i++) {
        struct tensor *t = tensor_at(op, &fields[i]), half = *t;
        if (!is_half(t))
            continue;
        *t = widened(&half, memory);
        memory += wide_bytes(&half);
        if (fields[i].use & READ)
            cpu_copy(device, &(struct op_copy){.dst = *t, .src = half});
    }
    return true;
}

static void narrow(struct device *device, const void *op, const void *wide, const struct field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct tensor half = *(const struct tensor *)(const void *)((const char *)op + fields[i].offset);
        struct tensor full = *(const struct tensor *)(const void *)((const char *)wide + fields[i].offset);
        if (is_half(&half) && (fields[i].use & WRITTEN))
            cpu_copy(device, &(struct op_copy){.dst = half, .src = full});
    }
}

#define FIELD(operation, member, how)                                                                                  \
    { offsetof(struct op_##operation, member), how }
#define HALF(operation, ...)                                                                                           \
    void half_##operation(struct device *device, const struct op_##operation *op) {                                    \
        static const struct field fields[] = {__VA_ARGS__};                                                            \
        enum { COUNT = sizeof fields / sizeof fields[0] };                                                             \
        struct op_##operation wide = *op;                                                                              \
        bool is_widened = widen(device, &wide, fields, COUNT);                                                         \
        cpu_##operation(device, &wide);                                                                                \
        if (is_widened)                                                                                                \
            narrow(device, op, &wide, fields, COUNT);                                                                  \
    }

// What an output holds before is only read where the operation adds to it. A kernel that multiplies in 16 bits takes
// the operands as they are, and leaves the result so where its sums need not be kept in between. The fields are in that
// order: the first is always widened, the next two if the result is not left in 16 bits, the last two without a kernel.
void half_matmul(struct device *device, const struct op_matmul *op) {
    if (dtype_is_float8(op->a.dtype)) {
        cpu_matmul_float8(device, op);
        return;
    }
    bool is_gradient = op->epilogue == EPILOGUE_ACTIVATION_GRADIENT;
    const struct field fields[] = {FIELD(matmul, bias, READ), FIELD(matmul, d, op->beta == 0.0f ? WRITTEN : CHANGED),
                                   FIELD(matmul, aux, is_gradient ? READ : WRITTEN), FIELD(matmul, a, READ),
                                   FIELD(matmul, b, READ)};
    const struct cpu_kernel *kernel = matmul_kernel(device, op);
    enum { BIAS = 1, BIAS_AND_RESULT = 3, ALL = sizeof fields / sizeof fields[0] };
    size_t count = !kernel ? ALL : matmul_packed_writes_half(op, kernel) ? BIAS : BIAS_AND_RESULT;
    struct op_matmul wide = *op;
    bool is_widened = widen(device, &wide, fields, count);
    cpu_matmul(device, &wide);
    if (is_widened)
        narrow(device, op, &wide, fields, count);
}

HALF(activation_forward, FIELD(activation_forward, x, READ), FIELD(activation_forward, y, WRITTEN))
HALF(activation_backward, FIELD(activation_backward, x, READ), FIELD(activation_backward, dy, READ),
     FIELD(activation_backward, dx, WRITTEN), FIELD(activation_backward, y, WRITTEN))
HALF(glu_forward, FIELD(glu_forward, x, READ), FIELD(glu_forward, y, WRITTEN))
HALF(glu_backward, FIELD(glu_backward, x, READ), FIELD(glu_backward, dy, READ), FIELD(glu_backward, dx, WRITTEN),
     FIELD(glu_backward, y, WRITTEN))
HALF(rope, FIELD(rope, x, CHANGED))
HALF(relative_bias_forward, FIELD(relative_bias_forward, table, READ))
HALF(dropout_add, FIELD(dropout_add, out, WRITTEN), FIELD(dropout_add, x, READ), FIELD(dropout_add, residual, READ),
     FIELD(dropout_add, bias, READ))

// What is normalised is the sum as it is stored, rounded: so the addition comes first.
void half_norm_forward(struct device *device, const struct op_norm_forward *op) {
    static const struct field fields[] = {FIELD(norm_forward, y, WRITTEN), FIELD(norm_forward, x, READ),
                                          FIELD(norm_forward, gain, READ), FIELD(norm_forward, bias, READ)};
    enum { COUNT = sizeof fields / sizeof fields[0] };
    struct op_norm_forward wide = *op;
    if (op->delta.data && is_half(&op->x)) {
        half_dropout_add(
            device,
            &(struct op_dropout_add){
                .out = op->sum, .x = op->delta, .residual = op->x, .bias = op->delta_bias, .dropout = op->dropout});
        wide.x = op->sum;
        wide.delta = wide.delta_bias = wide.sum = (struct tensor){0};
        wide.dropout = (struct dropout){0};
    }
    bool is_widened = widen(device, &wide, fields, COUNT);
    cpu_norm_forward(device, &wide);
    if (is_widened)
        narrow(device, op, &wide, fields, COUNT);
}

HALF(norm_backward, FIELD(norm_backward, dx, WRITTEN), FIELD(norm_backward, dy, READ), FIELD(norm_backward, x, READ),
     FIELD(norm_backward, gain, READ), FIELD(norm_backward, y, WRITTEN), FIELD(norm_backward, bias, READ),
     FIELD(norm_backward, dresidual, READ), FIELD(norm_backward, ddelta, WRITTEN))
HALF(attention_forward, FIELD(attention_forward, out, WRITTEN), FIELD(attention_forward, q, READ),
     FIELD(attention_forward, k, READ), FIELD(attention_forward, v, READ))
HALF(attention_backward, FIELD(attention_backward, dq, WRITTEN), FIELD(attention_backward, dk, WRITTEN),
     FIELD(attention_backward, dv, WRITTEN), FIELD(attention_backward, dout, READ),
     FIELD(attention_backward, out, READ), FIELD(attention_backward, q, READ), FIELD(attention_backward, k, READ),
     FIELD(attention_backward, v, READ))
HALF(embedding_forward, FIELD(embedding_forward, out, WRITTEN), FIELD(embedding_forward, table, READ),
     FIELD(embedding_forward, position_table, READ))
HALF(embedding_backward, FIELD(embedding_backward, dout, READ))
HALF(dropout_backward, FIELD(dropout_backward, dx, WRITTEN), FIELD(dropout_backward, dy, READ))
HALF(column_sum, FIELD(column_sum, x, READ))
