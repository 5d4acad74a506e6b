// A plan of a step with many micro-batches, from two shorter steps. Once a pipeline is full, each further micro-batch
// takes as long as the one before it, so that times grow linearly and memory does not grow.
#ifndef PLAN_BRIEF_H
#define PLAN_BRIEF_H

#include "plan/plan.h"

// As plan_make, without a watcher. Plans all micro-batches where they are few; plan_brief_batches says how many it
// runs.
int plan_make_brief(struct plan *plan, const struct plan_options *options);
int64_t plan_brief_batches(int64_t micro_batches, int64_t stages, bool is_zero_bubble);

#endif
