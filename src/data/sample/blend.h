// Several datasets as one: sample i comes from the dataset that struct blend_index names. Each dataset is shuffled
// separately; the order of the blend is not shuffled again. Without weights a blend has each sample once; an evaluation
// that asks for more starts over with the first.
//
// If there is a cache folder, the two arrays are stored there as {md5}-BlendedDataset-{split}-{dataset_index,
// dataset_sample_index}.npy and mapped; otherwise they are made in memory.
#ifndef DATA_SAMPLE_BLEND_H
#define DATA_SAMPLE_BLEND_H

#include "data/sample/source.h"
#include "data/sample/split.h"
#include <stdint.h>

struct blend_options {
    const struct sample_source *sources;  // (count) all of the same form; must outlive the blend
    int64_t count;
    const double *weights;  // (count) with a sum of 1; NULL for weights by number of samples
    int64_t size;           // samples; 0 for all, if there are no weights
    enum split which;
    int64_t seed;              // of the sources: only used to distinguish caches
    const char *cache_folder;  // NULL: none
};

struct blend;

// Writes the cache if there is a folder for it and no complete cache in it. Called by one rank per file system.
int blend_build(const struct blend_options *options);
int blend_open(struct blend **blend, const struct blend_options *options);
void blend_close(struct blend *blend);  // NULL is fine
struct sample_source blend_source(struct blend *blend);

// The dataset and the sample in it that sample i comes from.
void blend_sample(const struct blend *blend, int64_t i, int64_t *dataset, int64_t *number);

// ---- arithmetic ----

// The arithmetic of a blend, exactly as in Megatron: the meaning of the words after --data-path, how many samples each
// dataset must provide, and which dataset provides sample i. Doubles are added and multiplied in NumPy's order, because
// a difference in the last bit moves samples.

enum { BLEND_MOST_DATASETS = 32767 };  // their numbers have 16 bits

struct blend_list {
    int64_t count;
    const char **prefixes;  // (count) those of the items
    double *weights;        // (count) with a sum of 1, or NULL if none were given: then sizes are the weights
};

// "PREFIX…" or "WEIGHT PREFIX WEIGHT PREFIX…". The list has weights if its length is even and every other item is a
// number.
int blend_list_parse(struct blend_list *list, char *const *items, int64_t count, const char *flag);
void blend_list_free(struct blend_list *list);

// How many samples of a blend of `size` a dataset of this weight provides, and how many it is built with, to be safe.
int64_t blend_target(double weight, int64_t size);
int64_t blend_surplus(int64_t target);

// Divides the weights by their sum.
void blend_normalize(double *weights, int64_t count);

// Sample i is sample numbers[i] of dataset datasets[i]: always from the dataset that lags its weight most.
struct blend_index {
    int16_t *datasets;  // (size)
    int64_t *numbers;   // (size)
};
void blend_index_fill(struct blend_index *index, int64_t size, const double *weights, int64_t count);
// Continues until every dataset j has provided all its sizes[j] samples.
void blend_index_fill_all(struct blend_index *index, const int64_t *sizes, int64_t count);

#endif
