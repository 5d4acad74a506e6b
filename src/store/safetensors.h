// Safetensors, Hugging Face's file format for tensors. Nothing in it is ever executed.
//
//   byte 0    u64 little-endian   N, bytes of the header
//   byte 8    N bytes of JSON     {"__metadata__": {"key": "text", …},
//                                  "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …}
//                                 padded with spaces, so that the data begins at a multiple of 8
//   8 + N     the data            offsets count from here; tensors follow each other without holes
//
// The writer gets the list of all tensors first and then their bytes in that order, in pieces of any size, so that only
// one piece needs to be in host memory. The reader treats its file as hostile: it only accepts files in which every
// byte of the data belongs to exactly one tensor. It does not look at values.
#ifndef STORE_SAFETENSORS_H
#define STORE_SAFETENSORS_H

#include "base/file.h"
#include "base/hash.h"
#include "tensor/tensor.h"
#include <stddef.h>
#include <stdint.h>

// Larger than any real header; bounds the parser's allocations for a hostile file.
enum { SAFETENSORS_MAX_HEADER_BYTES = 16 << 20 };

struct safetensors_tensor {
    const char *name;
    enum dtype dtype;
    // Set by the reader for a type that this program lacks ("BOOL"); dtype is meaningless then.
    const char *other_dtype;
    int rank;  // 0: a single element
    int64_t shape[TENSOR_MAX_RANK];
    // Set by the reader, ignored by the writer. The address need not be a multiple of the element size.
    const unsigned char *data;
    size_t bytes;
};

struct safetensors_text {
    const char *key, *value;
};

// The content of a file to write; everything is borrowed.
struct safetensors_layout {
    const struct safetensors_tensor *tensors;
    size_t count;
    const struct safetensors_text *metadata;
    size_t metadata_count;
};

// ---- writing ----

struct safetensors_writer {
    struct file_writer file;
    struct sha256 hash;
    uint64_t expected_bytes;    // of the whole file
    uint64_t *ends;             // where the header ends, and each tensor; owned
    struct sha256_marks marks;  // at those places; the sums are owned until returned
};

// Size and hashes of a written file.
struct safetensors_digest {
    char sha256[65];
    uint64_t *sums;  // running sums at the end of the header and of each tensor of the layout; to be freed
    size_t count;
};

// The file size of a layout. -1 if the layout cannot be written: duplicate names, names that are reserved or contain
// NULs, or sizes beyond 64 bits.
int safetensors_file_bytes(const struct safetensors_layout *layout, uint64_t *bytes);
// Creates the file under its temporary name and writes the header.
int safetensors_create(struct safetensors_writer *writer, const char *path, const struct safetensors_layout *layout);
// Writes the next bytes of the data. After an error the writer is closed and nothing is left.
int safetensors_write(struct safetensors_writer *writer, const void *bytes, size_t count);
// Completes the file after all bytes were written: syncs and names it. `digest` may be NULL; it is not set on -1.
int safetensors_commit(struct safetensors_writer *writer, struct safetensors_digest *digest);
void safetensors_abort(struct safetensors_writer *writer);

// ---- reading ----

struct safetensors {
    struct file_map map;                 // empty if the bytes are borrowed
    char *path;                          // for messages; owned
    struct safetensors_tensor *tensors;  // sorted by name
    size_t count;
    struct safetensors_text *metadata;
    size_t metadata_count;
    struct json *header;  // owns names and texts
};

int safetensors_open(struct safetensors *file, const char *path);
// safetensors_open for bytes in memory, which must not move until safetensors_close.
int safetensors_parse(struct safetensors *file, const void *bytes, size_t size, const char *name);
void safetensors_close(struct safetensors *file);  // safe on a zeroed or closed one

// NULL if there is none.
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_metadata(const struct safetensors *file, const char *key);

// The tensors in the order of their bytes, to be freed.
const struct safetensors_tensor **safetensors_order(const struct safetensors *file);
// Writes "fp32 (4, 256)" to text, for messages.
void safetensors_describe(const struct safetensors_tensor *tensor, char *text, size_t size);

#endif
