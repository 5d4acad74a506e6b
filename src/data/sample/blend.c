// A blend of datasets: the two arrays of struct blend_index, made in memory or cached like those of a dataset
// (index_cache.h), and the samples they name. Wherever the arrays come from, every entry is verified to name an
// existing sample before the first is read.
#include "data/sample/blend.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/sample/index_cache.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAY_DATASETS, ARRAY_NUMBERS, ARRAY_COUNT };

struct blend {
    const struct blend_options *options;  // while it is opened
    struct sample_source *sources;        // (count)
    int64_t count, size;
    int64_t asked;  // samples that can be read: more than size if the blend repeats
    char *name;
    struct blend_index made;         // in memory
    struct npy mapped[ARRAY_COUNT];  // or in files
    struct blend_index index;        // one of the two
};

static int64_t total_of(const struct blend_options *options) {
    int64_t total = 0;
    for (int64_t i = 0; i < options->count; i++)
        total += options->sources[i].count;
    return total;
}

// Without weights a blend is never larger than its datasets together.
static int64_t size_of(const struct blend_options *options) {
    int64_t total = total_of(options);
    if (options->weights)
        return options->size;
    return options->size > 0 && options->size < total ? options->size : total;
}

static void fill(struct blend_index *index, const struct blend_options *options, int64_t size) {
    int64_t count = options->count;
    index->datasets = memory_alloc((size_t)size * sizeof *index->datasets + 1);
    index->numbers = memory_alloc((size_t)size * sizeof *index->numbers + 1);
    if (!options->weights && options->size == 0) {
        int64_t *sizes = memory_alloc((size_t)count * sizeof *sizes);
        for (int64_t i = 0; i < count; i++)
            sizes[i] = options->sources[i].count;
        blend_index_fill_all(index, sizes, count);
        free(sizes);
        return;
    }
    // Normalize weights that already sum to 1 again: Megatron does, and the last bit matters.
    double *weights = memory_alloc((size_t)count * sizeof *weights);
    for (int64_t i = 0; i < count; i++)
        weights[i] = options->weights ? options->weights[i] : (double)options->sources[i].count;
    blend_normalize(weights, count);
    blend_index_fill(index, size, weights, count);
    free(weights);
}

static void free_index(struct blend_index *index) {
    free(index->datasets);
    free(index->numbers);
    *index = (struct blend_index){0};
}

// Verifies that every entry names an existing sample.
static int check(const struct blend_options *options, const struct blend_index *index, int64_t size) {
    int64_t *needed = memory_alloc((size_t)options->count * sizeof *needed);
    bool in_range = true;
    for (int64_t i = 0; i < size && in_range; i++) {
        int64_t j = index->datasets[i];
        in_range = j >= 0 && j < options->count && index->numbers[i] >= 0 && index->numbers[i] < INT64_MAX;
        if (in_range && index->numbers[i] >= needed[j])
            needed[j] = index->numbers[i] + 1;
    }
    int result = in_range ? 0 : bad_data("the order of the blend names a dataset that does not exist");
    for (int64_t j = 0; j < options->count && result == 0; j++)
        if (needed[j] > options->sources[j].count)
            result = bad_data("the blend asks for %" PRId64 " samples of the %s, which has %" PRId64
                              "; give it a smaller weight",
                              needed[j], options->sources[j].name, options->sources[j].count);
    free(needed);
    return result;
}

// ---- the cache ----

static void name_cache(struct index_cache *cache, const struct blend_options *options, int64_t size) {
    struct buffer text = {0};
    struct json_writer w = {.out = &text, .indent = 4};
    json_begin_object(&w);
    json_put_string(&w, "class", "BlendedDataset");
    json_key(&w, "datasets");
    json_begin_array(&w);
    for (int64_t i = 0; i < options->count; i++) {
        json_begin_object(&w);
        json_put_string(&w, "name", options->sources[i].name);
        json_put_int(&w, "samples", options->sources[i].count);
        json_put_double(&w, "weight", options->weights ? options->weights[i] : (double)options->sources[i].count);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_put_int(&w, "random_seed", options->seed);
    json_put_string(&w, "split", split_name(options->which));
    json_put_int(&w, "size", size);
    json_end_object(&w);
    char *name = memory_printf("BlendedDataset-%s", split_name(options->which));
    index_cache_name(cache, options->cache_folder, name, &text);
    free(name);
}

static void list_arrays(struct index_cache_array arrays[ARRAY_COUNT], int64_t size, const struct blend_index *index) {
    arrays[ARRAY_DATASETS] = (struct index_cache_array){
        .name = "dataset_index.npy", .shape = {NPY_I16, 1, size, 1}, .data = index ? index->datasets : NULL};
    arrays[ARRAY_NUMBERS] = (struct index_cache_array){
        .name = "dataset_sample_index.npy", .shape = {NPY_I64, 1, size, 1}, .data = index ? index->numbers : NULL};
}

static void close_arrays(struct blend *blend) {
    for (int i = 0; i < ARRAY_COUNT; i++)
        npy_close(&blend->mapped[i]);
}

static int open_cache(const struct index_cache *cache, void *context) {
    struct blend *blend = context;
    struct index_cache_array arrays[ARRAY_COUNT];
    list_arrays(arrays, blend->size, NULL);
    TRY(index_cache_open(cache, arrays, ARRAY_COUNT, blend->mapped));
    blend->index = (struct blend_index){.datasets = (int16_t *)(uintptr_t)blend->mapped[ARRAY_DATASETS].data,
                                        .numbers = (int64_t *)(uintptr_t)blend->mapped[ARRAY_NUMBERS].data};
    if (check(blend->options, &blend->index, blend->size) == 0)
        return 0;
    close_arrays(blend);
    return -1;
}

static int build_cache(const struct index_cache *cache, void *context) {
    const struct blend *blend = context;
    struct index_cache_array arrays[ARRAY_COUNT];
    struct blend_index index;
    fill(&index, blend->options, blend->size);
    list_arrays(arrays, blend->size, &index);
    int result = check(blend->options, &index, blend->size);
    if (result == 0)
        result = index_cache_write(cache, arrays, ARRAY_COUNT);
    free_index(&index);
    return result;
}

int blend_build(const struct blend_options *options) {
    if (!options->cache_folder)
        return 0;
    struct blend blend = {.options = options, .size = size_of(options)};
    struct index_cache cache;
    struct index_cache_array arrays[ARRAY_COUNT];
    list_arrays(arrays, blend.size, NULL);
    name_cache(&cache, options, blend.size);
    int result = index_cache_ensure(&cache, arrays, ARRAY_COUNT, open_cache, build_cache, &blend);
    close_arrays(&blend);
    index_cache_free(&cache);
    return result;
}

// ---- the blend ----

static bool is_same_form(const struct sample_source *a, const struct sample_source *b) {
    return a->seq_length == b->seq_length && !a->fill == !b->fill && batch_form_is_same(&a->form, &b->form);
}

int blend_open(struct blend **out, const struct blend_options *options) {
    CHECK(options->count > 0 && options->count <= BLEND_MOST_DATASETS);
    *out = NULL;
    struct blend *blend = memory_alloc(sizeof *blend);
    blend->options = options;
    blend->count = options->count;
    blend->size = size_of(options);
    bool repeats = options->which != SPLIT_TRAIN && blend->size > 0 && options->size > blend->size;
    blend->asked = repeats ? options->size : blend->size;
    blend->name =
        memory_printf("%s split of a blend of %" PRId64 " datasets", split_name(options->which), options->count);
    blend->sources = memory_alloc((size_t)options->count * sizeof *blend->sources);
    memcpy(blend->sources, options->sources, (size_t)options->count * sizeof *blend->sources);
    for (int64_t i = 1; i < options->count; i++)
        CHECK(is_same_form(&options->sources[0], &options->sources[i]));
    int result;
    if (options->cache_folder) {
        struct index_cache cache;
        name_cache(&cache, options, blend->size);
        result = open_cache(&cache, blend);
        if (result < 0)
            error_context("cannot use the blend's order in %s (remove it to have it rebuilt)", cache.folder);
        index_cache_free(&cache);
    } else {
        fill(&blend->made, options, blend->size);
        blend->index = blend->made;
        result = check(options, &blend->index, blend->size);
    }
    if (result < 0) {
        blend_close(blend);
        return -1;
    }
    *out = blend;
    return 0;
}

void blend_close(struct blend *blend) {
    if (!blend)
        return;
    close_arrays(blend);
    free_index(&blend->made);
    free(blend->sources);
    free(blend->name);
    free(blend);
}

void blend_sample(const struct blend *blend, int64_t i, int64_t *dataset, int64_t *number) {
    CHECK(i >= 0 && i < blend->asked);
    *dataset = blend->index.datasets[i % blend->size];
    *number = blend->index.numbers[i % blend->size];
}

static int read_blend(void *context, int64_t sample, int32_t *tokens) {
    const struct blend *blend = context;
    int64_t dataset, number;
    blend_sample(blend, sample, &dataset, &number);
    return blend->sources[dataset].read(blend->sources[dataset].context, number, tokens);
}

static int fill_blend(void *context, int64_t sample, const struct batch *row) {
    const struct blend *blend = context;
    int64_t dataset, number;
    blend_sample(blend, sample, &dataset, &number);
    return blend->sources[dataset].fill(blend->sources[dataset].context, number, row);
}

struct sample_source blend_source(struct blend *blend) {
    const struct sample_source *first = &blend->sources[0];
    return (struct sample_source){.context = blend,
                                  .name = blend->name,
                                  .count = blend->asked,
                                  .seq_length = first->seq_length,
                                  .read = first->read ? read_blend : NULL,
                                  .form = first->form,
                                  .fill = first->fill ? fill_blend : NULL};
}
