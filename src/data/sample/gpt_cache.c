// The cache of a GPT dataset: its description, its three arrays, and the check that their entries are in range.
#include "data/sample/gpt_cache.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include <stdlib.h>

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

bool gpt_cache_exists(const struct index_cache *cache, const struct gpt_shape *shape) {
    struct index_cache_array arrays[GPT_ARRAY_COUNT];
    list_arrays(shape, arrays);
    return index_cache_exists(cache, arrays, GPT_ARRAY_COUNT);
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

int gpt_cache_open(const struct index_cache *cache, struct gpt_dataset *dataset) {
    struct index_cache_array arrays[GPT_ARRAY_COUNT];
    list_arrays(&dataset->shape, arrays);
    TRY(index_cache_open(cache, arrays, GPT_ARRAY_COUNT, dataset->arrays));
    if (documents_in_range(dataset) && samples_in_range(dataset) && order_in_range(dataset))
        return 0;
    for (int i = 0; i < GPT_ARRAY_COUNT; i++)
        npy_close(&dataset->arrays[i]);
    return bad_data("%s-*.npy: an entry is out of range", cache->stem);
}
