// The timeline of all stages in a step of a plan, as a picture and as a trace for Perfetto. Both come from the
// simulation of the lists that gives the plan's seconds.
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

// Seconds that a stage works, and waits until the step ends.
struct timeline_row {
    double busy, idle;
};
struct timeline_row timeline_row(const struct timeline *timeline, const struct plan *plan, int stage);

// An SVG picture with a row for each stage. `name` identifies the run to readers.
void timeline_draw(const struct timeline *timeline, const struct plan *plan, const char *name, struct buffer *out);
// Chrome's JSON: a process for each stage, with one of its ranks.
void timeline_trace(const struct timeline *timeline, const struct plan *plan, const char *machine, struct buffer *out);

#endif
