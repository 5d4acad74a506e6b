// Sources of micro-batches over another source: one that keeps what it gives, one that shows progress.
#ifndef TRAIN_STEP_SOURCES_H
#define TRAIN_STEP_SOURCES_H

#include "base/phase.h"
#include "step/step.h"

// ---- micro-batches of an iteration that are needed twice: they are copied as they are taken from the loader ----

struct kept_batches {
    struct step_source from;
    struct batch *batches;  // (count) those taken so far
    int64_t taken, given;
};

// Sources of the same micro-batches; the second must be used after the first.
struct step_source kept_batches_first(struct kept_batches *kept, struct step_source from);
struct step_source kept_batches_again(struct kept_batches *kept);
void kept_batches_free(struct kept_batches *kept);

// ---- progress of the first iteration ----

// Progress of a run's first iteration, which takes longest on a GPU: libraries choose algorithms, and passes are
// recorded. It is shown by micro-batch until its result is known.

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
