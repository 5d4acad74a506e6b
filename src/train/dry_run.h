// What a run would be, without running it: the shapes and number of parameters, and the memory of a rank. Everything is
// computed by opening the real step on the paper device, so nothing is allocated, whatever the size.
#ifndef TRAIN_DRY_RUN_H
#define TRAIN_DRY_RUN_H

#include "config/config.h"

// A preset alone is a question about a model. Where there is no data among the flags, what a run needs besides (batch,
// length, learning rate, vocabulary) is taken as said in a note.
int dry_run_complete(struct config *config);
// How many ranks the run is taken to have: where one process asks, as many as share one copy of the model.
int dry_run_world(const struct config *config, int size);
// Appends the report; config must be validated. Sets the padded vocabulary. world_size ranks, seen from rank 0.
int dry_run_report(struct config *config, int world_size, struct buffer *out);

#endif
