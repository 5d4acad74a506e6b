// Conversions between arrays of float types. Every one goes through fp32, which holds all values of the other two.
#include "ops/cpu/convert.h"
#include "ops/cpu/clones.h"
#include "base/error.h"
#include "tensor/half.h"
#include <string.h>

#define EACH(name_, to_, from_, convert_)                                                                              \
    CPU_CLONES static void name_(to_ *restrict to, const from_ *restrict from, int64_t count) {                        \
        _Pragma("omp simd") for (int64_t i = 0; i < count; i++) to[i] = convert_(from[i]);                             \
    }

// clang-format off
EACH(to_bf16, uint16_t, float, half_to_bf16)
EACH(to_f16, uint16_t, float, half_to_f16)
EACH(from_bf16, float, uint16_t, half_from_bf16)
EACH(from_f16, float, uint16_t, half_from_f16)
// clang-format on

static void narrow(void *to, enum dtype to_dtype, const float *from, int64_t count) {
    if (to_dtype == DTYPE_F32)
        memcpy(to, from, (size_t)count * sizeof *from);
    else if (to_dtype == DTYPE_BF16)
        to_bf16(to, from, count);
    else if (to_dtype == DTYPE_F16)
        to_f16(to, from, count);
    else
        die("%s is not a float dtype", dtype_name(to_dtype));
}

static void widen(float *to, const void *from, enum dtype from_dtype, int64_t count) {
    if (from_dtype == DTYPE_F32)
        memcpy(to, from, (size_t)count * sizeof *to);
    else if (from_dtype == DTYPE_BF16)
        from_bf16(to, from, count);
    else if (from_dtype == DTYPE_F16)
        from_f16(to, from, count);
    else
        die("%s is not a float dtype", dtype_name(from_dtype));
}

void cpu_convert(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype, int64_t count) {
    if (count <= 0)
        return;
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)count * dtype_bytes(to_dtype));
    } else if (to_dtype == DTYPE_F32) {
        widen(to, from, from_dtype, count);
    } else if (from_dtype == DTYPE_F32) {
        narrow(to, to_dtype, from, count);
    } else {
        float piece[256];
        for (int64_t i = 0; i < count; i += 256) {
            int64_t length = count - i < 256 ? count - i : 256;
            widen(piece, (const uint16_t *)from + i, from_dtype, length);
            narrow((uint16_t *)to + i, to_dtype, piece, length);
        }
    }
}
