// The tensors of a distributed checkpoint of torch: `.metadata`, a pickle that says which pieces each tensor has and
// where they are, and files `__RANK_N.distcp`, in which every piece is a file of torch.save of its own. Opening reads
// the pickle and maps the files; a tensor is assembled on request. Nothing is executed, and whatever the pickle says
// about places is checked against the files. Internal to this folder.
#ifndef FORMATS_DISTRIBUTED_H
#define FORMATS_DISTRIBUTED_H

#include "formats/torch_file.h"

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
