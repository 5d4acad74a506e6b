// Writes GGUF, version 3. Sizes follow from shapes, so the header is complete before the first byte of a tensor.
#include "formats/gguf.h"

#include "base/error.h"
#include "base/memory.h"
#include "store/convert.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 3 };

// Numbers are stored as in memory: all supported machines are little-endian.
static void append_u32(struct buffer *out, uint32_t value) {
    buffer_append(out, &value, sizeof value);
}

static void append_u64(struct buffer *out, uint64_t value) {
    buffer_append(out, &value, sizeof value);
}

static void append_string(struct buffer *out, const char *text, size_t length) {
    append_u64(out, length);
    buffer_append(out, text, length);
}

static void begin_pair(struct gguf_pairs *pairs, const char *key, enum gguf_type type) {
    append_string(&pairs->bytes, key, strlen(key));
    append_u32(&pairs->bytes, type);
    pairs->count++;
}

void gguf_add_u32(struct gguf_pairs *pairs, const char *key, uint32_t value) {
    begin_pair(pairs, key, GGUF_U32);
    append_u32(&pairs->bytes, value);
}

void gguf_add_f32(struct gguf_pairs *pairs, const char *key, float value) {
    begin_pair(pairs, key, GGUF_F32);
    buffer_append(&pairs->bytes, &value, sizeof value);
}

void gguf_add_bool(struct gguf_pairs *pairs, const char *key, bool value) {
    begin_pair(pairs, key, GGUF_BOOL);
    buffer_append_byte(&pairs->bytes, value ? 1 : 0);
}

void gguf_add_string(struct gguf_pairs *pairs, const char *key, const char *text, size_t length) {
    begin_pair(pairs, key, GGUF_STRING);
    append_string(&pairs->bytes, text, length);
}

void gguf_begin_array(struct gguf_pairs *pairs, const char *key, enum gguf_type type, uint64_t count) {
    begin_pair(pairs, key, GGUF_ARRAY);
    append_u32(&pairs->bytes, type);
    append_u64(&pairs->bytes, count);
}

void gguf_append_string(struct gguf_pairs *pairs, const char *text, size_t length) {
    append_string(&pairs->bytes, text, length);
}

static uint64_t padded(uint64_t size) {
    return (size + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
}

static int set_bytes(struct gguf_tensor *tensor) {
    struct gguf_block block = gguf_block_of(tensor->format);
    CHECK(block.name && tensor->rank >= 1 && tensor->rank <= GGUF_MAX_RANK);
    CHECK(tensor->shape[tensor->rank - 1] % block.elements == 0);
    if (tensor->name_length > GGUF_MAX_NAME)
        return error_set("the tensor \"%s\" has a name of more than %d bytes", tensor->name, GGUF_MAX_NAME);
    size_t blocks = (size_t)(tensor->shape[tensor->rank - 1] / block.elements);
    for (int i = 0; i + 1 < tensor->rank; i++)
        if (!size_mul(blocks, (size_t)tensor->shape[i], &blocks))
            return error_set("the tensor \"%s\" has more bytes than 64 bits can count", tensor->name);
    if (!size_mul(blocks, block.bytes, &tensor->bytes) || tensor->bytes > INT64_MAX)
        return error_set("the tensor \"%s\" has more bytes than 63 bits can count", tensor->name);
    return 0;
}

// Appends the table; ends are counted from the beginning of the data.
static int append_tensors(struct buffer *out, struct gguf_tensor *tensors, size_t count, uint64_t *ends) {
    uint64_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        struct gguf_tensor *tensor = &tensors[i];
        TRY(set_bytes(tensor));
        append_string(out, tensor->name, tensor->name_length);
        append_u32(out, (uint32_t)tensor->rank);
        for (int k = tensor->rank; k-- > 0;)
            append_u64(out, (uint64_t)tensor->shape[k]);
        append_u32(out, tensor->format);
        append_u64(out, offset);
        ends[i] = offset + tensor->bytes;
        offset = padded(ends[i]);
        if (offset > INT64_MAX)
            return error_set("the tensors up to \"%s\" have more bytes than 63 bits can count", tensor->name);
    }
    return 0;
}

static int pad(struct gguf_writer *writer) {
    static const unsigned char zeros[GGUF_ALIGNMENT] = {0};
    uint64_t size = writer->file.written_bytes;
    return file_write(&writer->file, zeros, (size_t)(padded(size) - size));
}

int gguf_create(struct gguf_writer *writer, const char *path, const struct gguf_pairs *pairs,
                struct gguf_tensor *tensors, size_t count) {
    *writer = (struct gguf_writer){.file.descriptor = -1, .count = count};
    writer->ends = memory_alloc((count + 1) * sizeof writer->ends[0]);
    OWNED_BY(buffer_free) struct buffer table = {0}, start = {0};
    buffer_append(&start, "GGUF", 4);
    append_u32(&start, VERSION);
    append_u64(&start, count);
    append_u64(&start, pairs->count);
    int result = append_tensors(&table, tensors, count, writer->ends);
    if (result == 0)
        result = file_create(&writer->file, path);
    else
        error_context("cannot write %s", path);
    if (result == 0)
        result = file_write(&writer->file, start.data, start.length);
    if (result == 0)
        result = file_write(&writer->file, buffer_string(&pairs->bytes), pairs->bytes.length);
    if (result == 0)
        result = file_write(&writer->file, buffer_string(&table), table.length);
    if (result == 0)
        result = pad(writer);
    for (size_t i = 0; i < count; i++)
        writer->ends[i] += writer->file.written_bytes;
    if (result < 0)
        gguf_abort(writer);
    return result;
}

int gguf_write(struct gguf_writer *writer, const void *bytes, size_t count) {
    CHECK(writer->next < writer->count && writer->file.written_bytes + count <= writer->ends[writer->next]);
    int result = file_write(&writer->file, bytes, count);
    while (result == 0 && writer->next < writer->count && writer->file.written_bytes == writer->ends[writer->next]) {
        writer->next++;
        result = pad(writer);
    }
    if (result < 0)
        gguf_abort(writer);
    return result;
}

int gguf_commit(struct gguf_writer *writer) {
    CHECK(writer->next == writer->count);
    free(writer->ends);
    writer->ends = NULL;
    return file_commit(&writer->file);
}

void gguf_abort(struct gguf_writer *writer) {
    file_abort(&writer->file);
    free(writer->ends);
    writer->ends = NULL;
}

// Elements of GGUF tensors. Each value is rounded once, from fp32.

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
