// The index arrays of a GPT dataset on disk, in FOLDER/{md5}-GPTDataset-{train|valid|test}-*: document_index,
// sample_index and shuffle_index, see index_cache.h. The names are Megatron's; the description adds the dataset's
// sizes, so that a new dataset under an old name does not use the old cache.
#ifndef DATA_SAMPLE_GPT_CACHE_H
#define DATA_SAMPLE_GPT_CACHE_H

#include "data/sample/gpt.h"
#include "data/sample/index_cache.h"

void gpt_cache_name(struct index_cache *cache, const struct gpt_options *options, const struct index_reader *reader);

// True if any file of the cache exists, complete or not.
bool gpt_cache_exists(const struct index_cache *cache, const struct gpt_shape *shape);
int gpt_cache_write(const struct index_cache *cache, const struct gpt_shape *shape, const struct gpt_index *index);
// Maps the arrays into dataset->arrays and verifies them: shapes, checksums, every entry in range.
// dataset->range and shape are set. On error nothing is left open.
int gpt_cache_open(const struct index_cache *cache, struct gpt_dataset *dataset);

#endif
