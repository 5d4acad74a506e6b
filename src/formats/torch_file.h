// Files of torch.save in both containers: the zip archive (since torch 1.6) and the sequence of pickles before it.
// Reading executes nothing; see torch_pickle.h for what is accepted. Tensors keep the strides they were saved with, and
// their bytes are compared with the archive's checksum when they are first read.
#ifndef FORMATS_TORCH_FILE_H
#define FORMATS_TORCH_FILE_H

#include "base/file.h"
#include "formats/torch_pickle.h"
#include "formats/torch_zip.h"

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

#endif
