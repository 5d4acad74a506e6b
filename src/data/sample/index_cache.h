// The files that keep index arrays of a dataset, whatever its class:
//
//   FOLDER/{md5}-{name}-description.txt    JSON; what the arrays follow from; md5 is its hash
//                      -{array}.npy        one per array, as NumPy writes it
//                      -checksums.txt      checksum and bytes of the data in each; written last
//
// The names are Megatron's; the checksums are ours. A cache is whole once the checksums match: a truncated or altered
// one is never used.
#ifndef DATA_SAMPLE_INDEX_CACHE_H
#define DATA_SAMPLE_INDEX_CACHE_H

#include "base/buffer.h"
#include "base/json.h"
#include "data/index/index.h"
#include "data/sample/npy.h"
#include "data/sample/split.h"
#include <stdbool.h>

struct index_cache {
    char *folder;
    char *description;
    char *stem;  // FOLDER/{md5}-{name}
};

struct index_cache_array {
    const char *name;        // "sample_index.npy"
    struct npy_shape shape;  // rows below 0, where it is opened: any number
    const void *data;        // to write
};

// Takes the description, which may name no files; `folder` and `name` are copied.
void index_cache_name(struct index_cache *cache, const char *folder, const char *name, struct buffer *description);
void index_cache_free(struct index_cache *cache);

// True if some array of the cache is there, whole or not.
bool index_cache_exists(const struct index_cache *cache, const struct index_cache_array *arrays, int count);
int index_cache_write(const struct index_cache *cache, const struct index_cache_array *arrays, int count);
// Maps the arrays and compares their shapes and checksums. On error nothing is left open. That entries are in range is
// the caller's to prove.
int index_cache_open(const struct index_cache *cache, const struct index_cache_array *arrays, int count,
                     struct npy *opened);

// The members that begin every description, by Megatron's names and in its order.
struct index_cache_samples {
    const char *class;  // "GPTDataset"
    const char *prefix, *split;
    enum split which;
    int64_t sample_count, seq_length, seed;
};
void index_cache_describe_samples(struct json_writer *w, const struct index_cache_samples *samples);
// Members of a description that distinguish a dataset from another one of the same name.
void index_cache_describe_dataset(struct json_writer *w, const struct index_reader *reader);

#endif
