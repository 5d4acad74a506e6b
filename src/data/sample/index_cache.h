// The files that hold the index arrays of a dataset of any class:
//
//   FOLDER/{md5}-{name}-description.txt    JSON; everything the arrays depend on; md5 is its hash
//                      -{array}.npy        one per array, in NumPy's format
//                      -checksums.txt      checksum and bytes of the data in each; written last
//
// The names are Megatron's; the checksums are ours. A cache is complete if the checksums match: a truncated or altered
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
    struct npy_shape shape;  // when opening, rows below 0 mean any number
    const void *data;        // to write
};

// Takes over the description, which must not name files; `folder` and `name` are copied.
void index_cache_name(struct index_cache *cache, const char *folder, const char *name, struct buffer *description);
void index_cache_free(struct index_cache *cache);

int index_cache_write(const struct index_cache *cache, const struct index_cache_array *arrays, int count);
// Maps the arrays and compares their shapes and checksums. On error nothing is left open. The caller must verify that
// entries are in range.
int index_cache_open(const struct index_cache *cache, const struct index_cache_array *arrays, int count,
                     struct npy *opened);

// For the rank that builds: does nothing if `open` can use the cache, else makes it. `open` maps and verifies the
// arrays; on error it leaves nothing open. A damaged cache is replaced, with a warning.
int index_cache_ensure(const struct index_cache *cache, const struct index_cache_array *arrays, int count,
                       int (*open)(const struct index_cache *cache, void *dataset),
                       int (*build)(const struct index_cache *cache, void *dataset), void *dataset);

// The first members of every description, with Megatron's names and in its order.
struct index_cache_samples {
    const char *class;  // "GPTDataset"
    const char *prefix, *split;
    enum split which;
    int64_t sample_count, seq_length, seed;
};
void index_cache_describe_samples(struct json_writer *w, const struct index_cache_samples *samples);
// Members of a description that distinguish datasets of the same name.
void index_cache_describe_dataset(struct json_writer *w, const struct index_reader *reader);

#endif
