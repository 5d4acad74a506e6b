// Progress of a run's first iteration, which takes longest on a GPU: libraries choose algorithms, and passes are
// recorded. It is shown by micro-batch until its result is known.
#ifndef TRAIN_FIRST_ITERATION_H
#define TRAIN_FIRST_ITERATION_H

#include "base/phase.h"
#include "step/step.h"

struct first_iteration {
    struct phase *phase;        // NULL before and afterwards
    struct step_source source;  // of the iteration queued last
    int64_t taken;              // micro-batches so far
    bool tells_start;           // when it ends, see phase_tell_start
};

void first_iteration_begin(struct first_iteration *first, int64_t micro_batches, bool tells_start);
// The source for a step: until the end, one that counts the micro-batches it takes from the given one. It is valid
// until the next call.
struct step_source first_iteration_count(struct first_iteration *first, struct step_source source);
void first_iteration_end(struct first_iteration *first);  // does nothing the second time

#endif
