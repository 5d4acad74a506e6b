// Every 16-bit operation is the fp32 one between two conversions: its 16-bit inputs are widened into the device's own
// memory, and its 16-bit outputs are rounded from there. So sums are in fp32 and each stored number is rounded once,
// which makes this backend the reference for those that compute in 16 bits. The contract says which operands are read
// and written; those of other dtypes are passed unchanged. Only matmuls may take bf16 operands directly: processors
// with bf16 instructions accumulate in fp32 too.
//
// The memory grows to the largest operation in the first step and stays; half_own_bytes returns its size beforehand.
#include "base/error.h"
#include "base/memory.h"
#include "ops/contract.h"
#include "ops/cpu/kernel.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/matmul.h"
#include "tensor/half.h"

#include <stddef.h>
#include <string.h>

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

// Bytes of an operation's 16-bit tensors once widened.
static size_t all_wide_bytes(const void *op, const struct half_field *fields, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tensor *t = (const struct tensor *)(const void *)((const char *)op + fields[i].offset);
        if (is_half(t))
            bytes += wide_bytes(t);
    }
    return bytes;
}

// Replaces 16-bit tensors by fp32 copies; false if there are none.
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

// If several results have the same address, the last one counts, as if they were written in order.
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
// The operands of a call that may have 16 bits. Sparse operands (only some rows are read) are passed unchanged.
struct half_fields {
    struct half_field all[CPU_MOST_COPIES];
    size_t count;
};

static struct half_fields fields_of(const struct contract *contract, const void *op) {
    static const int uses[] = {[USE_IN] = READ, [USE_OUT] = WRITTEN, [USE_CHANGED] = CHANGED, [USE_ADDED] = CHANGED};
    struct half_fields fields;
    fields.count = 0;
    for (int i = 0; i < contract->count; i++) {
        const struct contract_row *row = &contract->rows[i];
        if (!(row->dtypes & AGREES) || row->is_sparse || !contract_row_holds(row, op))
            continue;
        CHECK(fields.count < CPU_MOST_COPIES);
        fields.all[fields.count++] = (struct half_field){row->offset, uses[row->use]};
    }
    return fields;
}

#define HALF(operation)                                                                                                \
    void half_##operation(struct device *device, const struct op_##operation *op) {                                    \
        const struct half_fields fields = fields_of(contract_##operation(), op);                                       \
        struct op_##operation wide = *op;                                                                              \
        bool is_widened = widen(device, &wide, fields.all, fields.count);                                              \
        cpu_##operation(device, &wide);                                                                                \
        if (is_widened)                                                                                                \
            narrow(device, op, &wide, fields.all, fields.count);                                                       \
    }                                                                                                                  \
    static struct own_need operation##_own_bytes(const struct device *device, const struct op_##operation *op) {       \
        (void)device;                                                                                                  \
        const struct half_fields fields = fields_of(contract_##operation(), op);                                       \
        return (struct own_need){.wide = all_wide_bytes(op, fields.all, fields.count)};                                \
    }

// An output's old value is only read if the operation adds to it. A kernel that multiplies in 16 bits takes the
// operands unconverted, and writes a 16-bit result if its sums are not stored in between. The first field is always
// widened; the next two unless the result is written in 16 bits; the last two if there is no such kernel, unless few
// rows multiply bf16 weights.
static struct half_fields matmul_fields(const struct device *device, const struct op_matmul *op) {
    bool is_gradient = op->epilogue == EPILOGUE_ACTIVATION_GRADIENT;
    const struct cpu_kernel *kernel = matmul_kernel(device, op);
    enum { BIAS = 1, BIAS_AND_RESULT = 3, ALL_BUT_WEIGHTS = 4, ALL = 5 };
    return (struct half_fields){
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
    const struct half_fields fields = matmul_fields(device, op);
    struct op_matmul wide = *op;
    bool is_widened = widen(device, &wide, fields.all, fields.count);
    cpu_matmul(device, &wide);
    if (is_widened)
        narrow(device, op, &wide, fields.all, fields.count);
}

static struct own_need matmul_own_bytes(const struct device *device, const struct op_matmul *op) {
    if (dtype_is_scaled(op->a.dtype))
        return (struct own_need){0};
    const struct half_fields fields = matmul_fields(device, op);
    struct op_matmul wide = *op;
    for (size_t i = 0; i < fields.count; i++)
        if (is_half(tensor_at(&wide, &fields.all[i])))
            tensor_at(&wide, &fields.all[i])->dtype = DTYPE_F32;
    struct own_need need = matmul_packed_rooms(device, &wide);
    need.wide = all_wide_bytes(op, fields.all, fields.count);
    return need;
}

// clang-format off
HALF(activation_forward) HALF(activation_backward) HALF(glu_forward) HALF(glu_backward) HALF(rope)
HALF(relative_bias_forward) HALF(dropout_add) HALF(dropout_backward) HALF(jitter) HALF(norm_backward)
HALF(attention_forward) HALF(attention_backward) HALF(latent_forward) HALF(latent_backward) HALF(embedding_forward)
HALF(embedding_backward) HALF(column_sum)
    // clang-format on

    // The norm's input is the stored, rounded sum, so the addition comes first.
    static struct op_dropout_add addition_of(const struct op_norm_forward *op) {
    return (struct op_dropout_add){
        .out = op->sum, .x = op->delta, .residual = op->x, .bias = op->delta_bias, .dropout = op->dropout};
}

static struct op_norm_forward norm_of_sum(const struct op_norm_forward *op) {
    struct op_norm_forward norm = *op;
    norm.x = op->sum;
    norm.delta = norm.delta_bias = norm.sum = (struct tensor){0};
    norm.dropout = (struct dropout){0};
    return norm;
}

void half_norm_forward(struct device *device, const struct op_norm_forward *op) {
    struct op_norm_forward norm = *op;
    if (op->delta.data && is_half(&op->x)) {
        const struct op_dropout_add addition = addition_of(op);
        half_dropout_add(device, &addition);
        norm = norm_of_sum(op);
    }
    const struct half_fields fields = fields_of(contract_norm_forward(), &norm);
    struct op_norm_forward wide = norm;
    bool is_widened = widen(device, &wide, fields.all, fields.count);
    cpu_norm_forward(device, &wide);
    if (is_widened)
        narrow(device, &norm, &wide, fields.all, fields.count);
}

static struct own_need norm_forward_own_bytes(const struct device *device, const struct op_norm_forward *op) {
    struct op_norm_forward norm = op->delta.data ? norm_of_sum(op) : *op;
    const struct half_fields fields = fields_of(contract_norm_forward(), &norm);
    struct own_need need = {.wide = all_wide_bytes(&norm, fields.all, fields.count)};
    if (!op->delta.data)
        return need;
    const struct op_dropout_add addition = addition_of(op);
    struct own_need first = dropout_add_own_bytes(device, &addition);
    return first.wide > need.wide ? first : need;
}

const struct own_bytes half_own_bytes = {
#define OWN_BYTES(name_) .name_ = name_##_own_bytes,
    ACTIVATION_OPERATIONS(OWN_BYTES)
#undef OWN_BYTES
};
