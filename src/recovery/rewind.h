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
    bool is_replay;       // nothing is skipped: the same is computed again, see below
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

// ---- iterations that are skipped ----

// Their batches are read and dropped, and iterations and samples count as if they had been trained on.

// Adds a span and joins it with those that it touches; -1 if there are too many.
int skips_add(struct checkpoint_past *past, int64_t first, int64_t last);
bool skips_have(const struct checkpoint_past *past, int64_t iteration);
// The last iteration of the span that this one is in.
int64_t skips_last(const struct checkpoint_past *past, int64_t iteration);
// Whether both skip the same iterations up to and including this one.
bool skips_agree(const struct checkpoint_past *a, const struct checkpoint_past *b, int64_t iteration);

// ---- replay ----

// The switch --replay-check finds out which rank is wrong if replicas differ. The run goes back to the last verified
// checkpoint and computes the same iterations again, which gives the right numbers. The rank whose value of the element
// that differed was furthest from the right one had the fault: through gradients it may have changed the others'
// numbers, but less. If the value is the same and only an optimizer state differed, it is the rank that has another one
// now. If the replicas agree this time, the run continues.

struct replay_check {
    bool is_on;         // the iterations are being computed again
    int64_t iteration;  // at which replicas differed
    int64_t digest;     // of this rank at that iteration
    double value;       // that it had of the first element that differed, see step_suspect
};

// Takes the status of a check or a save at an iteration whose results are all known. If replicas differ and it can
// help, makes going back due and returns 0. All ranks call.
int replay_check_begin(struct replay_check *replay, struct recovery *recovery, struct step *step, int64_t iteration,
                       int status);
// Whether the next replay_check_end is after this iteration.
bool replay_check_is_due(const struct replay_check *replay, int64_t iteration);
// After an iteration whose results are all known: if it is that iteration again, says which ranks have other numbers;
// -1 if replicas differ again. All ranks call.
int replay_check_end(struct replay_check *replay, const struct recovery *recovery, struct step *step,
                     int64_t iteration);

#endif
