// Takes and releases the memory of a step. Only for the files of this folder.
#ifndef STEP_MEMORY_H
#define STEP_MEMORY_H

#include "step/step.h"

// Measures the step on paper, takes the memory and lays it out.
int step_take_memory(struct step *step);
void step_give_memory_back(struct step *step);

// Fills step->memory by a run on paper; step->keeps_results decides which of the two layouts that is.
int memory_measure(struct step *step);
// Measures, takes the pieces of memory that the arenas lie in, and opens the arenas. All ranks call: see memory_take.c
// for what they decide together. -1 on all of them if one has no room for the smaller layout.
int memory_take(struct step *step);
void memory_give(struct step *step);
// Appends which flags would make a step fit that needs more than `room` bytes. Each was measured on paper.
void memory_remedies(const struct step *step, size_t room, struct buffer *out);

// A pass over B sequences of T tokens; the caller sets row_ids.
struct pass step_pass(struct step *step, int64_t B, int64_t T);

#endif
