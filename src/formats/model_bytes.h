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

#endif
