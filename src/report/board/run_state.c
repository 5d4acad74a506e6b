// State of a run: live, ended in a known way, or ended in an unknown way.
#include "report/board/run.h"

const char *const run_state_names[] = {[RUN_LIVE] = "live",
                                       [RUN_FINISHED] = "finished",
                                       [RUN_STOPPED] = "stopped",
                                       [RUN_FAILED] = "failed",
                                       [RUN_LOST] = "lost"};

enum board_run_state run_state(const struct board_run *run, double now) {
    const struct run_summary *summary = &run->summary;
    const double shortest = 60, times = 5;
    double patience = times * summary->distance > shortest ? times * summary->distance : shortest;
    switch (summary->end) {
    case RUN_END_FINISHED:
        return RUN_FINISHED;
    case RUN_END_STOPPED:
        return RUN_STOPPED;
    case RUN_END_FAILED:
        return RUN_FAILED;
    case RUN_END_NONE:
        break;
    }
    if (now - summary->updated < patience)
        return RUN_LIVE;
    // Event files do not say how a run ended, and earlier versions of ours did not either.
    if (run->is_events)
        return RUN_STOPPED;
    return summary->train_iters > 0 && summary->iteration >= summary->train_iters ? RUN_FINISHED : RUN_LOST;
}
