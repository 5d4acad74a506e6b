// Runs a rank of one stage on paper: its memory, and the costs of the items of its list.
#ifndef PLAN_STAGE_H
#define PLAN_STAGE_H

#include "plan/plan.h"
#include "plan/setup.h"

enum { STAGE_MOST_CHUNKS = 32 };

// Seconds of the items of a kind in a step, and their number.
struct stage_costs {
    double seconds[WORK_COUNT][STAGE_MOST_CHUNKS];
    double count[WORK_COUNT][STAGE_MOST_CHUNKS];
    double pair_seconds[STAGE_MOST_CHUNKS], pairs[STAGE_MOST_CHUNKS];  // by the chunk of the backward
};

bool work_is_pass(enum work work);
// A stage that was measured.
struct measured_stage {
    const struct plan_stage *stage;
    const struct stage_costs *costs;
};
// Runs steps of the setup's rank, whose device tells the time. If the stage is too large for options->room, only memory
// and parameters are set. Takes the times from `like`, a stage with the same layers, unless NULL.
int stage_run(const struct setup *setup, const struct plan_options *options, struct plan_stage *stage,
              struct stage_costs *costs, const struct measured_stage *like);

#endif
