// The planner's prediction for a run, and the comparison with the run. Which machine to plan for is known to the
// trainer's caller, who passes the planner as a function.
#ifndef TRAIN_PLAN_COMPARISON_H
#define TRAIN_PLAN_COMPARISON_H

#include "base/buffer.h"
#include "config/config.h"
#include "ops/device.h"
#include "parallel/mesh.h"

// The plan of one step with the whole global batch.
struct planned {
    double seconds;  // 0: nothing is planned
    double tokens;
    double compute;    // seconds in which the device of the slowest stage computes; the rest it waits for others
    char machine[64];  // that it was planned for
};

// Plans the run for the machine that it is on. Fills in *planned, or leaves it empty if the machine is not known; this
// is not an error.
struct planner {
    void (*plan)(const struct planner *planner, const struct config *config, const struct device *device,
                 struct planned *planned);
    const void *context;
};

// On the first rank, what the run is to be compared with once it is warm. The planner may be NULL.
void planned_make(const struct planner *planner, const struct config *config, const struct device *device,
                  const struct mesh *mesh, struct planned *planned);

// Measured times of a step, as means over warm iterations and ranks.
struct measured {
    int64_t iteration;
    double seconds;
    double waits;  // for other ranks
    double data;
};

enum planned_part { PART_COMPUTE, PART_WAITS, PART_DATA, PART_COUNT };

struct planned_difference {
    double planned[PART_COUNT], measured[PART_COUNT];  // seconds of a step
    double deviation;                                  // of the speed: -0.1 for a tenth slower than planned
    // The part that explains most of it; PART_COUNT if the run is as planned, within a twentieth.
    enum planned_part part;
};
struct planned_difference planned_compare(const struct planned *planned, const struct measured *measured);
// One sentence for the log.
void planned_describe(const struct planned *planned, const struct measured *measured, struct buffer *out);
// A line of metrics.jsonl: an event with that sentence and the numbers.
void planned_write_line(const struct planned *planned, const struct measured *measured, struct buffer *line);

#endif
