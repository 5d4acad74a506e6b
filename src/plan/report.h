// A plan for people and for programs.
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "plan/plan.h"

// ---- saves and failures ----

// The cost of saves and failures: the size and time of a checkpoint, the rate of failures, the best interval between
// saves, and the resulting fraction of time spent training.

// The user's knowledge of the cluster.
struct interruption_rates {
    double bytes_per_second;  // of the file system, for all machines together; 0: 1 GB/s for each
    double failures_per_day;  // of 8 GPUs, or of a machine without GPUs
    bool is_default;          // failures_per_day is the rate below
    double restart_seconds;   // from a failure to the first step, without reading the checkpoint
};
// Meta's RSC-1 cluster: 24,000 A100 in 11 months (arXiv 2410.21680). Llama 3's 16,384 H100 had 0.0038.
#define INTERRUPTIONS_FAILURES_PER_DAY "0.0065"
#define INTERRUPTIONS_SOURCE "Meta's RSC-1, arXiv 2410.21680"

struct interruptions {
    double bytes_per_second;
    double save_seconds;
    double failures_per_day;  // of the whole run
    double interval;          // cheapest seconds between saves: sqrt(2 × save × time between failures)
    double effective;         // fraction of time spent on progress that is kept
};
struct interruptions plan_interruptions(const struct plan *plan, const struct machine *machine,
                                        const struct interruption_rates *rates);

// ---- reports ----

// The budget of a whole run.
struct plan_budget {
    double tokens;  // 0: no budget
    const struct machine *machine;
    struct interruption_rates rates;
    double file_operations;  // per second, of the file system; 0: the usual number
};
void plan_describe(const struct plan *plan, const struct plan_budget *budget, struct buffer *out);
void plan_write_json(const struct plan *plan, const struct plan_budget *budget, struct buffer *out);

#endif
