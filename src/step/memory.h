// Takes and releases the memory of a step. Only for the files of this folder.
#ifndef STEP_MEMORY_H
#define STEP_MEMORY_H

#include "step/internal.h"

// Measures the step on paper, takes the memory and lays it out.
int step_take_memory(struct step *step, struct step_room *room);
void step_give_memory_back(struct step *step);

// Fills step->memory by a run on paper; step->keeps_results decides which of the two layouts that is.
int memory_measure(struct step *step);
// Measures, takes the blocks of memory for the arenas, and opens the arenas. All ranks call, since they decide together
// (memory_take.c). -1 on all of them if one has no room for the smaller layout.
int memory_take(struct step *step, struct step_room *room);
void memory_give(struct step *step);
// Whether optimizer states may be in host memory, and whether inputs of layers are offloaded there.
bool step_hosts_states(const struct step *step);
bool step_offloads(const struct step *step);

// A step that is empty so far; step_assemble builds its model and everything else but the memory; step_close frees it.
struct step *step_new(const struct step_options *options);
int step_assemble(struct step *step);

// A pass over B sequences of T tokens; the model sets its batch.
struct pass step_pass(struct step *step, int64_t B, int64_t T);

#endif
