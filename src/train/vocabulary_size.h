// The vocabulary size of a model, even without its tokenizer: a run is planned on a laptop or a login node, while its
// files are on the disks of a cluster.
#ifndef TRAIN_VOCABULARY_SIZE_H
#define TRAIN_VOCABULARY_SIZE_H

#include "config/config.h"

// Sets the padded vocabulary size of a run that is planned: from the tokenizer, or, if this machine lacks its files,
// from --vocab-size, --padded-vocab-size, the published tokenizer of that type, or the preset. *assumed_for is the file
// that is missing, NULL if none is or a flag says how many tokens there are.
int planned_vocabulary_set(struct config *config, const char **assumed_for);

#endif
