// Helpers of the checked entry points. Each compares a tensor with what the contract in ops.h requires and, if they
// differ, dies with the operation, the argument and both descriptions. Private to ops/.
#ifndef OPS_CHECK_H
#define OPS_CHECK_H

#include "ops/ops.h"

// `t` must exist, be contiguous, and have the dtype and shape of `expected` (made with check_1d … check_4d).
void check_tensor(const char *op, const char *name, struct tensor t, struct tensor expected);
// The same, if there is a tensor at all.
void check_optional(const char *op, const char *name, struct tensor t, struct tensor expected);
// `t` must be contiguous fp32 of any shape with `count` elements.
void check_flat(const char *op, const char *name, struct tensor t, int64_t count);
// `t` may have any strides but must be contiguous in its last dimension.
void check_strided(const char *op, const char *name, struct tensor t, struct tensor expected);

// Shapes to compare with; there is no memory behind them.
struct tensor check_1d(enum dtype dtype, int64_t a);
struct tensor check_2d(enum dtype dtype, int64_t a, int64_t b);
struct tensor check_3d(enum dtype dtype, int64_t a, int64_t b, int64_t c);

// `t` must exist, have this rank and a float dtype that the device computes in; its shape then determines the others.
void check_activation(struct device *device, const char *op, const char *name, struct tensor t, int rank);
// `t` must be in fp8, which the device must be able to multiply, and have a range at a multiple of 16 bytes.
void check_float8(struct device *device, const char *op, const char *name, struct tensor t);
void check_range(const char *op, struct tensor range);
// The range of a matrix, or the factors of its blocks, those of several such matrices stacked.
void check_scaling(const char *op, enum scaling scaling, struct tensor range, struct tensor matrix, int64_t parts);
// What is stored of (rows, columns), with one range or by blocks of a row: either order, with its range.
void check_stored(struct device *device, const char *name, const struct operand *y, int64_t rows, int64_t columns);
void check_matmul_float8(struct device *device, const char *op, const struct op_matmul *m);
// Two tensors must share no memory, or be the very same elements. Strided views are compared by address only: slices of
// one packed tensor interleave without sharing elements.
void check_apart(const char *op, const char *name, struct tensor t, const char *other_name, struct tensor other);
void check_apart_or_same(const char *op, const char *name, struct tensor t, const char *other_name,
                         struct tensor other);
void check_dropout(const char *op, const struct dropout *dropout, int64_t rows);

// Any other rule: dies with the operation and the rule if it does not hold.
#define check_rule(op, condition, rule)                                                                                \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            check_failed(op, rule);                                                                                    \
    } while (0)
_Noreturn void check_failed(const char *op, const char *rule);

#endif
