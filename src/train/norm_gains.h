// Gains of norms are stored as such or, by --apply-layernorm-1p, as their distance from 1. That is how a model is kept
// and not which one it is: weights that a run begins with may be stored either way. Internal to this folder.
#ifndef TRAIN_NORM_GAINS_H
#define TRAIN_NORM_GAINS_H

#include "parallel/param.h"
#include "store/checkpoint.h"

// Makes the loading of the list, which has a tensor for each parameter in their order, convert the gains to the form
// that the parameters have. `is_centered`: the folder holds distances.
void gains_convert(struct checkpoint_tensor *list, const struct param_list *params, bool is_centered);

#endif
