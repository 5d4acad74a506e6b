// A step's numbers on their way back to the host; for the files of this folder alone. See results.c, and step.h for
// what others call.
#ifndef STEP_RESULTS_H
#define STEP_RESULTS_H

#include "step/step.h"

int results_open(struct step *step);
void results_close(struct step *step);
// Takes the oldest results, unseen, until another step can be queued.
void results_make_room(struct step *step);
// Before a training step: paces for every number of steps, of those pending, that may have been skipped.
void results_send_rates(struct step *step, const struct adam_pace *paces);
// Behind a step: its totals, and of a training step its gradient norm and loss scale.
void results_queue(struct step *step, bool is_training);

#endif
