// Transfers the numbers of a step to the host (results.c). Only for the files of this folder; step.h has the public
// functions.
#ifndef STEP_RESULTS_H
#define STEP_RESULTS_H

#include "step/internal.h"

int results_open(struct step *step);
void results_close(struct step *step);
// Takes and drops the oldest results until another step can be queued.
void results_make_room(struct step *step);
// Before a training step: sends the paces, one for every number of pending steps that may turn out to be skipped.
void results_send_rates(struct step *step, const struct pace *paces);
// After a step: fetches its totals and, for a training step, its gradient norm and loss scale.
void results_queue(struct step *step, bool is_training, int64_t micro_batches);

#endif
