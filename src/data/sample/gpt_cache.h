// The files that keep the index arrays of one split:
//
//   FOLDER/{md5}-GPTDataset-{train|valid|test}-description.txt     JSON; what the arrays follow from; md5 is its hash
//                                            -document_index.npy
//                                            -sample_index.npy
//                                            -shuffle_index.npy
//                                            -checksums.txt        checksum and bytes of the data in each; written last
//
// The names are Megatron's; the description adds the dataset's sizes, so that a new dataset under an old name does not
// meet the old cache, and the checksums are ours.
#ifndef DATA_SAMPLE_GPT_CACHE_H
#define DATA_SAMPLE_GPT_CACHE_H

#include "data/sample/gpt.h"

struct gpt_cache {
    char *folder;
    char *description;
    char *stem;  // FOLDER/{md5}-GPTDataset-{split}
};

void gpt_cache_name(struct gpt_cache *cache, const struct gpt_options *options, const struct index_reader *reader);
void gpt_cache_free(struct gpt_cache *cache);

// True where some file of the cache is there, whole or not.
bool gpt_cache_exists(const struct gpt_cache *cache);
int gpt_cache_write(const struct gpt_cache *cache, const struct gpt_shape *shape, const struct gpt_index *index);
// Maps the arrays into dataset->arrays and proves them: shapes, checksums, every entry in range.
// dataset->range and shape are set. On error nothing is left open.
int gpt_cache_open(const struct gpt_cache *cache, struct gpt_dataset *dataset);

#endif
