// Writing a model: the elements of one tensor on their way from a source to a file, and what every writer checks before
// and after. Internal to this folder.
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

// Whether the output type holds the model's values, checked before anything is written.

// Values that would become infinite are an error that names the tensors and counts them. So are gains of norms that get
// rounded because they are written in another form than they are stored in, unless a type was requested; then a note
// says so.
int model_range_check(const struct model_write *write);

// Verifies a written model. The result is opened with our own reader under its temporary name. Its flags and shapes are
// compared with the source's, then its elements, one tensor at a time, and finally the outputs of both models, if the
// caller provided a way to run them. Every writer of a model calls this before it renames its result into place.
//

struct model_check {
    const struct model_write *write;
    const char *path;  // the written model
    // For formats with fewer bits than our types: an element may be off by this fraction of the largest magnitude in
    // its row. 0: elements are the source's, rounded once to the requested type.
    double tolerance;
    double logits_tolerance;  // handed to write->compare
    bool may_widen;           // a tensor may have another type than requested, if it holds the source's values
};
int model_check(const struct model_check *check);

// Whether the parameter has a row for each token of the vocabulary.
bool model_is_of_vocabulary(const char *name);

#endif
