// Views of memory. Nothing here reads or writes elements, so the same functions serve host, device and paper memory.
// The invariant: stride[rank - 1] is 1, entries of shape and stride beyond the rank are 0.
#include "tensor/tensor.h"

#include "base/error.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct tensor make(void *data, enum dtype dtype, int rank, const int64_t shape[TENSOR_MAX_RANK]) {
    struct tensor t = {.data = data, .dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        CHECK(shape[i] >= 0);
        t.shape[i] = shape[i];
        t.stride[i] = stride;
        if (__builtin_mul_overflow(stride, shape[i], &stride) || stride > INT64_MAX / 8)
            die("a tensor of rank %d has more bytes than 64 bits can count", rank);
    }
    return t;
}

struct tensor tensor_1d(void *data, enum dtype dtype, int64_t a) {
    return make(data, dtype, 1, (int64_t[TENSOR_MAX_RANK]){a});
}

struct tensor tensor_2d(void *data, enum dtype dtype, int64_t a, int64_t b) {
    return make(data, dtype, 2, (int64_t[TENSOR_MAX_RANK]){a, b});
}

struct tensor tensor_3d(void *data, enum dtype dtype, int64_t a, int64_t b, int64_t c) {
    return make(data, dtype, 3, (int64_t[TENSOR_MAX_RANK]){a, b, c});
}

struct tensor tensor_4d(void *data, enum dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    return make(data, dtype, 4, (int64_t[TENSOR_MAX_RANK]){a, b, c, d});
}

struct tensor tensor_rows(struct tensor t, int64_t first, int64_t count) {
    return tensor_slice(t, 0, first, count);
}

struct tensor tensor_slice(struct tensor t, int dimension, int64_t first, int64_t count) {
    CHECK(dimension >= 0 && dimension < t.rank);
    CHECK(first >= 0 && count >= 0 && first <= t.shape[dimension] - count);
    if (t.data)
        t.data = (unsigned char *)t.data + (size_t)(first * t.stride[dimension]) * dtype_bytes(t.dtype);
    t.shape[dimension] = count;
    return t;
}

static struct tensor reshape(struct tensor t, int rank, const int64_t shape[TENSOR_MAX_RANK]) {
    struct tensor result = make(t.data, t.dtype, rank, shape);
    if (!tensor_is_contiguous(t) || tensor_count(result) != tensor_count(t)) {
        char from[96], to[96];
        tensor_describe(t, from, sizeof from);
        tensor_describe(result, to, sizeof to);
        die("cannot view %s as %s", from, to);
    }
    return result;
}

struct tensor tensor_reshape_2d(struct tensor t, int64_t a, int64_t b) {
    return reshape(t, 2, (int64_t[TENSOR_MAX_RANK]){a, b});
}

struct tensor tensor_reshape_4d(struct tensor t, int64_t a, int64_t b, int64_t c, int64_t d) {
    return reshape(t, 4, (int64_t[TENSOR_MAX_RANK]){a, b, c, d});
}

struct tensor tensor_flat(struct tensor t) {
    return reshape(t, 1, (int64_t[TENSOR_MAX_RANK]){tensor_count(t)});
}

static size_t append(char *text, size_t size, size_t at, const char *piece) {
    if (at >= size)
        return at;
    int written = snprintf(text + at, size - at, "%s", piece);
    return at + (size_t)(written > 0 ? written : 0);
}

static size_t append_list(char *text, size_t size, size_t at, const int64_t *numbers, int count) {
    at = append(text, size, at, "(");
    for (int i = 0; i < count; i++) {
        char number[32];
        (void)snprintf(number, sizeof number, "%s%" PRId64, i > 0 ? ", " : "", numbers[i]);
        at = append(text, size, at, number);
    }
    return append(text, size, at, ")");
}

void tensor_describe(struct tensor t, char *text, size_t size) {
    if (!t.data) {
        (void)snprintf(text, size, "no tensor");
        return;
    }
    size_t at = append(text, size, 0, dtype_name(t.dtype));
    at = append(text, size, at, " ");
    at = append_list(text, size, at, t.shape, t.rank);
    if (!tensor_is_contiguous(t)) {
        at = append(text, size, at, " strides ");
        (void)append_list(text, size, at, t.stride, t.rank);
    }
}

// ---- element types ----

struct dtype_row {
    size_t bytes;
    const char *name;
    const char *safetensors_name;
};

static const struct dtype_row rows[DTYPE_COUNT] = {
    [DTYPE_F32] = {4, "fp32", "F32"},     [DTYPE_BF16] = {2, "bf16", "BF16"}, [DTYPE_F16] = {2, "fp16", "F16"},
    [DTYPE_I16] = {2, "int16", ""},       [DTYPE_I32] = {4, "int32", "I32"},  [DTYPE_I64] = {8, "int64", "I64"},
    [DTYPE_U8] = {1, "uint8", "U8"},      [DTYPE_E4M3] = {1, "fp8 e4m3", ""}, [DTYPE_E5M2] = {1, "fp8 e5m2", ""},
    [DTYPE_E2M1X2] = {1, "fp4 e2m1", ""},
};

static const struct dtype_row *row_of(enum dtype dtype) {
    CHECK((unsigned)dtype < DTYPE_COUNT);
    return &rows[dtype];
}

size_t dtype_bytes(enum dtype dtype) {
    return row_of(dtype)->bytes;
}

const char *dtype_name(enum dtype dtype) {
    return row_of(dtype)->name;
}

const char *dtype_safetensors_name(enum dtype dtype) {
    return row_of(dtype)->safetensors_name;
}

int dtype_from_safetensors_name(enum dtype *dtype, const char *name) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (rows[i].safetensors_name[0] && strcmp(rows[i].safetensors_name, name) == 0) {
            *dtype = (enum dtype)i;
            return 0;
        }
    }
    return error_set("the element type \"%.32s\" is not supported; supported are F32, BF16, F16, I32, I64 and U8",
                     name);
}
