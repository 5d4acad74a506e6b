// The contract of an operation is a list of rows: one per operand, with its direction, dtypes and shape, and one per
// pair of operands that must not share memory. The check of every call, the bytes that paper counts, the table in
// docs/internals/ops.md and generic tests are made from it. Constraints on anything but operands (e.g. the range of a
// number) are rules in code. Private to ops/.
//
// A shape is written in letters and digits: "N 2C" has two dimensions. Dimensions may be products and sums ("BT",
// "E+1"). A letter gets its size at its first occurrence and must agree afterwards, so the order of rows decides which
// operand an error names. "#n" is n elements in any shape, "*" any shape, the same for all operands that have it.
#ifndef OPS_CONTRACT_H
#define OPS_CONTRACT_H

#include "ops/ops.h"

enum contract_kind { CONTRACT_OPERAND, CONTRACT_DROPOUT, CONTRACT_APART, CONTRACT_APART_OR_SAME };
enum contract_use { USE_IN, USE_OUT, USE_CHANGED, USE_ADDED };  // added: sums or gradients are added to it

// Allowed dtypes, as bits, and further conditions on them.
#define DTYPE_BIT(dtype_) (1u << (dtype_))
#define F32 DTYPE_BIT(DTYPE_F32)
#define BF16 DTYPE_BIT(DTYPE_BF16)
#define I16 DTYPE_BIT(DTYPE_I16)
#define I32 DTYPE_BIT(DTYPE_I32)
#define I64 DTYPE_BIT(DTYPE_I64)
#define U8 DTYPE_BIT(DTYPE_U8)
#define FLOATS (F32 | BF16 | DTYPE_BIT(DTYPE_F16))
#define E4M3 DTYPE_BIT(DTYPE_E4M3)
#define FP8 (E4M3 | DTYPE_BIT(DTYPE_E5M2))
#define SCALED (FP8 | DTYPE_BIT(DTYPE_E2M1X2))
#define ANY (DTYPE_BIT(DTYPE_COUNT) - 1)
#define COMPUTED (1u << 16)          // the device computes in it
#define AGREES (1u << 17)            // all 16-bit or fp32 operands with this bit have the same dtype
#define OR_F32 (1u << 18)            // but this one may be fp32
#define ACT_ANY (FLOATS | COMPUTED)  // an activation dtype
#define ACT (ACT_ANY | AGREES)       // that of the operation

struct contract_row {
    enum contract_kind kind;
    enum contract_use use;
    uint32_t dtypes;
    bool is_optional, is_strided;  // strided: any strides, but contiguous in the last dimension
    bool is_free, is_once;         // on paper: not counted; counted once, though it is read and written
    bool is_sparse;                // touches only some rows: not counted on paper
    bool is_unless;                // the condition is reversed
    uint16_t offset, other_offset;
    const char *name;    // of the member
    const char *called;  // in messages, if different from the last part of the name
    const char *other;   // the operand to be apart from
    const char *shape;
    // The row holds if this member is not zero (for a tensor: .data) or, given values (bits), has one of these.
    const char *condition;
    uint16_t condition_offset, condition_bytes;
    uint32_t condition_values;
};
struct contract {
    const char *operation;  // "op_matmul"
    const struct contract_row *rows;
    int count;
};

// Rows, for use in CONTRACT. Attributes may follow.
#define OPERAND(use_, member_, dtypes_, shape_, ...)                                                                   \
    {                                                                                                                  \
        .use = (use_), .offset = offsetof(this_op, member_), .name = #member_, .dtypes = (dtypes_), .shape = shape_,   \
        __VA_ARGS__                                                                                                    \
    }
#define IN(...) OPERAND(USE_IN, __VA_ARGS__)
#define OUT(...) OPERAND(USE_OUT, __VA_ARGS__)
#define CHANGED(...) OPERAND(USE_CHANGED, __VA_ARGS__)
#define ADDED(...) OPERAND(USE_ADDED, __VA_ARGS__)
#define PAIR(kind_, a, b, ...)                                                                                         \
    {                                                                                                                  \
        .kind = (kind_), .offset = offsetof(this_op, a), .name = #a, .other_offset = offsetof(this_op, b),             \
        .other = #b, __VA_ARGS__                                                                                       \
    }
#define APART(...) PAIR(CONTRACT_APART, __VA_ARGS__)
#define APART_OR_SAME(...) PAIR(CONTRACT_APART_OR_SAME, __VA_ARGS__)
#define DROPOUT(shape_, ...)                                                                                           \
    { .kind = CONTRACT_DROPOUT, .offset = offsetof(this_op, dropout), .name = "dropout", .shape = shape_, __VA_ARGS__ }

// Attributes of rows.
#define MAYBE .is_optional = true
#define STRIDED .is_strided = true
#define FREE .is_free = true
#define ONCE .is_once = true
#define SPARSE .is_sparse = true
#define CALLED(text) .called = (text)
#define IF(member_)                                                                                                    \
    .condition = #member_, .condition_offset = offsetof(this_op, member_),                                             \
    .condition_bytes = sizeof((this_op *)NULL)->member_
#define UNLESS(member_) IF(member_), .is_unless = true
#define IF_ONE_OF(member_, values_) IF(member_), .condition_values = (values_)

// The state of one check. Sizes that follow from arguments are set before the rows are checked.
enum { CONTRACT_LETTERS = 64 };
struct contract_call {
    struct device *device;
    const struct contract *contract;
    const void *op;
    uint64_t known;  // bits of the letters that have a size
    int64_t sizes[CONTRACT_LETTERS];
    enum dtype dtype;          // the one that operands agree in; DTYPE_COUNT: none yet
    const struct tensor *any;  // the first operand of any shape; NULL: none yet
};
// A letter is known by the lower bits of its code. SIZE(call, N) is the size of letter N after the check.
#define LETTER(letter_) ((letter_) & (CONTRACT_LETTERS - 1))
#define SIZE(call_, letter_) ((call_)->sizes[LETTER(#letter_[0])])
void contract_begin(struct contract_call *call, struct device *device, const struct contract *contract, const void *op);
void contract_set(struct contract_call *call, char letter, int64_t size);
// Dies with operation, operand and both descriptions if a row does not hold.
void contract_check(struct contract_call *call);
// Writes the message and returns true if a row does not hold.
bool contract_refuses(struct contract_call *call, char *text, size_t size);

// Any other rule: dies with the operation and the rule if it does not hold.
#define RULE(call_, condition_, rule_)                                                                                 \
    do {                                                                                                               \
        if (!(condition_))                                                                                             \
            die("%s: %s", (call_)->contract->operation, rule_);                                                        \
    } while (0)

// Whether this call has the row's operand, and that operand.
bool contract_row_holds(const struct contract_row *row, const void *op);
static inline const struct tensor *contract_operand(const struct contract_row *row, const void *op) {
    return (const struct tensor *)(const void *)((const char *)op + row->offset);
}
// Bytes of a call's operands: each counts once, changed ones twice.
double contract_bytes(const struct contract *contract, const void *op);

// Defines contract_x of struct op_name_. A semicolon follows these macros.
#define CONTRACT_OF(which_, name_, ...)                                                                                \
    const struct contract *contract_##which_(void) {                                                                   \
        typedef struct op_##name_ this_op;                                                                             \
        static const struct contract_row rows[] = {__VA_ARGS__};                                                       \
        static const struct contract contract = {"op_" #name_, rows, (int)(sizeof rows / sizeof rows[0])};             \
        return &contract;                                                                                              \
    }                                                                                                                  \
    const struct contract *contract_##which_(void)
#define CONTRACT(name_, ...) CONTRACT_OF(name_, name_, __VA_ARGS__)
// Defines the checked entry point too; before_ and after_ are called around the check of the rows.
#define CHECKED(name_, before_, after_, ...)                                                                           \
    CONTRACT(name_, __VA_ARGS__);                                                                                      \
    void op_##name_(struct device *device, const struct op_##name_ *op) {                                              \
        struct contract_call call;                                                                                     \
        contract_begin(&call, device, contract_##name_(), op);                                                         \
        before_(&call, op);                                                                                            \
        contract_check(&call);                                                                                         \
        after_(&call, op);                                                                                             \
        device->ops->name_(device, op);                                                                                \
    }                                                                                                                  \
    void op_##name_(struct device *device, const struct op_##name_ *op)
#define NOTHING(call_, op_) (void)0
#define OPERATION(name_, ...) CHECKED(name_, NOTHING, NOTHING, __VA_ARGS__)
// With rules, x_rules; with letters that are arguments of the operation, set by x_sizes; with both.
#define PROTOTYPE(name_, what_) static void name_##_##what_(struct contract_call *call, const struct op_##name_ *op);
#define RULED(name_, ...) PROTOTYPE(name_, rules) CHECKED(name_, NOTHING, name_##_rules, __VA_ARGS__)
#define SIZED(name_, ...) PROTOTYPE(name_, sizes) CHECKED(name_, name_##_sizes, NOTHING, __VA_ARGS__)
#define SIZED_AND_RULED(name_, ...)                                                                                    \
    PROTOTYPE(name_, sizes) PROTOTYPE(name_, rules) CHECKED(name_, name_##_sizes, name_##_rules, __VA_ARGS__)

#define DECLARE(name_) const struct contract *contract_##name_(void);
OPERATIONS(DECLARE)
DECLARE(matmul_many)
DECLARE(matmul_float8)
DECLARE(grouped_float8)
#undef DECLARE

// Checks in code, shared by several operations: a tensor without a row; a matmul operand's range, or those of its
// blocks; ranges and dtypes of an operand stored in fp8.
void contract_tensor(struct contract_call *call, const char *name, struct tensor t, uint32_t dtypes, const char *shape);
void contract_activation(const struct contract_call *call, enum activation activation);
struct scaled_matrix {
    int64_t rows, columns, parts;  // parts: number of such matrices, stacked
};
void contract_range(struct contract_call *call, struct tensor range);
void contract_scaling(struct contract_call *call, enum scaling scaling, struct tensor range,
                      const struct scaled_matrix *matrix);
void contract_stored(struct contract_call *call, const struct operand *y);
void contract_matmul_scaled(struct contract_call *call, const struct op_matmul *m);
// The rows of a stored operand.
#define STORED(member_, shape_, transposed_)                                                                           \
    OUT(member_.value, FP8 | COMPUTED, shape_, MAYBE, CALLED("y")),                                                    \
        OUT(member_.transposed, FP8 | COMPUTED, transposed_, MAYBE)

#endif
