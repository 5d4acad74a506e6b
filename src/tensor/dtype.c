// Names and sizes of the element types. One table, indexed by enum dtype.
#include "tensor/tensor.h"
#include "base/error.h"
#include <string.h>

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
