// Whether the output type holds the model's values, checked before anything is written. Internal to this folder.
#ifndef FORMATS_MODEL_RANGE_H
#define FORMATS_MODEL_RANGE_H

#include "formats/model_source.h"

// Values that would become infinite are an error that names the tensors and counts them. So are gains of norms that get
// rounded because they are written in another form than they are stored in, unless a type was requested; then a note
// says so.
int model_range_check(const struct model_write *write);

#endif
