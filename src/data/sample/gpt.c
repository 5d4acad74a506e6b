// A GPT dataset: one split of one indexed dataset, and the arrays that say which tokens form sample i. Reading a sample
// checks every bound it uses, so an intact cache of other data cannot do harm.
#include "data/sample/gpt.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>

// ---- the cache ----

void gpt_cache_name(struct index_cache *cache, const struct gpt_options *options, const struct index_reader *reader) {
    struct buffer text = {0};
    struct json_writer w = {.out = &text, .indent = 4};
    json_begin_object(&w);
    index_cache_describe_samples(&w, &(struct index_cache_samples){.class = "GPTDataset",
                                                                   .prefix = options->prefix,
                                                                   .split = options->split,
                                                                   .which = options->which,
                                                                   .sample_count = options->sample_count,
                                                                   .seq_length = options->seq_length,
                                                                   .seed = options->seed});
    index_cache_describe_dataset(&w, reader);
    json_end_object(&w);
    char *folder = options->cache_folder ? memory_string(options->cache_folder)
                                         : memory_printf("%s/cache/GPTDataset_indices", options->prefix);
    char *name = memory_printf("GPTDataset-%s", split_name(options->which));
    index_cache_name(cache, folder, name, &text);
    free(folder);
    free(name);
}

static void list_arrays(const struct gpt_shape *shape, struct index_cache_array arrays[GPT_ARRAY_COUNT]) {
    arrays[GPT_DOCUMENTS] =
        (struct index_cache_array){.name = "document_index.npy", .shape = {NPY_I32, 1, gpt_shape_documents(shape), 1}};
    arrays[GPT_SAMPLES] = (struct index_cache_array){
        .name = "sample_index.npy", .shape = {shape->wide_samples ? NPY_I64 : NPY_I32, 2, shape->samples + 1, 2}};
    arrays[GPT_ORDER] = (struct index_cache_array){
        .name = "shuffle_index.npy", .shape = {shape->wide_order ? NPY_I64 : NPY_U32, 1, shape->samples, 1}};
}

int gpt_cache_write(const struct index_cache *cache, const struct gpt_shape *shape, const struct gpt_index *index) {
    struct index_cache_array arrays[GPT_ARRAY_COUNT];
    list_arrays(shape, arrays);
    arrays[GPT_DOCUMENTS].data = index->documents;
    arrays[GPT_SAMPLES].data = index->samples;
    arrays[GPT_ORDER].data = index->order;
    return index_cache_write(cache, arrays, GPT_ARRAY_COUNT);
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
        ok &= start.position >= before && start.position < documents && start.offset >= 0 && start.offset < INT64_MAX;
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

// Maps the arrays into dataset->arrays and verifies them: shapes, checksums, every entry in range. dataset->range and
// shape are set. On error nothing is left open.
static int open_cache(const struct index_cache *cache, void *context) {
    struct gpt_dataset *dataset = context;
    struct index_cache_array arrays[GPT_ARRAY_COUNT];
    list_arrays(&dataset->shape, arrays);
    TRY(index_cache_open(cache, arrays, GPT_ARRAY_COUNT, dataset->arrays));
    if (documents_in_range(dataset) && samples_in_range(dataset) && order_in_range(dataset))
        return 0;
    for (int i = 0; i < GPT_ARRAY_COUNT; i++)
        npy_close(&dataset->arrays[i]);
    return bad_data("%s-*.npy: an entry is out of range", cache->stem);
}

// ---- the dataset ----

static int check_options(const struct gpt_options *options) {
    if (options->seq_length < 1)
        return error_set("--seq-length %" PRId64 ": a sample needs at least one token", options->seq_length);
    if (options->sample_count < 0)
        return error_set("%" PRId64 " is not a number of samples", options->sample_count);
    if (options->seed < 0 || options->seed > UINT32_MAX)
        return error_set("--seed %" PRId64 ": the seed of a dataset must be between 0 and 4294967295", options->seed);
    return 0;
}

static int find_range(const struct gpt_options *options, struct gpt_dataset *dataset) {
    dataset->range.reader = dataset->reader;
    return split_choose(&(struct split_choice){.prefix = options->prefix,
                                               .split = options->split,
                                               .which = options->which,
                                               .items = "sequences",
                                               .count = dataset->reader->sequence_count},
                        &dataset->range.begin, &dataset->range.end);
}

// Everything except the arrays.
static int open_reader(struct gpt_dataset *dataset, const struct gpt_options *options) {
    TRY(check_options(options));
    dataset->vocab_size = options->vocab_size;
    dataset->seed = (uint32_t)options->seed;
    dataset->name = memory_printf("%s split of %s", split_name(options->which), options->prefix);
    TRY(index_open(&dataset->reader, options->prefix));
    TRY(find_range(options, dataset));
    return gpt_shape_make(&dataset->shape, dataset->range, options->seq_length, options->sample_count);
}

static int build_cache(const struct index_cache *cache, void *context) {
    const struct gpt_dataset *dataset = context;
    const struct gpt_shape *shape = &dataset->shape;
    log_info("building the sample index of the %s: %" PRId64 " documents, %" PRId64 " tokens, %" PRId64
             " epochs%s, %" PRId64 " samples of %" PRId64 " tokens",
             dataset->name, shape->documents_per_epoch, shape->tokens_per_epoch, shape->epochs,
             shape->is_last_separate ? " (the last shuffled separately)" : "", shape->samples, shape->seq_length);
    struct gpt_index index = {0};
    TRY(gpt_index_build(&index, shape, dataset->range, dataset->seed));
    int result = gpt_cache_write(cache, shape, &index);
    gpt_index_free(&index);
    return result;
}

// Opens the arrays, or makes sure that they are there.
static int use_cache(struct gpt_dataset *dataset, const struct gpt_options *options, bool builds) {
    struct index_cache cache;
    struct index_cache_array arrays[GPT_ARRAY_COUNT];
    TRY(open_reader(dataset, options));
    list_arrays(&dataset->shape, arrays);
    gpt_cache_name(&cache, options, dataset->reader);
    int result = builds ? index_cache_ensure(&cache, arrays, GPT_ARRAY_COUNT, open_cache, build_cache, dataset)
                        : open_cache(&cache, dataset);
    if (result < 0 && !builds)
        error_context("cannot use the sample index in %s (remove it to have it rebuilt)", cache.folder);
    index_cache_free(&cache);
    return result;
}

int gpt_dataset_build(const struct gpt_options *options) {
    struct gpt_dataset *dataset = memory_alloc(sizeof *dataset);
    int result = use_cache(dataset, options, true);
    gpt_dataset_close(dataset);
    return result;
}

int gpt_dataset_open(struct gpt_dataset **dataset, const struct gpt_options *options) {
    *dataset = memory_alloc(sizeof **dataset);
    if (use_cache(*dataset, options, false) == 0)
        return 0;
    gpt_dataset_close(*dataset);
    *dataset = NULL;
    return -1;
}

void gpt_dataset_close(struct gpt_dataset *dataset) {
    if (!dataset)
        return;
    for (int i = 0; i < GPT_ARRAY_COUNT; i++)
        npy_close(&dataset->arrays[i]);
    index_close(dataset->reader);
    free(dataset->name);
    free(dataset);
}

static int wrong_length(const struct gpt_dataset *dataset, int64_t sample) {
    return bad_data("%s: sample %" PRId64 " does not have %" PRId64
                    " tokens: the sample index belongs to other data; remove its files to have it rebuilt",
                    dataset->name, sample, dataset->shape.seq_length + 1);
}

int gpt_dataset_sample(const struct gpt_dataset *dataset, int64_t i, int32_t *tokens) {
    CHECK(i >= 0 && i < dataset->shape.samples);
    int64_t sample = gpt_dataset_order(dataset, i), wanted = dataset->shape.seq_length + 1, filled = 0;
    struct gpt_start first = gpt_dataset_start(dataset, sample), last = gpt_dataset_start(dataset, sample + 1);
    const int32_t *documents = (const int32_t *)dataset->arrays[GPT_DOCUMENTS].data;
    for (int64_t position = first.position; position <= last.position; position++) {
        int64_t sequence = documents[position];
        int64_t from = position == first.position ? first.offset : 0;
        int64_t to = position == last.position ? last.offset + 1 : index_length(dataset->reader, sequence);
        if (to < from || to - from > wanted - filled)
            return wrong_length(dataset, i);
        struct index_piece piece = {sequence, from, to - from};
        TRY(index_read_ids(dataset->reader, piece, dataset->vocab_size, tokens + filled));
        filled += to - from;
    }
    return filled == wanted ? 0 : wrong_length(dataset, i);
}

static int read_source(void *context, int64_t sample, int32_t *tokens) {
    return gpt_dataset_sample(context, sample, tokens);
}

struct sample_source gpt_dataset_source(struct gpt_dataset *dataset) {
    return (struct sample_source){.context = dataset,
                                  .name = dataset->name,
                                  .count = dataset->shape.samples,
                                  .seq_length = dataset->shape.seq_length,
                                  .read = read_source};
}
