// What comes before the passes of a step and after them. Only for the files of this folder.
#ifndef STEP_UPDATE_H
#define STEP_UPDATE_H

#include "step/step.h"

// After the parameters were laid out: decides which rank holds which part of the optimizer, and in which buckets
// gradients are reduced.
void step_divide_optimizer(struct step *step);
// Before the first pass: clears what the passes add to, and prepares the weights for them. Only queues work on the
// device.
void step_begin(struct step *step, bool is_learning);
// Whether no other rank takes part in the step. Its update then belongs to its last pass, which may be replayed.
bool step_is_alone(const struct step *step);
// After the last backward pass: starts the reductions that have not been started yet.
void step_reduce_gradients(struct step *step);
// Applies the gradients once they are reduced, and starts to send the new parameters. On a rank that is alone it only
// queues work on the device.
void step_update(struct step *step);

#endif
