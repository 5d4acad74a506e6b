// Index caches on disk. Every file is written atomically, and the checksums last, so a cache is complete if they match.
// Reading trusts nothing: the checksum detects damage, and range checks by the callers make even a forged cache
// harmless.
#include "data/sample/index_cache.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
