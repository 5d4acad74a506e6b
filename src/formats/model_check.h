// Verifies a written model. The result is opened with our own reader under its temporary name. Its flags and shapes are
// compared with the source's, then its elements, one tensor at a time, and finally the outputs of both models, if the
// caller provided a way to run them. Every writer of a model calls this before it renames its result into place.
// Internal to this folder.
#ifndef FORMATS_MODEL_CHECK_H
#define FORMATS_MODEL_CHECK_H

#include "formats/model_source.h"

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
