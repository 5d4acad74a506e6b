// What every stage does in a step of a plan, and when: as a picture, and as a trace for Perfetto. Both are drawn from
// the run of the lists that the plan's seconds come from.
#ifndef PLAN_TIMELINE_H
#define PLAN_TIMELINE_H

#include "plan/plan.h"

struct timeline {
    struct schedule_span *spans;  // (count) those of a stage in order of time
    size_t count, capacity;
};

// For plan_options.
struct schedule_watcher timeline_watcher(struct timeline *timeline);
void timeline_free(struct timeline *timeline);

// Of a stage: how long it works, and how long it waits until the step ends.
struct timeline_row {
    double busy, idle;
};
struct timeline_row timeline_row(const struct timeline *timeline, const struct plan *plan, int stage);

// An SVG picture with a row for each stage. Whoever looks at it knows the run by `name`.
void timeline_draw(const struct timeline *timeline, const struct plan *plan, const char *name, struct buffer *out);
// Chrome's JSON: each stage is a process, one of its ranks.
void timeline_trace(const struct timeline *timeline, const struct plan *plan, const char *machine, struct buffer *out);

#endif
