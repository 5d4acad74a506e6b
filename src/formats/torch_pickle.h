// Reads a pickle as data. Python's pickle is a program for a small stack machine whose REDUCE may call anything; here
// the machine builds plain values and calls nothing. A file may only mention the names on a list. Containers, tensors
// and their storages become values; the other names on the list (numpy arrays, Megatron's enumerations, …) become
// opaque values that are not used; any other name is an error.
//
// Values live in one arena and may refer to each other in any way, including cycles, so code that walks them must bound
// the depth. The reader's allocations are bounded by the file's length.
#ifndef FORMATS_TORCH_PICKLE_H
#define FORMATS_TORCH_PICKLE_H

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

#endif
