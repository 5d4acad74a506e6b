// Turns the results of iterations into metrics and reports them: every iteration to the live line and TensorBoard, and
// the means over an interval of iterations to the console and metrics.jsonl.
#ifndef TRAIN_METER_H
#define TRAIN_METER_H

#include "report/report.h"
#include "step/step.h"
#include "train/state.h"

// What has accumulated since the last log line.
struct meter_interval {
    double seconds, tokens;
    double loss, pair_loss;  // sums over the good iterations: those whose loss and gradient are finite
    int64_t iterations, good, skipped, nan;
};

struct meter {
    const struct config *config;
    const struct mesh *mesh;
    struct step *step;
    struct report *report;    // NULL except on the reporting rank
    int64_t first_iteration;  // of this start; it always gets a log line
    struct meter_interval interval;
};

// An iteration that has completed.
struct meter_reading {
    struct step_result result;
    struct progress_state at;  // after the iteration
    int64_t batch_size;
    double seconds;
};

bool meter_result_is_good(const struct step_result *result);
// Whether this iteration reports something that has to be computed from the weights or gradients it leaves behind. No
// later iteration may have been queued by then.
bool meter_needs_weights(const struct meter *meter, int64_t iteration);
// Adds an iteration and reports what is due. All ranks call.
void meter_add(struct meter *meter, const struct meter_reading *reading);

#endif
