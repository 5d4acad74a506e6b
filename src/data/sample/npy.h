// NumPy's .npy files (format 1.0), as far as index caches need them: little-endian integers of 16 to 64 bits, one or
// two dimensions, C order. npy_write writes the same bytes as numpy.save.
#ifndef DATA_SAMPLE_NPY_H
#define DATA_SAMPLE_NPY_H

#include "base/file.h"
#include <stddef.h>
#include <stdint.h>

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

#endif
