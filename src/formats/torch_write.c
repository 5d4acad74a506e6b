// Opcodes are those of pickle's protocol 2, which every torch reads; the archive is a zip file without compression.
#include "formats/torch_write.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include <stdio.h>
#include <string.h>

static void put_bytes(struct buffer *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        buffer_append_byte(out, (char)(i < 8 ? value >> 8 * i & 0xff : 0));
}

void pickle_begin(struct buffer *out) {
    buffer_append(out, "\x80\x02", 2);
}

void pickle_end(struct buffer *out) {
    buffer_append_byte(out, '.');
}

void pickle_none(struct buffer *out) {
    buffer_append_byte(out, 'N');
}

void pickle_bool(struct buffer *out, bool value) {
    buffer_append_byte(out, value ? '\x88' : '\x89');
}

void pickle_int(struct buffer *out, int64_t value) {
    if (value >= INT32_MIN && value <= INT32_MAX) {
        buffer_append_byte(out, 'J');
        put_bytes(out, (uint32_t)(int32_t)value, 4);
        return;
    }
    buffer_append(out, "\x8a\x08", 2);
    put_bytes(out, (uint64_t)value, 8);
}

void pickle_double(struct buffer *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    buffer_append_byte(out, 'G');
    for (int i = 7; i >= 0; i--)
        buffer_append_byte(out, (char)(bits >> 8 * i & 0xff));
}

void pickle_text(struct buffer *out, const char *text) {
    if (!text) {
        pickle_none(out);
        return;
    }
    buffer_append_byte(out, 'X');
    put_bytes(out, strlen(text), 4);
    buffer_append_string(out, text);
}

void pickle_name(struct buffer *out, const char *module, const char *name) {
    buffer_printf(out, "c%s\n%s\n", module, name);
}

void pickle_begin_dict(struct buffer *out) {
    buffer_append(out, "}(", 2);
}

void pickle_end_dict(struct buffer *out) {
    buffer_append_byte(out, 'u');
}

void pickle_begin_list(struct buffer *out) {
    buffer_append(out, "](", 2);
}

void pickle_end_list(struct buffer *out) {
    buffer_append_byte(out, 'e');
}

void pickle_begin_tuple(struct buffer *out) {
    buffer_append_byte(out, '(');
}

void pickle_end_tuple(struct buffer *out) {
    buffer_append_byte(out, 't');
}

void pickle_begin_object(struct buffer *out, const char *module, const char *name) {
    pickle_name(out, module, name);
    buffer_append(out, ")\x81", 2);
    pickle_begin_dict(out);
}

void pickle_end_object(struct buffer *out) {
    buffer_append(out, "ub", 2);
}

static void put_sizes(struct buffer *out, const int64_t *sizes, int rank) {
    pickle_begin_tuple(out);
    for (int i = 0; i < rank; i++)
        pickle_int(out, sizes[i]);
    pickle_end_tuple(out);
}

void pickle_size(struct buffer *out, const int64_t *sizes, int rank) {
    pickle_name(out, "torch", "Size");
    put_sizes(out, sizes, rank);
    buffer_append(out, "\x85R", 2);
}

void pickle_tensor(struct buffer *out, enum dtype dtype, const int64_t *shape, int rank, int storage) {
    int64_t strides[TENSOR_MAX_RANK], count = 1;
    for (int i = rank; i-- > 0; count *= shape[i])
        strides[i] = count;
    char key[16];
    (void)snprintf(key, sizeof key, "%d", storage);
    pickle_name(out, "torch._utils", "_rebuild_tensor_v2");
    pickle_begin_tuple(out);
    pickle_begin_tuple(out);
    pickle_text(out, "storage");
    pickle_name(out, "torch",
                dtype == DTYPE_BF16  ? "BFloat16Storage"
                : dtype == DTYPE_F16 ? "HalfStorage"
                                     : "FloatStorage");
    pickle_text(out, key);
    pickle_text(out, "cpu");  // torch's name of host memory, where the storage is loaded
    pickle_int(out, count);
    pickle_end_tuple(out);
    buffer_append_byte(out, 'Q');
    pickle_int(out, 0);
    put_sizes(out, shape, rank);
    put_sizes(out, strides, rank);
    pickle_bool(out, false);
    pickle_name(out, "collections", "OrderedDict");
    buffer_append(out, ")R", 2);
    pickle_end_tuple(out);
    buffer_append_byte(out, 'R');
}

// ---- the archive ----

struct zip_writing {
    struct file_writer *file;
    uint64_t begin;           // of the archive in the file
    struct buffer directory;  // grows with every entry
    int count;
};

static int add_entry(struct zip_writing *zip, const char *name, const void *data, size_t bytes) {
    CHECK(bytes <= TORCH_MOST_BYTES);
    uint32_t crc = crc32_ieee(data, bytes);
    uint64_t at = zip->file->written_bytes - zip->begin;
    OWNED_BY(buffer_free) struct buffer head = {0}, fields = {0};
    put_bytes(&fields, 20, 2);  // version needed
    put_bytes(&fields, 0, 2);   // flags
    put_bytes(&fields, 0, 2);   // stored
    put_bytes(&fields, 0, 2);   // time
    put_bytes(&fields, 33, 2);  // 1 January 1980
    put_bytes(&fields, crc, 4);
    put_bytes(&fields, bytes, 4);
    put_bytes(&fields, bytes, 4);
    put_bytes(&fields, strlen(name), 2);
    put_bytes(&fields, 0, 2);  // no extra field
    buffer_append(&head, "PK\x03\x04", 4);
    buffer_append(&head, fields.data, fields.length);
    buffer_append_string(&head, name);
    buffer_append(&zip->directory, "PK\x01\x02", 4);
    put_bytes(&zip->directory, 20, 2);
    buffer_append(&zip->directory, fields.data, fields.length);
    put_bytes(&zip->directory, 0, 10);  // no comment, disk 0, attributes
    put_bytes(&zip->directory, at, 4);
    buffer_append_string(&zip->directory, name);
    zip->count++;
    TRY(file_write(zip->file, head.data, head.length));
    return file_write(zip->file, data, bytes);
}

static int end_archive(struct zip_writing *zip) {
    uint64_t at = zip->file->written_bytes - zip->begin;
    OWNED_BY(buffer_free) struct buffer end = {0};
    buffer_append(&end, "PK\x05\x06", 4);
    put_bytes(&end, 0, 4);
    put_bytes(&end, (uint64_t)zip->count, 2);
    put_bytes(&end, (uint64_t)zip->count, 2);
    put_bytes(&end, zip->directory.length, 4);
    put_bytes(&end, at, 4);
    put_bytes(&end, 0, 2);
    TRY(file_write(zip->file, zip->directory.data, zip->directory.length));
    return file_write(zip->file, end.data, end.length);
}

int torch_write(struct file_writer *file, const struct buffer *pickle, const struct torch_storage_bytes *storages,
                int count) {
    struct zip_writing zip = {.file = file, .begin = file->written_bytes};
    int result = add_entry(&zip, "archive/data.pkl", pickle->data, pickle->length);
    if (result == 0)
        result = add_entry(&zip, "archive/byteorder", "little", 6);
    for (int i = 0; i < count && result == 0; i++) {
        OWNED char *name = memory_printf("archive/data/%d", i);
        result = add_entry(&zip, name, storages[i].data, storages[i].bytes);
    }
    if (result == 0)
        result = add_entry(&zip, "archive/version", "3\n", 2);
    if (result == 0)
        result = end_archive(&zip);
    buffer_free(&zip.directory);
    return result;
}
