// The ranges of fp8 tensors in a checkpoint, so that a run with --fp8-format resumes bit for bit. Each layer whose
// matmuls are in fp8 has fp8_ranges.NAME, (FP8_ROLES, RANGE_LENGTH), and fp8_history.NAME, (FP8_ROLES,
// --fp8-amax-history-len), where NAME is its weight's. They lie beside the optimizer's tensors. All ranks that hold a
// layer have the same ranges between steps, so each of them has the whole tensors, and any layout finds those of its
// layers.
#ifndef TRAIN_FP8_RANGES_H
#define TRAIN_FP8_RANGES_H

#include "train/state.h"

// Fills a list of step_range_count tensors. The names are to be freed.
void ranges_list(const struct step *step, struct checkpoint_tensor *list);
// Loads them, given how many steps those of the checkpoint have seen. If it lacks those of a layer, or has histories of
// another length, none are loaded: the first step measures, as that of every run does, and a note says so. All ranks
// call, and do the same, whichever stage of a pipeline holds the layer.
int ranges_load(const struct run_state *run, const char *path, int64_t steps, bool *are_loaded);

#endif
