// Several datasets as one: sample i comes from the dataset that blend_index.h names. Each dataset is shuffled
// separately; the order of the blend is not shuffled again. Without weights a blend has each sample once; an evaluation
// that asks for more starts over with the first.
//
// If there is a cache folder, the two arrays are stored there as {md5}-BlendedDataset-{split}-{dataset_index,
// dataset_sample_index}.npy and mapped; otherwise they are made in memory.
#ifndef DATA_SAMPLE_BLEND_H
#define DATA_SAMPLE_BLEND_H

#include "data/sample/source.h"
#include "data/sample/split.h"

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

#endif
