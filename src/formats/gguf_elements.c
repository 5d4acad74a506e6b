// Elements of GGUF tensors. Each value is rounded once, from fp32.
#include "formats/gguf.h"

#include "base/error.h"
#include "store/convert.h"
#include <math.h>
#include <string.h>

enum { Q8_ELEMENTS = 32, Q8_BYTES = 34 };

struct gguf_block gguf_block_of(uint32_t format) {
    // Indexed by their numbers in the file; types that only exist in memory are omitted.
    static const struct gguf_block blocks[] = {
        [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},
        [3] = {"Q4_1", 32, 20},      [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},
        [8] = {"Q8_0", 32, 34},      [10] = {"Q2_K", 256, 84},    [11] = {"Q3_K", 256, 110},
        [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},   [14] = {"Q6_K", 256, 210},
        [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},  [18] = {"IQ3_XXS", 256, 98},
        [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},
        [22] = {"IQ2_S", 256, 82},   [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},
        [25] = {"I16", 1, 2},        [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},
        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},   [30] = {"BF16", 1, 2},
        [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
        [40] = {"NVFP4", 64, 36},    [41] = {"Q1_0", 128, 18},    [42] = {"Q2_0", 64, 18},
    };
    return format < sizeof blocks / sizeof blocks[0] ? blocks[format] : (struct gguf_block){0};
}

static enum dtype dtype_of(enum gguf_format format) {
    return format == GGUF_FORMAT_F16 ? DTYPE_F16 : format == GGUF_FORMAT_BF16 ? DTYPE_BF16 : DTYPE_F32;
}

static void convert(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype, size_t count) {
    convert_elements(
        &(struct convert){.to = to, .to_dtype = to_dtype, .from = from, .from_dtype = from_dtype, .count = count});
}

static bool encode_q8(const float *from, size_t count, unsigned char *bytes) {
    const float most_scale = 65504;  // of fp16
    for (size_t begin = 0; begin < count; begin += Q8_ELEMENTS, bytes += Q8_BYTES) {
        float most = 0;
        for (size_t i = 0; i < Q8_ELEMENTS; i++) {
            float magnitude = fabsf(from[begin + i]);
            if (!(magnitude <= most_scale * 127))
                return false;
            most = magnitude > most ? magnitude : most;
        }
        const float scale = most / 127;
        const float inverse = scale != 0 ? 1 / scale : 0;
        convert(bytes, DTYPE_F16, &scale, DTYPE_F32, 1);
        for (size_t i = 0; i < Q8_ELEMENTS; i++) {
            signed char rounded = (signed char)roundf(from[begin + i] * inverse);
            memcpy(bytes + 2 + i, &rounded, 1);
        }
    }
    return true;
}

static bool fits_f16(const float *from, size_t count) {
    const float first_above = 65520;  // from here on fp16 rounds to infinity
    for (size_t i = 0; i < count; i++)
        if (isfinite(from[i]) && fabsf(from[i]) >= first_above)
            return false;
    return true;
}

bool gguf_encode(enum gguf_format format, const float *from, size_t count, unsigned char *bytes) {
    if (format == GGUF_FORMAT_Q8_0) {
        CHECK(count % Q8_ELEMENTS == 0);
        return encode_q8(from, count, bytes);
    }
    if (format == GGUF_FORMAT_F16 && !fits_f16(from, count))
        return false;
    convert(bytes, dtype_of(format), from, DTYPE_F32, count);
    return true;
}

void gguf_decode(enum gguf_format format, const unsigned char *bytes, size_t count, float *to) {
    if (format != GGUF_FORMAT_Q8_0) {
        convert(to, DTYPE_F32, bytes, dtype_of(format), count);
        return;
    }
    CHECK(count % Q8_ELEMENTS == 0);
    for (size_t begin = 0; begin < count; begin += Q8_ELEMENTS, bytes += Q8_BYTES) {
        float scale;
        convert(&scale, DTYPE_F32, bytes, DTYPE_F16, 1);
        for (size_t i = 0; i < Q8_ELEMENTS; i++) {
            signed char quotient;
            memcpy(&quotient, bytes + 2 + i, 1);
            to[begin + i] = scale * (float)quotient;
        }
    }
}
