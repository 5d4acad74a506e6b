// The ranges of 8-bit tensors in a checkpoint, so that a run with --fp8-format resumes bit for bit. Each layer whose
// products are in 8 bits has fp8_ranges.NAME, (FP8_ROLES, RANGE_LENGTH), and fp8_history.NAME, (FP8_ROLES,
// --fp8-amax-history-len), where NAME is its weight's. They lie beside the optimizer's tensors. All ranks that hold a
// layer have the same ranges between steps, so each of them has the whole tensors, and any layout finds those of its
// layers.
#ifndef TRAIN_RANGES_H
#define TRAIN_RANGES_H

#include "checkpoint/checkpoint.h"
#include "step/step.h"

// How many tensors there are; 0 if no products are in 8 bits.
size_t ranges_count(const struct step *step);
// Fills a list of ranges_count tensors. The names are to be freed.
void ranges_list(const struct step *step, struct checkpoint_tensor *list);
// How many steps the ranges have seen; 0 if there are none.
int64_t ranges_steps(const struct step *step);
// Loads them, given how many steps those of the checkpoint have seen. If it has none, or with a history of another
// length, the first step measures, as that of every run does; a note says so.
int ranges_load(struct step *step, const char *path, int64_t steps);

#endif
