// Whether the type that a model is to be written in holds its values, before anything is written. Internal to this
// folder.
#ifndef CHECKPOINT_MODEL_RANGE_H
#define CHECKPOINT_MODEL_RANGE_H

#include "checkpoint/model_source.h"

// Values that would become infinite are an error that names the tensors and counts them. So are gains of norms that are
// rounded when they are written in the other form than they are stored in, unless a type was asked for; then it is
// said.
int model_range_check(const struct model_write *write);

#endif
