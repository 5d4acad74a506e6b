// A step of many micro-batches, from a few of them. Between the first micro-batch and the last one, all take equally
// long on a rank alone, so that what a step costs is a line over its micro-batches. A full pipeline repeats itself too,
// once all of its passes begin equally much later than those a period before. The length of a step does not show that:
// it grows on a line already while the slowest stage still has idle time to use up.
#ifndef PLAN_STEADY_H
#define PLAN_STEADY_H

#include "parallel/schedule.h"

// How many micro-batches steps have that stand for one of shape->micro_batches.
struct steady_counts {
    int held;             // fill the pipeline: memory does not grow beyond
    int before;           // of the step before those that count
    int shorter, longer;  // two points of the line; equal if the step itself is short
};
struct steady_counts steady_counts(const struct schedule_shape *shape);
struct steady_counts steady_all(const struct schedule_shape *shape);
// Of a value at both points: that of shape->micro_batches.
double steady_extend(const struct steady_counts *counts, int micro_batches, double shorter, double longer);

// How many micro-batches are run for them.
int steady_passes(const struct schedule_shape *shape);

// As schedule_simulate for the lists of this shape, but only seconds, bubble and idle are set. A watcher sees all
// items, and then all of them are run.
int steady_simulate(const struct schedule_shape *shape, const struct schedule_cost *cost, struct schedule_run *run,
                    const struct schedule_watcher *watcher);
int steady_simulate_all(const struct schedule_shape *shape, const struct schedule_cost *cost, struct schedule_run *run,
                        const struct schedule_watcher *watcher);

#endif
