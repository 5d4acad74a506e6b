// From gradients to new parameters; for step.c alone.
#ifndef STEP_UPDATE_H
#define STEP_UPDATE_H

#include "step/step.h"

// After the parameters were laid out: who holds what of the optimizer, and in which buckets gradients are reduced.
void step_divide_optimizer(struct step *step);
// After the last backward pass: starts the reduction of what has not been started.
void step_reduce_gradients(struct step *step);
// Applies the gradients when they are reduced, and sends the new parameters on their way.
void step_update(struct step *step);

#endif
