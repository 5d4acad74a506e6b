// Reacts to losses and gradients that are not finite (--nan-policy) and to loss spikes (--spike-policy).
//
// Both policies that go back share one mechanism, all of it inside the running processes: the weights, the optimizer
// and the place in the data become those of a verified checkpoint from before the trouble, or of the start of the run;
// and the iterations around the trouble are skipped from then on. Iterations keep their numbers and their batches, so a
// run that is told to skip the same ones (--iterations-to-skip) has the same weights to the bit. What is skipped is
// kept in every checkpoint. If a problem recurs nearby, the run goes back further, a few times.
#ifndef RECOVERY_REWIND_H
#define RECOVERY_REWIND_H

#include "report/report.h"
#include "step/step.h"
#include "store/checkpoint.h"

struct recovery {
    const struct config *config;
    const struct mesh *mesh;
    struct report *report;         // NULL except on the reporting rank
    struct checkpoint_past *past;  // the run's
    bool begins_at_zero;           // this start began at iteration 0: its weights can be made again
    int64_t lowest_overflows;      // overflows in a row after which the loss scale was as low as it goes
    int64_t nans;                  // updates in a row that were skipped
    bool is_due;                   // the run must go back, to a checkpoint of this iteration at most
    int64_t wanted;
    bool is_replay;       // nothing is skipped: the same is computed again, see replay_check.h
    int attempts;         // how many times the run went back for problems close to each other
    int64_t skipped_end;  // the last iteration that was skipped for them
    const char *from;     // the folder of the checkpoint that the run went back to; NULL for the start of the run
};

// Adds the iterations of --iterations-to-skip to those of the checkpoint that was loaded. is_host: on a CPU.
int recovery_open(struct recovery *recovery, bool is_host);
// Looks at the result of an iteration. Sets is_due if the run must go back; -1 if it must end. All ranks call with the
// same result.
int recovery_judge(struct recovery *recovery, const struct step_result *result, int64_t iteration);
// A warning in the log, and an event for those who watch the run.
void recovery_tell(const struct recovery *recovery, const char *name, int64_t iteration, const char *text);
// Finds what the run goes back to and has it loaded, with the progress of the run: the checkpoint at `path`, or with
// NULL the weights that the run began with. No iteration may be pending. All ranks call.
int recovery_go_back(struct recovery *recovery, int (*load)(void *context, const char *path), void *context);

// ---- loss spikes ----

// Finds loss spikes: iterations whose loss or gradient norm is far above what the latest ones had. Median and median
// absolute deviation of a window stand for what is usual, since a few outliers do not move them. Losses are compared as
// they are, gradient norms by their logarithm. A single batch may be odd; several in a row are a spike.

enum {
    SPIKE_LEAST = 64,  // iterations before anything is called a spike
    SPIKE_STREAK = 3,  // iterations in a row that are one
};

// The usual value, and the highest one that does not count as a spike: `threshold` standard deviations (of a normal
// distribution with this median absolute deviation, or `least` if that is less) above the median.
struct spike_level {
    double median, limit;
};
struct spike_level spike_level(const double *values, int64_t count, double threshold, double least);

// The levels of the window, before an iteration is added.
struct spike_levels {
    struct spike_level loss, norm;
};
// Adds an iteration, whose loss and gradient norm are finite, to the window. Whether the spike has just been found:
// that many iterations in a row, this one the last of them, were far above the others.
bool spike_add(struct checkpoint_past *past, double threshold, double loss, double norm, struct spike_levels *levels);

#endif
