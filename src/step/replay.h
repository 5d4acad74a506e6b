// Ranges of a list that are recorded once and then replayed, if the device can do so. Only for the files of this
// folder.
#ifndef STEP_REPLAY_H
#define STEP_REPLAY_H

#include "step/internal.h"

// The end of the longest range of items from number `first` on that can be one recording; `first` if no recording can
// begin there.
int replay_range_end(const struct step *step, const struct schedule *schedule, int first);

struct replay_range {
    const struct step_batch *batch;  // the micro-batch of its passes
    bool is_first, is_last;          // of the step
    void (*run)(void *context);
    void *context;
};
// Does the work of range->run, by calling it or by replaying an earlier call for such a micro-batch.
void replay_run(struct step *step, const struct replay_range *range);
void replay_close(struct step *step);

#endif
