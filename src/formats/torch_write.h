// Writes files of torch.save. A pickle is built value by value in a buffer; containers are opened and closed. The
// archive has the pickle and the storages that its tensors name, uncompressed. Internal to this folder.
#ifndef FORMATS_TORCH_WRITE_H
#define FORMATS_TORCH_WRITE_H

#include "base/buffer.h"
#include "base/file.h"
#include "tensor/tensor.h"
#include <stdbool.h>
#include <stdint.h>

void pickle_begin(struct buffer *out);
void pickle_end(struct buffer *out);
void pickle_none(struct buffer *out);
void pickle_bool(struct buffer *out, bool value);
void pickle_int(struct buffer *out, int64_t value);
void pickle_double(struct buffer *out, double value);
void pickle_text(struct buffer *out, const char *text);  // NULL: None
void pickle_name(struct buffer *out, const char *module, const char *name);
// Between these two: key, value, key, value, …
void pickle_begin_dict(struct buffer *out);
void pickle_end_dict(struct buffer *out);
void pickle_begin_list(struct buffer *out);
void pickle_end_list(struct buffer *out);
void pickle_begin_tuple(struct buffer *out);
void pickle_end_tuple(struct buffer *out);
// An object whose members are given between the two, like a dict's.
void pickle_begin_object(struct buffer *out, const char *module, const char *name);
void pickle_end_object(struct buffer *out);
// torch.Size.
void pickle_size(struct buffer *out, const int64_t *sizes, int rank);
// A contiguous tensor that is all of storage number `storage`. fp32, bf16 or fp16.
void pickle_tensor(struct buffer *out, enum dtype dtype, const int64_t *shape, int rank, int storage);

// Largest storage: the archives have no 64-bit sizes.
#define TORCH_MOST_BYTES ((size_t)1 << 30)
struct torch_storage_bytes {
    const void *data;
    size_t bytes;
};
// Appends the archive to the file.
int torch_write(struct file_writer *file, const struct buffer *pickle, const struct torch_storage_bytes *storages,
                int count);

#endif
