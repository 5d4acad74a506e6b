// The switch --replay-check finds out which rank is wrong if replicas differ. The run goes back to the last verified
// checkpoint and computes the same iterations again, which gives the right numbers. The rank whose value of the element
// that differed was furthest from the right one had the fault: through gradients it may have changed the others'
// numbers, but less. If the value is the same and only an optimizer state differed, it is the rank that has another one
// now. If the replicas agree this time, the run continues.
#ifndef RECOVERY_REPLAY_CHECK_H
#define RECOVERY_REPLAY_CHECK_H

#include "recovery/rewind.h"

struct replay_check {
    bool is_on;         // the iterations are being computed again
    int64_t iteration;  // at which replicas differed
    int64_t digest;     // of this rank at that iteration
    double value;       // that it had of the first element that differed, see step_suspect
};

// Takes the status of a check or a save at an iteration whose results are all known. If replicas differ and it can
// help, makes going back due and returns 0. All ranks call.
int replay_check_begin(struct replay_check *replay, struct recovery *recovery, struct step *step, int64_t iteration,
                       int status);
// Whether the next replay_check_end is after this iteration.
bool replay_check_is_due(const struct replay_check *replay, int64_t iteration);
// After an iteration whose results are all known: if it is that iteration again, says which ranks have other numbers;
// -1 if replicas differ again. All ranks call.
int replay_check_end(struct replay_check *replay, const struct recovery *recovery, struct step *step,
                     int64_t iteration);

#endif
