// Writes GGUF, version 3. Sizes follow from shapes, so the header is complete before the first byte of a tensor.
#include "formats/gguf.h"

#include "base/error.h"
#include "base/memory.h"
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
    struct buffer table = {0}, start = {0};
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
    buffer_free(&start);
    buffer_free(&table);
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
