// Files that torch writes: those of torch.save, in both containers, and distributed checkpoints. Nothing in them is
// executed. Internal to this folder.
//
// A pickle is read as data. Python's pickle is a program for a small stack machine whose REDUCE may call anything; here
// the machine builds plain values and calls nothing. A file may only mention the names on a list. Containers, tensors
// and their storages become values; the other names on the list (numpy arrays, Megatron's enumerations, …) become
// opaque values that are not used; any other name is an error.
//
// Values live in one arena and may refer to each other in any way, including cycles, so code that walks them must bound
// the depth. The reader's allocations are bounded by the file's length.
#ifndef FORMATS_TORCH_FILE_H
#define FORMATS_TORCH_FILE_H

#include "base/file.h"
#include "tensor/tensor.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum torch_type {
    TORCH_NONE,
    TORCH_BOOL,
    TORCH_INT,
    TORCH_FLOAT,
    TORCH_STRING,  // also bytes
    TORCH_LIST,    // list, tuple, torch.Size, set
    TORCH_DICT,    // dict, OrderedDict, argparse.Namespace
    TORCH_STORAGE,
    TORCH_TENSOR,
    TORCH_NAME,    // module.name, for instance torch.FloatStorage
    TORCH_OPAQUE,  // value of an opaque name, which `name` holds
};

// Element types of storages. Those without a counterpart of ours can be skipped but not read.
struct torch_dtype {
    const char *storage;  // "FloatStorage"
    const char *name;     // "float32"
    size_t bytes;
    bool is_readable;
    enum dtype dtype;  // if readable
};

struct torch_storage {
    const struct torch_dtype *dtype;  // NULL: untyped, counted in bytes
    const char *key;
    int64_t count;  // elements
    // Set by the container.
    const unsigned char *data;
    const void *entry;  // verifies its bytes, or NULL
    bool is_proven;
};

struct torch_tensor {
    struct torch_storage *storage;
    const struct torch_dtype *dtype;
    int rank;
    int64_t offset;  // elements
    int64_t shape[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK];
};

struct torch_value {
    enum torch_type type;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const char *text;  // NUL-terminated copy; may contain NULs
            size_t length;
        };
        struct {
            struct torch_value **items;  // dict: key, value, key, value, …
            size_t count, capacity;      // dict: twice the number of pairs
        };
        struct torch_storage *storage;
        struct torch_tensor tensor;
        const char *name;
    };
};

struct torch_pickle {
    struct torch_value *root;
    struct torch_block *blocks;       // the arena
    struct torch_storage **storages;  // all that are mentioned, each key once
    size_t storage_count;
    size_t *slots;  // hash table over storages: index + 1, 0 if free
    size_t slot_count;
    size_t used_bytes;  // where the pickle ended
};

enum { TORCH_MAX_PICKLE_BYTES = 32 << 20 };

// Runs the pickle that begins at `bytes`; more may follow it.
int torch_pickle_parse(struct torch_pickle *pickle, const unsigned char *bytes, size_t size);
void torch_pickle_free(struct torch_pickle *pickle);  // safe on a zeroed one

// The value of a text key; NULL if there is none or this is not a dict. Of equal keys the last counts, as in Python.
const struct torch_value *torch_get(const struct torch_value *dict, const char *key);
// The storage of a key; NULL if it is not mentioned.
struct torch_storage *torch_find_storage(const struct torch_pickle *pickle, const char *key);

// ---- the zip container ----

// Its entries are stored, never compressed, so an entry is a range of the file. The reader treats its file as hostile:
// it accepts no compressed or encrypted entry (so nothing can expand), no two entries with the same name or a common
// byte, and no entry that reaches outside the file. Zip64 is understood. Archives that users make of such files may be
// compressed (deflate); a separate function reads them.

struct torch_zip_entry {
    char *name;                 // owned
    const unsigned char *data;  // inside the file
    size_t bytes;               // of the entry itself
    size_t stored_bytes;        // in the file: the same unless it is compressed
    bool is_deflated;
    uint32_t crc;  // of the entry itself
};

struct torch_zip {
    struct torch_zip_entry *entries;  // sorted by name
    size_t count;
};

// Messages describe the error but not the file's name; the caller adds that.
int torch_zip_parse(struct torch_zip *zip, const unsigned char *bytes, size_t size);
// torch_zip_parse for archives whose entries may be compressed.
int torch_zip_parse_packed(struct torch_zip *zip, const unsigned char *bytes, size_t size);
void torch_zip_free(struct torch_zip *zip);  // safe on a zeroed one
// NULL if there is none.
const struct torch_zip_entry *torch_zip_find(const struct torch_zip *zip, const char *name);
// Compares the bytes of an entry that is not compressed with its checksum.
int torch_zip_check(const struct torch_zip_entry *entry);
// Writes entry->bytes bytes to `to`, compared with their checksum.
int torch_zip_unpack(const struct torch_zip_entry *entry, unsigned char *to);

// ---- files in both containers: the zip archive (since torch 1.6), and the sequence of pickles before it ----

// Tensors keep the strides they were saved with, and their bytes are compared with the archive's checksum when they are
// first read.

struct torch_file {
    struct file_map map;         // empty if the bytes are borrowed
    char *path;                  // for messages; owned
    struct torch_zip zip;        // empty for the legacy container
    struct torch_pickle pickle;  // pickle.root is the object that was saved
};

int torch_open(struct torch_file *file, const char *path);
// torch_open for bytes in memory, which must not move until torch_close.
int torch_parse(struct torch_file *file, const void *bytes, size_t size, const char *name);
void torch_close(struct torch_file *file);  // safe on a zeroed one

// The elements of a tensor of a readable type, in row-major order, into `to`, which holds count × dtype bytes.
int torch_read(const struct torch_file *file, const struct torch_tensor *tensor, void *to);
int64_t torch_tensor_count(const struct torch_tensor *tensor);
// "float32 (4, 256)" into text, for messages.
void torch_describe(const struct torch_tensor *tensor, char *text, size_t size);

// ---- distributed checkpoints ----

// `.metadata` is a pickle that says which pieces each tensor has and where they are, and in the files
// `__RANK_N.distcp` every piece is a file of torch.save of its own. Opening reads the pickle and maps the files; a
// tensor is assembled on request. Whatever the pickle says about places is checked against the files.

struct distributed_piece {
    const struct torch_value *offsets, *sizes;  // lists of one number per dimension
    const unsigned char *data;                  // a file of torch.save
    size_t bytes;
    bool is_proven;  // its checksum was compared
};

struct distributed_tensor {
    const char *name;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    const struct torch_dtype *dtype;
    struct distributed_piece *pieces;  // in the order of their offsets
    size_t piece_count;
};

struct distributed_file {
    const char *name;  // within the folder
    struct file_map map;
};

struct distributed {
    char *path;
    struct torch_pickle pickle;
    struct distributed_tensor *tensors;
    size_t count;
    struct distributed_file *files;
    size_t file_count;
};

// Lists only tensors that `is_wanted` accepts: those of an optimizer are not even examined.
int distributed_open(struct distributed *checkpoint, const char *path, bool (*is_wanted)(const char *name));
// The bytes of an object that is not a tensor, a file of torch.save, under its full name; NULL if there is none. Valid
// until distributed_close.
int distributed_find_object(struct distributed *checkpoint, const char *name, const unsigned char **data,
                            size_t *bytes);
// Whether there is a tensor or an object whose name has this prefix, wanted or not.
bool distributed_has_prefix(const struct distributed *checkpoint, const char *prefix);
void distributed_close(struct distributed *checkpoint);  // safe on a zeroed one

// Which part of a tensor: all of it, or one index of its first dimension.
enum { DISTRIBUTED_ALL = -1 };
// The elements, row-major, into `to`. Pieces must cover them exactly once.
int distributed_read(const struct distributed *checkpoint, const struct distributed_tensor *tensor, int64_t first,
                     void *to);

// A tensor (or one index of its first dimension) that is stored flat, part by part; see distributed_read.c.
struct distributed_blocks {
    const struct distributed *checkpoint;
    const struct distributed_tensor *tensor;
    int64_t first;  // or DISTRIBUTED_ALL
    int rank;       // of the tensor that it represents
    const int64_t *shape;
};
// Whether it can be a tensor of that shape.
bool distributed_is_blocks(const struct distributed_tensor *tensor, int64_t first, int rank, const int64_t *shape);
int distributed_read_blocks(const struct distributed_blocks *blocks, void *to);

// A range of a bucket's elements, which may have gaps elsewhere.
struct distributed_range {
    const struct distributed *checkpoint;
    const struct distributed_tensor *tensor;  // of one dimension, or of two: ranks, elements of each
    int64_t first, count;                     // elements
};
int distributed_read_range(const struct distributed_range *range, void *to);

#endif
