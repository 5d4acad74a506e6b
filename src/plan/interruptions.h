// What saves and failures cost a run: the size and time of a checkpoint, how often machines fail, how often to save,
// and which part of the time is training then.
#ifndef PLAN_INTERRUPTIONS_H
#define PLAN_INTERRUPTIONS_H

#include "plan/plan.h"

// What the user knows of the cluster.
struct interruption_rates {
    double bytes_per_second;  // that the file system takes from all machines together; 0: 1 GB/s from each
    double failures_per_day;  // of 8 GPUs, or of a machine without GPUs
    bool is_default;          // that is the rate below
    double restart_seconds;   // from a failure to the first step, without the time to read the checkpoint
};
// Meta's RSC-1 cluster: 24,000 A100 in 11 months (arXiv 2410.21680). Llama 3's 16,384 H100 had 0.0038.
#define INTERRUPTIONS_FAILURES_PER_DAY "0.0065"
#define INTERRUPTIONS_SOURCE "Meta's RSC-1, arXiv 2410.21680"

struct interruptions {
    double bytes_per_second;
    double save_seconds;
    double failures_per_day;  // of the whole run
    double interval;          // seconds between saves that cost the run least: sqrt(2 × save × time between failures)
    double effective;         // part of the time in which the run makes progress that it keeps
};
struct interruptions plan_interruptions(const struct plan *plan, const struct machine *machine,
                                        const struct interruption_rates *rates);

#endif
