// Describes a run without running it: the shapes and number of parameters, and the memory of a rank. Everything is
// found by opening the real step on the paper device, so nothing is allocated, whatever the size.
#ifndef TRAIN_DRY_RUN_H
#define TRAIN_DRY_RUN_H

#include "config/config.h"

#include <stddef.h>

// A preset alone is a question about a model. If the flags name no data, the rest of what a run needs (batch, length,
// learning rate, vocabulary) is assumed, and a note says so.
int dry_run_complete(struct config *config);

// The assumed number of ranks: for a single process, as many as share one copy of the model.
int dry_run_world(const struct config *config, int size);
// Appends the report for world_size ranks, as seen from rank 0. The config must be validated; its padded vocabulary
// size is set.
int dry_run_report(struct config *config, int world_size, struct buffer *out);
// Whether every rank fits into `room` bytes of a GPU. Appends nothing if it does, otherwise how much the largest needs
// and the flags that would help.
int dry_run_fit(struct config *config, int world_size, size_t room, struct buffer *out);

// ---- the vocabulary ----

// The vocabulary size of a model, even without its tokenizer: a run is planned on a laptop or a login node, while its
// files are on the disks of a cluster.

// Sets the padded vocabulary size of a run that is planned: from the tokenizer, or, if this machine lacks its files,
// from --vocab-size, --padded-vocab-size, the published tokenizer of that type, or the preset. *assumed_for is the file
// that is missing, NULL if none is or a flag says how many tokens there are.
int planned_vocabulary_set(struct config *config, const char **assumed_for);

#endif
