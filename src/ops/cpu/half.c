// Every operation in 16 bits is the fp32 one between two conversions: its 16-bit inputs are widened into memory of the
// device's own, and its 16-bit outputs are rounded out of it. So sums are in fp32 and each stored number is rounded
// once, which is what makes this backend the reference for those that compute in 16 bits. What an operation reads and
// writes is listed below, tensor by tensor; those of other dtypes pass as they are. Matmuls alone may take bf16
// operands as they are: what processors with instructions for them add up is fp32 too.
//
// The memory grows to the largest operation in the first step and stays; half_own_bytes tells beforehand how large.
#include "ops/cpu/half.h"
#include "ops/cpu/matmul.h"
#include "base/error.h"
#include "base/memory.h"
#include <stddef.h>

enum { READ = 1, WRITTEN = 2, CHANGED = READ | WRITTEN };

struct half_field {
    size_t offset;  // of a struct tensor in the operation
    int use;
};

static bool is_half(const struct tensor *t) {
    return t->data && (t->dtype == DTYPE_BF16 || t->dtype == DTYPE_F16);
}

static struct tensor *tensor_at(void *op, const struct half_field *field) {
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

// The 16-bit tensors of an operation when they are wide.
static size_t all_wide_bytes(const void *op, const struct half_field *fields, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tensor *t = (const struct tensor *)(const void *)((const char *)op + fields[i].offset);
        if (is_half(t))
            bytes += wide_bytes(t);
    }
    return bytes;
}

// Puts fp32 tensors in the place of 16-bit ones; false if there are none.
static bool widen(struct device *device, void *op, const struct half_field *fields, size_t count) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    size_t bytes = all_wide_bytes(op, fields, count);
    if (bytes == 0)
        return false;
    reserve(cpu, bytes);
    char *memory = cpu->wide;
    struct op_copy copies[CPU_MOST_COPIES];
    int copy_count = 0;
    CHECK(count <= CPU_MOST_COPIES);
    for (size_t i = 0; i < count; i++) {
        struct tensor *t = tensor_at(op, &fields[i]), half = *t;
        if (!is_half(t))
            continue;
        *t = widened(&half, memory);
        memory += wide_bytes(&half);
        if (fields[i].use & READ)
            copies[copy_count++] = (struct op_copy){.dst = *t, .src = half};
    }
    cpu_copy_all(device, copies, copy_count);
    return true;
}

// Of several results in one place the last counts, as if they were written one after the other.
static int add_copy(struct op_copy *copies, int count, struct op_copy copy) {
    for (int i = 0; i < count; i++)
        if (copies[i].dst.data == copy.dst.data) {
            copies[i] = copy;
            return count;
        }
    copies[count] = copy;
    return count + 1;
}

static void narrow(struct device *device, const void *op, const void *wide, const struct half_field *fields,
                   size_t count) {
    struct op_copy copies[CPU_MOST_COPIES];
    int copy_count = 0;
    CHECK(count <= CPU_MOST_COPIES);
    for (size_t i = 0; i < count; i++) {
        struct tensor half = *(const struct tensor *)(const void *)((const char *)op + fields[i].offset);
        struct tensor full = *(const struct tensor *)(const void *)((const char *)wide + fields[i].offset);
        if (is_half(&half) && (fields[i].use & WRITTEN))
            copy_count = add_copy(copies, copy_count, (struct op_copy){.dst = half, .src = full});
    }
    cpu_copy_all(device, copies, copy_count);
}

#define FIELD(operation, member, how)                                                                                  \
    { offsetof(struct op_##operation, member), how }
#define HALF(operation, ...)                                                                                           \
    static const struct half_field operation##_fields[] = {__VA_ARGS__};                                               \
    enum { operation##_count = sizeof operation##_fields / sizeof operation##_fields[0] };                             \
    void half_##operation(struct device *device, const struct op_##operation *op) {                                    \
        struct op_##operation wide = *op;                                                                              \
        bool is_widened = widen(device, &wide, operation##_fields, operation##_count);                                 \
        cpu_##operation(device, &wide);                                                                                \
        if (is_widened)                                                                                                \
            narrow(device, op, &wide, operation##_fields, operation##_count);                                          \
    }                                                                                                                  \
    static struct own_need operation##_own_bytes(const struct device *device, const struct op_##operation *op) {       \
        (void)device;                                                                                                  \
        return (struct own_need){.wide = all_wide_bytes(op, operation##_fields, operation##_count)};                   \
    }

// What an output holds before is only read where the operation adds to it. A kernel that multiplies in 16 bits takes
// the operands unconverted, and leaves the result in 16 bits if its sums are not stored in between. The first field is
// always widened, the next two if the result is not left in 16 bits, the last two without a kernel,
// unless few rows multiply bf16 weights.
struct matmul_fields {
    struct half_field all[5];
    size_t count;
};

static struct matmul_fields matmul_fields(const struct device *device, const struct op_matmul *op) {
    bool is_gradient = op->epilogue == EPILOGUE_ACTIVATION_GRADIENT;
    const struct cpu_kernel *kernel = matmul_kernel(device, op);
    enum { BIAS = 1, BIAS_AND_RESULT = 3, ALL_BUT_WEIGHTS = 4, ALL = 5 };
    return (struct matmul_fields){
        .all = {FIELD(matmul, bias, READ), FIELD(matmul, d, op->beta == 0.0f ? WRITTEN : CHANGED),
                FIELD(matmul, aux, is_gradient ? READ : WRITTEN), FIELD(matmul, a, READ), FIELD(matmul, b, READ)},
        .count = !kernel                                 ? matmul_has_few_rows(device, op) ? ALL_BUT_WEIGHTS : ALL
                 : matmul_packed_writes_half(op, kernel) ? BIAS
                                                         : BIAS_AND_RESULT,
    };
}

void half_matmul(struct device *device, const struct op_matmul *op) {
    if (dtype_is_scaled(op->a.dtype)) {
        cpu_matmul_float8(device, op);
        return;
    }
    const struct matmul_fields fields = matmul_fields(device, op);
    struct op_matmul wide = *op;
    bool is_widened = widen(device, &wide, fields.all, fields.count);
    cpu_matmul(device, &wide);
    if (is_widened)
        narrow(device, op, &wide, fields.all, fields.count);
}

static struct own_need matmul_own_bytes(const struct device *device, const struct op_matmul *op) {
    if (dtype_is_scaled(op->a.dtype))
        return (struct own_need){0};
    const struct matmul_fields fields = matmul_fields(device, op);
    struct op_matmul wide = *op;
    for (size_t i = 0; i < fields.count; i++)
        if (is_half(tensor_at(&wide, &fields.all[i])))
            tensor_at(&wide, &fields.all[i])->dtype = DTYPE_F32;
    struct own_need need = matmul_packed_rooms(device, &wide);
    need.wide = all_wide_bytes(op, fields.all, fields.count);
    return need;
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
HALF(jitter, FIELD(jitter, out, WRITTEN), FIELD(jitter, x, READ), FIELD(jitter, residual, READ))

// What is normalised is the sum as it is stored, rounded: so the addition comes first.
static const struct half_field norm_forward_fields[] = {FIELD(norm_forward, y, WRITTEN), FIELD(norm_forward, x, READ),
                                                        FIELD(norm_forward, gain, READ),
                                                        FIELD(norm_forward, bias, READ)};
enum { norm_forward_count = sizeof norm_forward_fields / sizeof norm_forward_fields[0] };

static struct op_dropout_add addition_of(const struct op_norm_forward *op) {
    return (struct op_dropout_add){
        .out = op->sum, .x = op->delta, .residual = op->x, .bias = op->delta_bias, .dropout = op->dropout};
}

void half_norm_forward(struct device *device, const struct op_norm_forward *op) {
    struct op_norm_forward wide = *op;
    if (op->delta.data && is_half(&op->x)) {
        const struct op_dropout_add addition = addition_of(op);
        half_dropout_add(device, &addition);
        wide.x = op->sum;
        wide.delta = wide.delta_bias = wide.sum = (struct tensor){0};
        wide.dropout = (struct dropout){0};
    }
    bool is_widened = widen(device, &wide, norm_forward_fields, norm_forward_count);
    cpu_norm_forward(device, &wide);
    if (is_widened)
        narrow(device, op, &wide, norm_forward_fields, norm_forward_count);
}

static struct own_need norm_forward_own_bytes(const struct device *device, const struct op_norm_forward *op) {
    struct own_need need = {.wide = all_wide_bytes(op, norm_forward_fields, norm_forward_count)};
    if (!op->delta.data)
        return need;
    const struct op_dropout_add addition = addition_of(op);
    struct own_need first = dropout_add_own_bytes(device, &addition);
    return first.wide > need.wide ? first : need;
}

HALF(norm_backward, FIELD(norm_backward, dx, WRITTEN), FIELD(norm_backward, dy, READ), FIELD(norm_backward, x, READ),
     FIELD(norm_backward, gain, READ), FIELD(norm_backward, y, WRITTEN), FIELD(norm_backward, bias, READ),
     FIELD(norm_backward, dresidual, READ), FIELD(norm_backward, ddelta, WRITTEN))
HALF(attention_forward, FIELD(attention_forward, out, WRITTEN), FIELD(attention_forward, q, READ),
     FIELD(attention_forward, k, READ), FIELD(attention_forward, v, READ), FIELD(attention_forward, scores.sinks, READ))
HALF(attention_backward, FIELD(attention_backward, dq, WRITTEN), FIELD(attention_backward, dk, WRITTEN),
     FIELD(attention_backward, dv, WRITTEN), FIELD(attention_backward, dout, READ),
     FIELD(attention_backward, out, READ), FIELD(attention_backward, q, READ), FIELD(attention_backward, k, READ),
     FIELD(attention_backward, v, READ), FIELD(attention_backward, scores.sinks, READ))
HALF(latent_forward, FIELD(latent_forward, kv, WRITTEN), FIELD(latent_forward, up, READ),
     FIELD(latent_forward, shared, READ))
HALF(latent_backward, FIELD(latent_backward, dup, WRITTEN), FIELD(latent_backward, dshared, WRITTEN),
     FIELD(latent_backward, dkv, READ))
HALF(embedding_forward, FIELD(embedding_forward, out, WRITTEN))
HALF(embedding_backward, FIELD(embedding_backward, dout, READ))
HALF(dropout_backward, FIELD(dropout_backward, dx, WRITTEN), FIELD(dropout_backward, dy, READ))
HALF(column_sum, FIELD(column_sum, x, READ))

const struct own_bytes half_own_bytes = {
#define OWN_BYTES(name_) .name_ = name_##_own_bytes,
    ACTIVATION_OPERATIONS(OWN_BYTES)
#undef OWN_BYTES
};
