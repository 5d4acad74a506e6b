// A tensor is a view: the elements' address, type, shape and strides. It owns nothing; memory comes from an arena. The
// data may lie in a device's memory, so nothing here reads or writes elements. Strides count elements. The last
// dimension is always contiguous; most tensors are contiguous throughout.
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// E4M3 and E5M2 are 8-bit floats for matmuls, E2M1X2 is two 4-bit floats in a byte, see float8.h: its tensors have
// half as many columns as numbers in a row. I16 is the rest of an fp32 beyond its bf16, see half.h. None
// of them occurs in files.
enum dtype {
    DTYPE_F32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_I16,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_U8,
    DTYPE_E4M3,
    DTYPE_E5M2,
    DTYPE_E2M1X2,
    DTYPE_COUNT
};

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype);              // "fp32", "bf16", …
const char *dtype_safetensors_name(enum dtype dtype);  // "F32", "BF16", …
int dtype_from_safetensors_name(enum dtype *dtype, const char *name);

enum { TENSOR_MAX_RANK = 4 };

struct tensor {
    void *data;  // NULL: no tensor (an optional argument that is left out)
    enum dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    int64_t stride[TENSOR_MAX_RANK];
};

static inline bool dtype_is_float8(enum dtype dtype) {
    return dtype == DTYPE_E4M3 || dtype == DTYPE_E5M2;
}
// Whether matmuls of it need scale factors.
static inline bool dtype_is_scaled(enum dtype dtype) {
    return dtype_is_float8(dtype) || dtype == DTYPE_E2M1X2;
}

// Contiguous views of existing memory.
struct tensor tensor_1d(void *data, enum dtype dtype, int64_t a);
struct tensor tensor_2d(void *data, enum dtype dtype, int64_t a, int64_t b);
struct tensor tensor_3d(void *data, enum dtype dtype, int64_t a, int64_t b, int64_t c);
struct tensor tensor_4d(void *data, enum dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d);

// The next three are inline because every small message and operation calls them several times, and a call would copy
// the view. tensor_count is 0 if there is no tensor.
static inline int64_t tensor_count(struct tensor t) {
    int64_t count = t.data ? 1 : 0;
    for (int i = 0; i < t.rank && i < TENSOR_MAX_RANK; i++)
        count *= t.shape[i];
    return count;
}

// For contiguous tensors only.
static inline size_t tensor_bytes(struct tensor t) {
    return (size_t)tensor_count(t) * dtype_bytes(t.dtype);
}

// A dimension of length 1 is never stepped along, so its stride does not matter.
static inline bool tensor_is_contiguous(struct tensor t) {
    int64_t expected = 1;
    for (int i = t.rank - 1; i >= 0; i--) {
        if (t.shape[i] != 1 && t.stride[i] != expected)
            return false;
        expected *= t.shape[i];
    }
    return true;
}

// Rows [first, first + count) of the first dimension.
struct tensor tensor_rows(struct tensor t, int64_t first, int64_t count);
// Columns [first, first + count) of dimension `dimension`; the strides stay the same.
struct tensor tensor_slice(struct tensor t, int dimension, int64_t first, int64_t count);
// A view of the same contiguous elements in another shape.
struct tensor tensor_reshape_2d(struct tensor t, int64_t a, int64_t b);
struct tensor tensor_reshape_4d(struct tensor t, int64_t a, int64_t b, int64_t c, int64_t d);
struct tensor tensor_flat(struct tensor t);

// Writes "fp32 (4, 256, 768)" to text, for messages.
void tensor_describe(struct tensor t, char *text, size_t size);

#endif
