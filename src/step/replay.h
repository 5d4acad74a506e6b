// Passes that are recorded once and then replayed, if the device can do so. Only for the files of this folder.
#ifndef STEP_REPLAY_H
#define STEP_REPLAY_H

#include "step/step.h"

// The forward and backward of one micro-batch, with the beginning of a step before the first and, on a rank without
// peers, its end behind the last.
struct replay_pass {
    const struct step_batch *batch;
    bool is_first, is_last;  // of the step
    void (*run)(void *context);
    void *context;
};
// Does the work of pass->run, by calling it or by replaying what an earlier call for such a micro-batch has done.
void replay_run(struct step *step, const struct replay_pass *pass);
void replay_close(struct step *step);

#endif
