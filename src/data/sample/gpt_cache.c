// Index caches on disk. Every file is written atomically and the checksums come last, so a cache is whole once they
// match. Reading trusts nothing: the checksum finds damage, the ranges make even a forged cache harmless.
#include "data/sample/gpt_cache.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const array_names[GPT_ARRAY_COUNT] = {
    [GPT_DOCUMENTS] = "document_index.npy", [GPT_SAMPLES] = "sample_index.npy", [GPT_ORDER] = "shuffle_index.npy"};

static char *file_name(const struct gpt_cache *cache, const char *what) {
    return memory_printf("%s-%s", cache->stem, what);
}

static void describe_dataset(struct json_writer *w, const struct index_reader *reader) {
    json_key(w, "sequences");
    json_int(w, reader->sequence_count);
    json_key(w, "documents");
    json_int(w, reader->document_count);
    json_key(w, "tokens");
    json_int(w, reader->token_count);
    json_key(w, "dtype");
    json_cstring(w, index_dtype_name(reader->dtype));
}

static char *describe(const struct gpt_options *options, const struct index_reader *reader) {
    struct buffer text = {0};
    struct json_writer w = {.out = &text, .indent = 4};
    json_begin_object(&w);
    json_key(&w, "class");
    json_cstring(&w, "GPTDataset");
    json_key(&w, "dataset_path");
    json_cstring(&w, options->prefix);
    json_key(&w, "num_samples");
    json_int(&w, options->sample_count);
    json_key(&w, "index_split");
    json_cstring(&w, split_name(options->which));
    json_key(&w, "random_seed");
    json_int(&w, options->seed);
    json_key(&w, "sequence_length");
    json_int(&w, options->seq_length);
    json_key(&w, "split");
    json_cstring(&w, options->split);
    describe_dataset(&w, reader);
    json_end_object(&w);
    return text.data;
}

void gpt_cache_name(struct gpt_cache *cache, const struct gpt_options *options, const struct index_reader *reader) {
    cache->folder = options->cache_folder ? memory_string(options->cache_folder)
                                          : memory_printf("%s/cache/GPTDataset_indices", options->prefix);
    cache->description = describe(options, reader);
    char md5[33];
    md5_hex(cache->description, strlen(cache->description), md5);
    cache->stem = memory_printf("%s/%s-GPTDataset-%s", cache->folder, md5, split_name(options->which));
}

void gpt_cache_free(struct gpt_cache *cache) {
    free(cache->folder);
    free(cache->description);
    free(cache->stem);
    *cache = (struct gpt_cache){0};
}

bool gpt_cache_exists(const struct gpt_cache *cache) {
    bool exists = false;
    for (int i = 0; i < GPT_ARRAY_COUNT && !exists; i++) {
        char *path = file_name(cache, array_names[i]);
        exists = file_exists(path);
        free(path);
    }
    return exists;
}

static struct npy_shape array_shape(const struct gpt_shape *shape, int array) {
    switch (array) {
    case GPT_DOCUMENTS:
        return (struct npy_shape){NPY_I32, 1, gpt_shape_documents(shape), 1};
    case GPT_SAMPLES:
        return (struct npy_shape){shape->wide_samples ? NPY_I64 : NPY_I32, 2, shape->samples + 1, 2};
    default:
        return (struct npy_shape){shape->wide_order ? NPY_I64 : NPY_U32, 1, shape->samples, 1};
    }
}

static inline uint64_t mix(uint64_t state, uint64_t word) {
    state ^= word;
    return (state << 29 | state >> 35) * 0x9E3779B97F4A7C15u;
}

// A checksum at the speed of memory; CRC and SHA would make thousands of ranks wait for gigabytes of index. Each step
// is a bijection of the lane for a given word, so a change within one word is always seen, any other but once in
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

// The text of checksums.txt for these arrays. The header of a .npy needs none: it is compared field by field.
static char *format_checksums(const struct gpt_shape *shape, const void *const data[GPT_ARRAY_COUNT]) {
    struct buffer text = {0};
    for (int i = 0; i < GPT_ARRAY_COUNT; i++) {
        struct npy_shape array = array_shape(shape, i);
        size_t bytes = (size_t)(array.rows * array.columns) * npy_item_bytes(array.dtype);
        buffer_printf(&text, "%016" PRIx64 " %zu %s\n", checksum(data[i], bytes), bytes, array_names[i]);
    }
    return text.data;
}

// ---- writing ----

static int write_text(const struct gpt_cache *cache, const char *what, const char *text) {
    char *path = file_name(cache, what);
    int result = file_write_all(path, text, strlen(text));
    free(path);
    return result;
}

static int write_files(const struct gpt_cache *cache, const struct gpt_shape *shape,
                       const void *const data[GPT_ARRAY_COUNT]) {
    TRY(file_make_folders(cache->folder));
    TRY(write_text(cache, "description.txt", cache->description));
    for (int i = 0; i < GPT_ARRAY_COUNT; i++) {
        char *path = file_name(cache, array_names[i]);
        int result = npy_write(path, array_shape(shape, i), data[i]);
        free(path);
        TRY(result);
    }
    char *checksums = format_checksums(shape, data);
    int result = write_text(cache, "checksums.txt", checksums);
    free(checksums);
    return result;
}

int gpt_cache_write(const struct gpt_cache *cache, const struct gpt_shape *shape, const struct gpt_index *index) {
    const void *const data[GPT_ARRAY_COUNT] = {index->documents, index->samples, index->order};
    if (write_files(cache, shape, data) < 0)
        return error_context("cannot keep the sample index (choose a writable folder with --data-cache-path)");
    return 0;
}

// ---- reading ----

static int open_array(const struct gpt_cache *cache, int array, struct npy_shape expected, struct npy *npy) {
    char *path = file_name(cache, array_names[array]);
    int result = npy_open(npy, path);
    const struct npy_shape *found = &npy->shape;
    if (result == 0 && (found->dtype != expected.dtype || found->dimensions != expected.dimensions ||
                        found->rows != expected.rows || found->columns != expected.columns))
        result = bad_data("%s: the shape is (%" PRId64 ", %" PRId64 "), expected (%" PRId64 ", %" PRId64 ")", path,
                          found->rows, found->columns, expected.rows, expected.columns);
    free(path);
    return result;
}

static int compare_checksums(const struct gpt_cache *cache, const struct gpt_dataset *dataset) {
    const void *data[GPT_ARRAY_COUNT];
    for (int i = 0; i < GPT_ARRAY_COUNT; i++)
        data[i] = dataset->arrays[i].data;
    char *expected = format_checksums(&dataset->shape, data), *path = file_name(cache, "checksums.txt");
    struct buffer found = {0};
    int result = file_read_all(path, 4096, &found);
    if (result == 0 && strcmp(buffer_string(&found), expected) != 0)
        result = bad_data("%s: the checksums are not those of the arrays beside it", path);
    buffer_free(&found);
    free(path);
    free(expected);
    return result;
}

static bool documents_in_range(const struct gpt_dataset *dataset) {
    const int32_t *documents = (const int32_t *)dataset->arrays[GPT_DOCUMENTS].data;
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (int64_t i = 0, count = gpt_shape_documents(&dataset->shape); i < count; i++) {
        least = documents[i] < least ? documents[i] : least;
        most = documents[i] > most ? documents[i] : most;
    }
    return least >= dataset->range.begin && most < dataset->range.end;
}

static bool samples_in_range(const struct gpt_dataset *dataset) {
    int64_t documents = gpt_shape_documents(&dataset->shape), before = 0;
    bool ok = true;
    for (int64_t row = 0; row <= dataset->shape.samples; row++) {
        struct gpt_start start = gpt_dataset_start(dataset, row);
        ok &= start.position >= before && start.position < documents && start.offset >= 0;
        before = start.position;
    }
    return ok;
}

static bool order_in_range(const struct gpt_dataset *dataset) {
    bool ok = true;
    for (int64_t i = 0; i < dataset->shape.samples; i++) {
        int64_t sample = gpt_dataset_order(dataset, i);
        ok &= sample >= 0 && sample < dataset->shape.samples;
    }
    return ok;
}

static int open_and_prove(const struct gpt_cache *cache, struct gpt_dataset *dataset) {
    for (int i = 0; i < GPT_ARRAY_COUNT; i++)
        TRY(open_array(cache, i, array_shape(&dataset->shape, i), &dataset->arrays[i]));
    TRY(compare_checksums(cache, dataset));
    if (!documents_in_range(dataset) || !samples_in_range(dataset) || !order_in_range(dataset))
        return bad_data("%s-*.npy: an entry is out of range", cache->stem);
    return 0;
}

int gpt_cache_open(const struct gpt_cache *cache, struct gpt_dataset *dataset) {
    if (open_and_prove(cache, dataset) == 0)
        return 0;
    for (int i = 0; i < GPT_ARRAY_COUNT; i++)
        npy_close(&dataset->arrays[i]);
    return -1;
}
