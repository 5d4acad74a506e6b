// Takes and releases the memory of a step. Only for step.c.
#ifndef STEP_MEMORY_H
#define STEP_MEMORY_H

#include "step/step.h"

// Measures the step on paper, takes the memory and lays it out.
int step_take_memory(struct step *step);
void step_give_memory_back(struct step *step);
// A pass over B sequences of T tokens; the caller sets row_ids.
struct pass step_pass(struct step *step, int64_t B, int64_t T);

#endif
