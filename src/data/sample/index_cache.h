// Index arrays of datasets, in files that NumPy reads.
#ifndef DATA_SAMPLE_INDEX_CACHE_H
#define DATA_SAMPLE_INDEX_CACHE_H

#include "base/file.h"
#include "base/buffer.h"
#include "base/json.h"
#include "data/index/index.h"
#include "data/sample/split.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- NumPy's files ----

// NumPy's .npy files (format 1.0), as far as index caches need them: little-endian integers of 16 to 64 bits, one or
// two dimensions, C order. npy_write writes the same bytes as numpy.save.

enum npy_dtype { NPY_I32, NPY_U32, NPY_I64, NPY_I16 };

struct npy_shape {
    enum npy_dtype dtype;
    int dimensions;  // 1 or 2
    int64_t rows;
    int64_t columns;  // 1 if there is one dimension
};

struct npy {
    struct npy_shape shape;
    const unsigned char *data;  // rows * columns elements; aligned to their size if the file is mapped
    struct file_map file;
};

size_t npy_item_bytes(enum npy_dtype dtype);

// Writes the array atomically.
int npy_write(const char *path, struct npy_shape shape, const void *data);
// Maps a file and checks header and size, not the entries.
int npy_open(struct npy *npy, const char *path);
void npy_close(struct npy *npy);  // a zeroed one is fine
// Parses bytes in memory; errors call them `name`. On success npy->data points into them and npy->file is empty.
int npy_parse(struct npy *npy, const unsigned char *bytes, size_t size, const char *name);

// ---- caches ----

// The files that hold the index arrays of a dataset of any class:
//
//   FOLDER/{md5}-{name}-description.txt    JSON; everything the arrays depend on; md5 is its hash
//                      -{array}.npy        one per array, in NumPy's format
//                      -checksums.txt      checksum and bytes of the data in each; written last
//
// The names are Megatron's; the checksums are ours. A cache is complete if the checksums match: a truncated or altered
// one is never used.

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
