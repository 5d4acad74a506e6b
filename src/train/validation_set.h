// The validation set of a run: how much of a text is for it, and how much of it an evaluation reads. A loss over a few
// windows, or over the same ones again and again, is noise.
#ifndef TRAIN_VALIDATION_SET_H
#define TRAIN_VALIDATION_SET_H

#include "config/config.h"
#include "parallel/mesh.h"
#include "train/text_data.h"

// If the data is text and --split is not given, chooses shares that give validation ten windows or more; if a tenth
// of the text has fewer, there is no validation, and the log says so. A number of evaluation steps that the run
// chose itself is lowered until an evaluation reads no window twice; if the user's does, a warning says so. A run
// that resumes takes the shares of its checkpoint. All ranks call and choose alike.
int validation_set_settle(struct config *config, const struct text_data *texts, const struct mesh *mesh);

#endif
