// Index caches on disk. Every file is written atomically, and the checksums last, so a cache is complete if they match.
// Reading trusts nothing: the checksum detects damage, and range checks by the callers make even a forged cache
// harmless.
#include "data/sample/index_cache.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/hash.h"
#include "base/log.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- NumPy's files ----

// .npy: "\x93NUMPY", version 1.0, a 16-bit header length, a Python dictionary padded with spaces so that the data
// begins at a multiple of 64 bytes, then the data. The reader also accepts versions 2 and 3 (32-bit header length) and
// the three keys in any order; it checks every byte of the header.

enum { PREAMBLE_BYTES = 10, ALIGNMENT = 64, MAXIMUM_HEADER_BYTES = 1 << 16 };

static const char *const descriptions[] = {[NPY_I32] = "<i4", [NPY_U32] = "<u4", [NPY_I64] = "<i8", [NPY_I16] = "<i2"};

size_t npy_item_bytes(enum npy_dtype dtype) {
    return dtype == NPY_I64 ? 8 : dtype == NPY_I16 ? 2 : 4;
}

// NumPy reserves room for the first dimension to grow to 21 digits without moving the data.
static void format_header(struct buffer *out, struct npy_shape shape) {
    char rows[32];
    int digits = snprintf(rows, sizeof rows, "%" PRId64, shape.rows);
    struct buffer text = {0};
    buffer_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s,", descriptions[shape.dtype], rows);
    if (shape.dimensions == 2)
        buffer_printf(&text, " %" PRId64, shape.columns);
    buffer_printf(&text, "), }%*s", 21 - digits, "");
    while ((PREAMBLE_BYTES + text.length + 1) % ALIGNMENT != 0)
        buffer_append_byte(&text, ' ');
    buffer_append_byte(&text, '\n');
    uint16_t length = (uint16_t)text.length;
    buffer_append(out, "\x93NUMPY\1\0", 8);
    buffer_append(out, &length, sizeof length);
    buffer_append(out, text.data, text.length);
    buffer_free(&text);
}

int npy_write(const char *path, struct npy_shape shape, const void *data) {
    struct file_writer writer;
    TRY(file_create(&writer, path));
    struct buffer header = {0};
    format_header(&header, shape);
    int result = file_write(&writer, header.data, header.length);
    buffer_free(&header);
    size_t bytes = (size_t)(shape.rows * shape.columns) * npy_item_bytes(shape.dtype);
    if (result == 0 && bytes > 0)
        result = file_write(&writer, data, bytes);
    if (result < 0) {
        file_abort(&writer);
        return -1;
    }
    return file_commit(&writer);
}

// Reads the header's dictionary. `at` never passes `end`; every function returns false if the text is not as
// expected.
struct npy_cursor {
    const char *at, *end;
};

static void skip_blanks(struct npy_cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n'))
        c->at++;
}

static bool take(struct npy_cursor *c, const char *text) {
    skip_blanks(c);
    size_t length = strlen(text);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, text, length) != 0)
        return false;
    c->at += length;
    return true;
}

static bool take_count(struct npy_cursor *c, int64_t *value) {
    skip_blanks(c);
    const char *start = c->at;
    *value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *c->at - '0', value))
            return false;
    return c->at > start;
}

static bool take_dtype(struct npy_cursor *c, struct npy_shape *shape) {
    for (size_t i = 0; i < sizeof descriptions / sizeof descriptions[0]; i++) {
        char quoted[8];
        snprintf(quoted, sizeof quoted, "'%s'", descriptions[i]);
        if (take(c, quoted)) {
            shape->dtype = (enum npy_dtype)i;
            return true;
        }
    }
    return false;
}

static bool take_shape(struct npy_cursor *c, struct npy_shape *shape) {
    shape->dimensions = 1;
    shape->columns = 1;
    if (!take(c, "(") || !take_count(c, &shape->rows) || !take(c, ","))
        return false;
    if (take(c, ")"))
        return true;
    shape->dimensions = 2;
    return take_count(c, &shape->columns) && take(c, ")");
}

static bool take_entry(struct npy_cursor *c, struct npy_shape *shape, unsigned *seen) {
    enum { DTYPE = 1, ORDER = 2, SHAPE = 4 };
    unsigned key = 0;
    if (take(c, "'descr'") && take(c, ":") && take_dtype(c, shape))
        key = DTYPE;
    else if (take(c, "'fortran_order'") && take(c, ":") && take(c, "False"))
        key = ORDER;
    else if (take(c, "'shape'") && take(c, ":") && take_shape(c, shape))
        key = SHAPE;
    if (key == 0 || (*seen & key))
        return false;
    *seen |= key;
    return true;
}

static bool take_dictionary(struct npy_cursor *c, struct npy_shape *shape) {
    unsigned seen = 0;
    if (!take(c, "{"))
        return false;
    while (!take(c, "}")) {
        if (!take_entry(c, shape, &seen))
            return false;
        if (!take(c, ",") && !(c->at < c->end && *c->at == '}'))
            return false;
    }
    skip_blanks(c);
    return seen == 7 && c->at == c->end;
}

int npy_parse(struct npy *npy, const unsigned char *bytes, size_t size, const char *name) {
    *npy = (struct npy){0};
    if (size < PREAMBLE_BYTES || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return bad_data("%s: byte 0: this is not an .npy file", name);
    size_t start = PREAMBLE_BYTES, length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return bad_data("%s: byte 6: .npy version %d.%d is unknown", name, bytes[6], bytes[7]);
    if (bytes[6] > 1) {
        start = PREAMBLE_BYTES + 2;
        if (size < start)
            return bad_data("%s: byte %zu: the header is truncated", name, size);
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    }
    if (length > MAXIMUM_HEADER_BYTES || length > size - start)
        return bad_data("%s: byte 8: a header of %zu bytes in a file of %zu", name, length, size);
    struct npy_cursor cursor = {(const char *)bytes + start, (const char *)bytes + start + length};
    if (!take_dictionary(&cursor, &npy->shape))
        return bad_data(
            "%s: byte %zu: expected descr '<i2', '<i4', '<u4' or '<i8', fortran_order False and a shape of one or "
            "two dimensions",
            name, (size_t)((const unsigned char *)cursor.at - bytes));
    size_t count, data_bytes;
    if (!size_mul((size_t)npy->shape.rows, (size_t)npy->shape.columns, &count) ||
        !size_mul(count, npy_item_bytes(npy->shape.dtype), &data_bytes) || data_bytes != size - start - length)
        return bad_data("%s: %zu bytes of data, but the shape is (%" PRId64 ", %" PRId64 ") of %s", name,
                        size - start - length, npy->shape.rows, npy->shape.columns, descriptions[npy->shape.dtype]);
    npy->data = bytes + start + length;
    return 0;
}

int npy_open(struct npy *npy, const char *path) {
    *npy = (struct npy){0};
    struct file_map file = {0};
    TRY(file_map_open(&file, path));
    if (npy_parse(npy, file.data, file.size, path) < 0) {
        file_map_close(&file);
        return -1;
    }
    npy->file = file;
    if ((uintptr_t)npy->data % npy_item_bytes(npy->shape.dtype) != 0) {
        npy_close(npy);
        return bad_data("%s: the data is not aligned; write the file with NumPy 1.9 or newer", path);
    }
    return 0;
}

void npy_close(struct npy *npy) {
    file_map_close(&npy->file);
    *npy = (struct npy){0};
}

// ---- caches ----

// Index caches on disk. Every file is written atomically, and the checksums last, so a cache is complete if they match.
// Reading trusts nothing: the checksum detects damage, and range checks by the callers make even a forged cache
// harmless.

static char *file_name(const struct index_cache *cache, const char *what) {
    return memory_printf("%s-%s", cache->stem, what);
}

void index_cache_describe_samples(struct json_writer *w, const struct index_cache_samples *samples) {
    json_put_string(w, "class", samples->class);
    json_put_string(w, "dataset_path", samples->prefix);
    json_put_int(w, "num_samples", samples->sample_count);
    json_put_string(w, "index_split", split_name(samples->which));
    json_put_int(w, "random_seed", samples->seed);
    json_put_int(w, "sequence_length", samples->seq_length);
    json_put_string(w, "split", samples->split);
}

void index_cache_describe_dataset(struct json_writer *w, const struct index_reader *reader) {
    json_put_int(w, "sequences", reader->sequence_count);
    json_put_int(w, "documents", reader->document_count);
    json_put_int(w, "tokens", reader->token_count);
    json_put_string(w, "dtype", index_dtype_name(reader->dtype));
}

void index_cache_name(struct index_cache *cache, const char *folder, const char *name, struct buffer *description) {
    cache->folder = memory_string(folder);
    cache->description = memory_string(buffer_string(description));
    buffer_free(description);
    char md5[33];
    md5_hex(cache->description, strlen(cache->description), md5);
    cache->stem = memory_printf("%s/%s-%s", cache->folder, md5, name);
}

void index_cache_free(struct index_cache *cache) {
    free(cache->folder);
    free(cache->description);
    free(cache->stem);
    *cache = (struct index_cache){0};
}

// True if any array of the cache exists, complete or not.
static bool exists(const struct index_cache *cache, const struct index_cache_array *arrays, int count) {
    bool is_there = false;
    for (int i = 0; i < count && !is_there; i++) {
        char *path = file_name(cache, arrays[i].name);
        is_there = file_exists(path);
        free(path);
    }
    return is_there;
}

static inline uint64_t mix(uint64_t state, uint64_t word) {
    state ^= word;
    return (state << 29 | state >> 35) * 0x9E3779B97F4A7C15u;
}

// A checksum at memory speed; with CRC or SHA thousands of ranks would wait for gigabytes of index. Each step is a
// bijection of the lane for a given word, so a change within one word is always detected; any other is missed once in
// 2^64.
static uint64_t checksum(const void *data, size_t bytes) {
    const unsigned char *at = data;
    uint64_t lanes[4] = {1, 2, 3, 4}, sum = bytes, word = 0;
    for (; bytes >= 32; bytes -= 32, at += 32)
        for (int lane = 0; lane < 4; lane++) {
            memcpy(&word, at + 8 * lane, sizeof word);
            lanes[lane] = mix(lanes[lane], word);
        }
    for (size_t i = 0; i < bytes; i++)
        sum = mix(sum, at[i]);
    for (int lane = 0; lane < 4; lane++)
        sum = mix(sum, lanes[lane]);
    return sum;
}

// One line of checksums.txt. The header of a .npy is not included: it is compared field by field.
static void format_checksum(struct buffer *text, const char *name, struct npy_shape shape, const void *data) {
    size_t bytes = (size_t)(shape.rows * shape.columns) * npy_item_bytes(shape.dtype);
    buffer_printf(text, "%016" PRIx64 " %zu %s\n", checksum(data, bytes), bytes, name);
}

// ---- writing ----

static int write_text(const struct index_cache *cache, const char *what, const char *text) {
    char *path = file_name(cache, what);
    int result = file_write_all(path, text, strlen(text));
    free(path);
    return result;
}

static int write_files(const struct index_cache *cache, const struct index_cache_array *arrays, int count) {
    TRY(file_make_folders(cache->folder));
    TRY(write_text(cache, "description.txt", cache->description));
    struct buffer checksums = {0};
    int result = 0;
    for (int i = 0; i < count && result == 0; i++) {
        char *path = file_name(cache, arrays[i].name);
        result = npy_write(path, arrays[i].shape, arrays[i].data);
        free(path);
        format_checksum(&checksums, arrays[i].name, arrays[i].shape, arrays[i].data);
    }
    if (result == 0)
        result = write_text(cache, "checksums.txt", buffer_string(&checksums));
    buffer_free(&checksums);
    return result;
}

int index_cache_write(const struct index_cache *cache, const struct index_cache_array *arrays, int count) {
    int status = write_files(cache, arrays, count);
    if (status < 0 && error_exit_code() != EXIT_CODE_STOPPED)
        return error_context("cannot store the sample index (choose a writable folder with --data-cache-path)");
    return status;
}

// ---- reading ----

static int open_array(const struct index_cache *cache, const struct index_cache_array *array, struct npy *npy) {
    char *path = file_name(cache, array->name);
    int result = npy_open(npy, path);
    const struct npy_shape *found = &npy->shape, *expected = &array->shape;
    if (result == 0 && (found->dtype != expected->dtype || found->dimensions != expected->dimensions ||
                        (expected->rows >= 0 && found->rows != expected->rows) || found->columns != expected->columns))
        result = bad_data("%s: the shape is (%" PRId64 ", %" PRId64 "), expected (%" PRId64 ", %" PRId64 ")", path,
                          found->rows, found->columns, expected->rows, expected->columns);
    free(path);
    return result;
}

static int compare_checksums(const struct index_cache *cache, const struct index_cache_array *arrays, int count,
                             const struct npy *opened) {
    struct buffer expected = {0}, found = {0};
    for (int i = 0; i < count; i++)
        format_checksum(&expected, arrays[i].name, opened[i].shape, opened[i].data);
    char *path = file_name(cache, "checksums.txt");
    int result = file_read_own(path, 4096, &found);
    if (result == 0 && strcmp(buffer_string(&found), buffer_string(&expected)) != 0)
        result = bad_data("%s: the checksums are not those of its arrays", path);
    buffer_free(&found);
    buffer_free(&expected);
    free(path);
    return result;
}

int index_cache_open(const struct index_cache *cache, const struct index_cache_array *arrays, int count,
                     struct npy *opened) {
    int result = 0;
    for (int i = 0; i < count; i++)
        opened[i] = (struct npy){0};
    for (int i = 0; i < count && result == 0; i++)
        result = open_array(cache, &arrays[i], &opened[i]);
    if (result == 0)
        result = compare_checksums(cache, arrays, count, opened);
    for (int i = 0; i < count && result < 0; i++)
        npy_close(&opened[i]);
    return result;
}

int index_cache_ensure(const struct index_cache *cache, const struct index_cache_array *arrays, int count,
                       int (*open)(const struct index_cache *cache, void *dataset),
                       int (*build)(const struct index_cache *cache, void *dataset), void *dataset) {
    if (exists(cache, arrays, count)) {
        if (open(cache, dataset) == 0)
            return 0;
        log_warn("%s; rebuilding it", error_message());
        error_clear();
    }
    return build(cache, dataset);
}
