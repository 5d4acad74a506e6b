// The parameters of a model by its configuration, without any memory for them. Internal to this folder.
#ifndef CHECKPOINT_MODEL_LIST_H
#define CHECKPOINT_MODEL_LIST_H

#include "config/config.h"
#include "parallel/param.h"

// The config must be validated and its padded_vocab_size set.
void model_list_parameters(const struct config *config, struct param_list *params);

#endif
