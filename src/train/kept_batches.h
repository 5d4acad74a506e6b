// Micro-batches of an iteration that are needed twice: they are copied as they are taken from the loader.
#ifndef TRAIN_KEPT_BATCHES_H
#define TRAIN_KEPT_BATCHES_H

#include "step/step.h"

struct kept_batches {
    struct step_source from;
    struct batch *batches;  // (count) those taken so far
    int64_t taken, given;
};

// Sources of the same micro-batches; the second must be used after the first.
struct step_source kept_batches_first(struct kept_batches *kept, struct step_source from);
struct step_source kept_batches_again(struct kept_batches *kept);
void kept_batches_free(struct kept_batches *kept);

#endif
