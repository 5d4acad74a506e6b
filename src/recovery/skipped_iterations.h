// The iterations that a run does not train on: their batches are read and dropped, and iterations and samples count as
// if they had been trained on. They are kept in every checkpoint (struct checkpoint_past).
#ifndef RECOVERY_SKIPPED_ITERATIONS_H
#define RECOVERY_SKIPPED_ITERATIONS_H

#include "store/checkpoint.h"

// Adds a span and joins it with those that it touches; -1 if there are too many.
int skips_add(struct checkpoint_past *past, int64_t first, int64_t last);
bool skips_have(const struct checkpoint_past *past, int64_t iteration);
// The last iteration of the span that this one is in.
int64_t skips_last(const struct checkpoint_past *past, int64_t iteration);
// Whether both skip the same iterations up to and including this one.
bool skips_agree(const struct checkpoint_past *a, const struct checkpoint_past *b, int64_t iteration);

#endif
