// The named tensors of one or several files, safetensors or torch, or of a distributed checkpoint of torch, as one
// list. Opening copies nothing: files are mapped, and a tensor's elements are read on request.
#ifndef FORMATS_WEIGHTS_H
#define FORMATS_WEIGHTS_H

#include "formats/torch_file.h"
#include "store/safetensors.h"

// How torch_file.h reads a tensor of a distributed checkpoint.
enum weight_pieces { PIECES_WHOLE, PIECES_BLOCKS, PIECES_RANGE };

struct weight {
    char *name;  // owned
    bool is_readable;
    enum dtype dtype;         // if readable
    const char *other_dtype;  // of unreadable tensors, for messages
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    size_t bytes;  // of all elements
    // One of the three:
    const unsigned char *data;  // row-major, need not be aligned
    const struct torch_tensor *torch;
    const struct torch_file *torch_file;
    const struct distributed_tensor *piecewise;
    const struct distributed *distributed;
    int64_t first;  // of its first dimension, or DISTRIBUTED_ALL; of a range, its first element
    enum weight_pieces pieces;
    const struct weight *scales;  // of fp8 blocks, see weights_folder.c; NULL: none
};

struct weights {
    struct weight *items;  // sorted by name after weights_sort
    size_t count, capacity;
    struct safetensors **safetensors;
    size_t safetensors_count;
    struct torch_file **torch_files;
    size_t torch_count;
    struct distributed *distributed;  // NULL if there is none
};

// Adds every tensor of a file.
int weights_add_safetensors(struct weights *weights, const char *path);
// Adds every tensor among a dict's members; values of other types are skipped.
int weights_add_torch(struct weights *weights, const char *path);
// Adds a tensor of a file that is already in the list; the name is copied.
void weights_add_tensor(struct weights *weights, const char *name, const struct torch_file *file,
                        const struct torch_tensor *tensor);
// Opens a torch file, which stays open until the list is closed, without adding anything.
int weights_open_torch(struct weights *weights, const char *path, const struct torch_file **file);
// weights_open_torch for bytes that outlive the list; `name` is for messages.
int weights_parse_torch(struct weights *weights, const void *bytes, size_t size, const char *name,
                        const struct torch_file **file);
// Opens a distributed checkpoint that stays open as long as the list does, without adding anything; one for a list.
int weights_open_distributed(struct weights *weights, const char *path, bool (*is_wanted)(const char *name));
// Adds a tensor of that checkpoint, or one index of its first dimension; the name is copied.
void weights_add_distributed(struct weights *weights, const char *name, const struct distributed_tensor *tensor,
                             int64_t first);
// Adds a tensor of that checkpoint that is stored flat, in the shape of `like`: parts of it (distributed_is_blocks), or
// elements of a bucket from `first` on.
void weights_add_flat(struct weights *weights, const char *name, const struct distributed_tensor *tensor, int64_t first,
                      const struct weight *like, enum weight_pieces pieces);
// Empties the list; files stay open.
void weights_clear(struct weights *weights);
// Sorts the list; -1 if two tensors have the same name.
int weights_sort(struct weights *weights);
void weights_close(struct weights *weights);  // safe on a zeroed one

// Opens the model of a Hugging Face folder: model.safetensors or pytorch_model.bin, whole or in the files of an index.
// An index that disagrees with its files is an error that lists the names.
int weights_open_folder(struct weights *weights, const char *folder);
// Opens one part of our own iter_… folder: "model" or "optimizer".
int weights_open_checkpoint(struct weights *weights, const char *path, const char *part);

// Makes fp8 matrices with block scales beside them readable, as bf16; -1 if one lacks its scales. The list must be
// sorted. weight_is_scale: whether a name is that of such scales.
int weights_pair_blocks(struct weights *weights);
bool weight_is_scale(const struct weights *weights, const char *name);
int weight_read_blocks(const struct weight *weight, void *to);  // for weight_read

const struct weight *weights_find(const struct weights *weights, const char *name);  // NULL if there is none
// The elements, row-major, into `to`, which holds weight->bytes.
int weight_read(const struct weight *weight, void *to);
// "fp32 (4, 256)" into text, for messages.
void weight_describe(const struct weight *weight, char *text, size_t size);

#endif
