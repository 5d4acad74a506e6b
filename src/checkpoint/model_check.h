// Whether a model that was written is the one it was written from. The result is opened with our own reader under its
// temporary name. Its flags and shapes are compared with the source's, then its elements, one tensor at a time, and at
// last what the two compute, if the caller gave a way to run them. Every writer of a model calls this
// before it renames its result into place. Internal to this folder.
#ifndef CHECKPOINT_MODEL_CHECK_H
#define CHECKPOINT_MODEL_CHECK_H

#include "checkpoint/model_source.h"

struct model_check {
    const struct model_write *write;
    const char *path;  // what was written
    // A format with fewer bits than our types: an element may be off by this part of the largest magnitude in its row.
    // 0: the elements are those of the source, rounded once to the type that was asked for.
    double tolerance;
    double logits_tolerance;  // handed to write->compare
    bool may_widen;  // a tensor may have another type than was asked for, if it holds the source's values in it
};
int model_check(const struct model_check *check);

// Whether the parameter has a row for each token of the vocabulary.
bool model_is_of_vocabulary(const char *name);

#endif
