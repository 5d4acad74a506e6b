// Writes safetensors: the header is complete before the first byte of data, because sizes follow from shapes; the hash
// is computed while writing, so the file is never read again.
#include "base/words.h"
#include "store/safetensors.h"

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

static const char metadata_key[] = "__metadata__";

static int tensor_data_bytes(const struct safetensors_tensor *tensor, size_t *bytes) {
    CHECK(tensor->rank >= 0 && tensor->rank <= TENSOR_MAX_RANK);
    size_t product = dtype_bytes(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0 || !size_mul(product, (size_t)tensor->shape[i], &product))
            return error_set("the tensor \"%s\" has a shape of more bytes than 64 bits can count", tensor->name);
    }
    *bytes = product;
    return 0;
}

static int check_names(const struct safetensors_layout *layout) {
    OWNED const char **names = memory_alloc((layout->count + 1) * sizeof names[0]);
    for (size_t i = 0; i < layout->count; i++)
        names[i] = layout->tensors[i].name;
    qsort(names, layout->count, sizeof names[0], words_compare);
    int result = 0;
    for (size_t i = 0; i < layout->count && result == 0; i++) {
        if (strcmp(names[i], metadata_key) == 0)
            result = error_set("a tensor cannot be called \"%s\": the format reserves that name", metadata_key);
        else if (i > 0 && strcmp(names[i - 1], names[i]) == 0)
            result = error_set("two tensors are called \"%s\"; names must differ", names[i]);
    }
    return result;
}

static void write_metadata(struct json_writer *json, const struct safetensors_layout *layout) {
    json_key(json, metadata_key);
    json_begin_object(json);
    for (size_t i = 0; i < layout->metadata_count; i++)
        json_put_string(json, layout->metadata[i].key, layout->metadata[i].value);
    json_end_object(json);
}

static void write_tensor(struct json_writer *json, const struct safetensors_tensor *tensor, size_t begin, size_t end) {
    json_key(json, tensor->name);
    json_begin_object(json);
    json_put_string(json, "dtype", dtype_safetensors_name(tensor->dtype));
    json_key(json, "shape");
    json_begin_array(json);
    for (int i = 0; i < tensor->rank; i++)
        json_int(json, tensor->shape[i]);
    json_end_array(json);
    json_key(json, "data_offsets");
    json_begin_array(json);
    json_int(json, (int64_t)begin);
    json_int(json, (int64_t)end);
    json_end_array(json);
    json_end_object(json);
}

// Appends the length field and the padded JSON; ends[0] is where the data begins, ends[i + 1] where tensor i ends.
static int make_header(struct buffer *out, const struct safetensors_layout *layout, uint64_t *ends) {
    TRY(check_names(layout));
    buffer_append(out, "\0\0\0\0\0\0\0", 8);
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    if (layout->metadata_count > 0)
        write_metadata(&json, layout);
    size_t end = 0;
    for (size_t i = 0; i < layout->count; i++) {
        size_t begin = end, bytes = 0;
        TRY(tensor_data_bytes(&layout->tensors[i], &bytes));
        if (!size_add(begin, bytes, &end) || end > INT64_MAX)
            return error_set("the tensors up to \"%s\" have more bytes than 63 bits can count",
                             layout->tensors[i].name);
        write_tensor(&json, &layout->tensors[i], begin, end);
        ends[i + 1] = end;
    }
    json_end_object(&json);
    while (out->length % 8 != 0)
        buffer_append_byte(out, ' ');
    uint64_t length = out->length - 8;
    if (length > SAFETENSORS_MAX_HEADER_BYTES)
        return error_set("%zu tensors make a header of %zu bytes, but the reader takes %d at most; write several files",
                         layout->count, out->length - 8, SAFETENSORS_MAX_HEADER_BYTES);
    memcpy(out->data, &length, 8);  // little-endian, like all supported machines
    ends[0] = 0;
    for (size_t i = 0; i <= layout->count; i++)
        ends[i] += out->length;
    return 0;
}

static uint64_t *alloc_ends(const struct safetensors_layout *layout) {
    return memory_alloc((layout->count + 1) * sizeof(uint64_t));
}

int safetensors_file_bytes(const struct safetensors_layout *layout, uint64_t *bytes) {
    OWNED_BY(buffer_free) struct buffer header = {0};
    OWNED uint64_t *ends = alloc_ends(layout);
    int result = make_header(&header, layout, ends);
    *bytes = ends[layout->count];
    return result;
}

static void free_marks(struct safetensors_writer *writer) {
    free(writer->ends);
    free(writer->marks.sums);
    writer->ends = NULL;
    writer->marks = (struct sha256_marks){0};
}

int safetensors_create(struct safetensors_writer *writer, const char *path, const struct safetensors_layout *layout) {
    *writer = (struct safetensors_writer){.file.descriptor = -1};
    OWNED_BY(buffer_free) struct buffer header = {0};
    writer->ends = alloc_ends(layout);
    writer->marks = (struct sha256_marks){.ends = writer->ends, .sums = alloc_ends(layout), .count = layout->count + 1};
    int result = make_header(&header, layout, writer->ends);
    writer->expected_bytes = writer->ends[layout->count];
    if (result < 0)
        error_context("cannot write %s", path);
    else
        result = file_create(&writer->file, path);
    if (result < 0)
        free_marks(writer);
    if (result == 0) {
        sha256_init(&writer->hash);
        result = safetensors_write(writer, header.data, header.length);
    }
    return result;
}

int safetensors_write(struct safetensors_writer *writer, const void *bytes, size_t count) {
    CHECK(writer->file.written_bytes + count <= writer->expected_bytes);
    if (file_write(&writer->file, bytes, count) < 0) {
        free_marks(writer);
        return -1;
    }
    sha256_update_marked(&writer->hash, bytes, count, &writer->marks);
    return 0;
}

int safetensors_commit(struct safetensors_writer *writer, struct safetensors_digest *digest) {
    CHECK(writer->file.written_bytes == writer->expected_bytes && writer->marks.next == writer->marks.count);
    int result = file_commit(&writer->file);
    if (result == 0 && digest) {
        unsigned char bytes[32];
        sha256_final(&writer->hash, bytes);
        sha256_hex(bytes, digest->sha256);
        digest->sums = writer->marks.sums;
        digest->count = writer->marks.count;
        writer->marks.sums = NULL;
    }
    free_marks(writer);
    return result;
}

void safetensors_abort(struct safetensors_writer *writer) {
    file_abort(&writer->file);
    free_marks(writer);
}
