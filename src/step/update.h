// What comes before the passes of a step and after them; for the files of this folder alone.
#ifndef STEP_UPDATE_H
#define STEP_UPDATE_H

#include "step/step.h"

// After the parameters were laid out: who holds what of the optimizer, and in which buckets gradients are reduced.
void step_divide_optimizer(struct step *step);
// Before the first pass: nothing is summed yet, and weights are as the passes want them. Device work alone.
void step_begin(struct step *step, bool is_learning);
// Whether no other rank has a part in the step. Its update is then the end of its last pass, which may be replayed.
bool step_is_alone(const struct step *step);
// After the last backward pass: starts the reduction of what has not been started.
void step_reduce_gradients(struct step *step);
// Applies the gradients when they are reduced, and sends the new parameters on their way. On a rank that is alone it is
// device work and nothing else.
void step_update(struct step *step);

#endif
