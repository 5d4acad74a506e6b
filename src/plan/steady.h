// Extrapolates a step of many micro-batches from a few. On a single rank all micro-batches between the first and the
// last take equally long, so the cost of a step is linear in their number. A full pipeline is periodic too, once all
// its passes are delayed equally relative to those one period earlier. The length of a step is not a sufficient test:
// it grows linearly already while the slowest stage still has idle time to use up.
#ifndef PLAN_STEADY_H
#define PLAN_STEADY_H

#include "parallel/schedule.h"

// Numbers of micro-batches of the short steps that stand for one of shape->micro_batches.
struct steady_counts {
    int held;             // fill the pipeline: memory does not grow beyond
    int before;           // of the step before the measured ones
    int shorter, longer;  // two points of the line; equal if the step itself is short
};
struct steady_counts steady_counts(const struct schedule_shape *shape);
struct steady_counts steady_all(const struct schedule_shape *shape);
// Extrapolates a value from both points to shape->micro_batches.
double steady_extend(const struct steady_counts *counts, int micro_batches, double shorter, double longer);

// Number of micro-batches run for them.
int steady_passes(const struct schedule_shape *shape);

// Like schedule_simulate for the lists of this shape, but sets only seconds, bubble and idle. With a watcher, all items
// are run.
int steady_simulate(const struct schedule_shape *shape, const struct schedule_cost *cost, struct schedule_run *run,
                    const struct schedule_watcher *watcher);
int steady_simulate_all(const struct schedule_shape *shape, const struct schedule_cost *cost, struct schedule_run *run,
                        const struct schedule_watcher *watcher);

#endif
