// The comparisons behind op_*(): a mismatch is a bug of ours, so every function here returns silently or dies.
// The entry points themselves are in check_layers.c and check_training.c.
#include "ops/check.h"
#include "base/error.h"

#include <stdio.h>

enum { DESCRIPTION_BYTES = 160 };

void check_failed(const char *op, const char *rule) {
    die("%s: %s", op, rule);
}

// An address that is not NULL, of shapes without memory.
static void *nowhere(void) {
    return (void *)(uintptr_t)1;
}

struct tensor check_1d(enum dtype dtype, int64_t a) {
    return tensor_1d(nowhere(), dtype, a);
}

struct tensor check_2d(enum dtype dtype, int64_t a, int64_t b) {
    return tensor_2d(nowhere(), dtype, a, b);
}

struct tensor check_3d(enum dtype dtype, int64_t a, int64_t b, int64_t c) {
    return tensor_3d(nowhere(), dtype, a, b, c);
}

static bool has_shape(struct tensor t, struct tensor expected) {
    if (t.rank != expected.rank)
        return false;
    for (int i = 0; i < t.rank; i++) {
        if (t.shape[i] != expected.shape[i])
            return false;
    }
    return true;
}

static _Noreturn void mismatch(const char *op, const char *name, struct tensor t, struct tensor expected) {
    char got[DESCRIPTION_BYTES], wanted[DESCRIPTION_BYTES];
    tensor_describe(t, got, sizeof got);
    tensor_describe(expected, wanted, sizeof wanted);
    die("%s: %s is %s, expected %s", op, name, got, wanted);
}

void check_tensor(const char *op, const char *name, struct tensor t, struct tensor expected) {
    if (!t.data || t.dtype != expected.dtype || !has_shape(t, expected) || !tensor_is_contiguous(t))
        mismatch(op, name, t, expected);
}

void check_optional(const char *op, const char *name, struct tensor t, struct tensor expected) {
    if (t.data)
        check_tensor(op, name, t, expected);
}

void check_flat(const char *op, const char *name, struct tensor t, int64_t count) {
    if (!t.data || t.dtype != DTYPE_F32 || tensor_count(t) != count || !tensor_is_contiguous(t))
        mismatch(op, name, t, check_1d(DTYPE_F32, count));
}

void check_strided(const char *op, const char *name, struct tensor t, struct tensor expected) {
    if (!t.data || t.dtype != expected.dtype || !has_shape(t, expected))
        mismatch(op, name, t, expected);
    for (int i = 0; i < t.rank; i++) {
        bool is_last = i == t.rank - 1;
        if (t.shape[i] > 1 && (is_last ? t.stride[i] != 1 : t.stride[i] < t.shape[t.rank - 1]))
            mismatch(op, name, t, expected);
    }
}

// Most checks pass and are many, so a tensor is described only for a complaint.
static _Noreturn void complain_of_activation(const char *op, const char *name, struct tensor t, const char *why) {
    char text[DESCRIPTION_BYTES];
    tensor_describe(t, text, sizeof text);
    die("%s: %s is %s, %s", op, name, text, why);
}

void check_activation(struct device *device, const char *op, const char *name, struct tensor t, int rank) {
    bool is_float = t.dtype == DTYPE_F32 || t.dtype == DTYPE_BF16 || t.dtype == DTYPE_F16;
    char why[64];
    if (!t.data || t.rank != rank) {
        snprintf(why, sizeof why, "expected a tensor of rank %d", rank);
        complain_of_activation(op, name, t, why);
    }
    if (!is_float || !device->ops->supports(device, t.dtype)) {
        snprintf(why, sizeof why, "which %s does not compute in", device->ops->name);
        complain_of_activation(op, name, t, why);
    }
}

static bool overlap(struct tensor a, struct tensor b) {
    if (!a.data || !b.data)
        return false;
    if (!tensor_is_contiguous(a) || !tensor_is_contiguous(b))
        return a.data == b.data;
    uintptr_t first = (uintptr_t)a.data, second = (uintptr_t)b.data;
    return first < second + tensor_bytes(b) && second < first + tensor_bytes(a);
}

void check_apart(const char *op, const char *name, struct tensor t, const char *other_name, struct tensor other) {
    if (overlap(t, other))
        die("%s: %s and %s share memory", op, name, other_name);
}

void check_apart_or_same(const char *op, const char *name, struct tensor t, const char *other_name,
                         struct tensor other) {
    if (t.data != other.data)
        check_apart(op, name, t, other_name, other);
    else if (t.data && t.dtype != other.dtype)
        die("%s: %s and %s share memory but not the dtype", op, name, other_name);
}

void check_dropout(const char *op, const struct dropout *dropout, int64_t rows) {
    if (dropout->rate == 0)
        return;
    check_rule(op, dropout->rate > 0 && dropout->rate < 1, "the dropout rate must be at least 0 and below 1");
    check_rule(op, dropout->site < 65536, "the dropout site must be below 65536");
    check_rule(op, dropout->first_head >= 0, "the first head must not be negative");
    check_tensor(op, "dropout.row_ids", dropout->row_ids, check_1d(DTYPE_I64, rows));
}
