// The elements of one tensor on their way from a source to a file. Internal to this folder.
#ifndef FORMATS_MODEL_BYTES_H
#define FORMATS_MODEL_BYTES_H

#include "formats/model_source.h"

struct model_bytes {
    unsigned char *data;  // NULL: none
    size_t index;         // of the tensor
    size_t bytes;
};

// The dtype in which a tensor is written.
enum dtype model_write_dtype(const struct model_write *write, const struct source_tensor *tensor);
// Reads tensor i in the dtype to write; does nothing if it is already loaded.
int model_bytes_read(const struct model_write *write, size_t i, struct model_bytes *bytes);
void model_bytes_free(struct model_bytes *bytes);
// Added to a tensor to bring its gains into the requested form; 0 if it has none, or has that form.
float model_gains_shift(const struct model_write *write, const struct param *param);

// -1 if something is where the model is to be written, or if its vocabulary is smaller than that to be written.
int model_write_check(const struct model_write *write);
// Writes a file or a folder under a temporary name, which becomes write->folder if `make` returns 0 and is removed if
// not.
int model_write_renamed(const struct model_write *write, int (*make)(void *job, const char *temporary), void *job);

#endif
