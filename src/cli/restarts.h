// Whether a failed run is restarted. Failures are part of long runs: the criterion is progress. A run is given up if it
// fails at the same iteration repeatedly, or too often within the window.
#ifndef CLI_RESTARTS_H
#define CLI_RESTARTS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RESTARTS_MOST = 1000,
    RESTARTS_AT_ONE_PLACE = 3,  // attempts that may fail at one iteration
    RESTARTS_UNSTARTED = 5,     // attempts in a row that may end before the run has started
};

struct restarts {
    int64_t most;           // within the window
    double window_seconds;  // older restarts are forgotten
    double times[RESTARTS_MOST];
    int64_t count;
    int64_t place;     // the iteration at which the last attempt failed
    int at_one_place;  // attempts that failed there in a row
    int unstarted;     // attempts in a row that did not start
    int in_vain;       // attempts in a row without a new checkpoint
    // A run that was stopped after saving is resumed, e.g. after the time limit of its job. That is not a failure, but
    // a run that is stopped at the same place repeatedly makes no progress either.
    bool continues_stopped;
};

// The end of an attempt.
struct restarts_attempt {
    int exit_code;
    bool has_started;
    int64_t reached;  // the last iteration that it completed, -1 for none
    bool has_new_checkpoint;
    bool cannot_save;          // it ended because no checkpoint could be written
    bool resumes_from_memory;  // the next attempt has a checkpoint in host memory; for messages
    double now;
};

enum restarts_decision {
    RESTARTS_AGAIN,
    RESTARTS_NEVER,      // a restart would not help, according to the exit code
    RESTARTS_STUCK,      // it fails at one place
    RESTARTS_TOO_OFTEN,  // more than `most` within the window
    RESTARTS_NO_START,   // it does not start at all
};
// *delay is the number of seconds to wait before the next attempt.
enum restarts_decision restarts_decide(struct restarts *restarts, const struct restarts_attempt *attempt,
                                       double *delay);
// The message about a decision, to be freed; NULL for RESTARTS_NEVER, which the run itself has explained. `checkpoint`
// is the iteration from which the next attempt resumes, -1 for none.
char *restarts_describe(const struct restarts *restarts, enum restarts_decision decision,
                        const struct restarts_attempt *attempt, int64_t checkpoint);
// Whether the next attempt may resume from checkpoints in memory: processes were lost, and the attempt before did not
// fail at the same place. If the run itself has reported an error, its last results may be the reason, unless it could
// not save, or completed no iteration: then it failed to start, and memory holds earlier results. If it fails to start
// again, the checkpoint in memory may be the reason, and the last attempt does without it.
bool restarts_trust_memory(const struct restarts *restarts, const struct restarts_attempt *attempt);
// The exit code of a run that is given up.
int restarts_exit_code(enum restarts_decision decision, int exit_code);
// The iteration of the newest checkpoint in the folders of --save and --save-fallback, -1 if there is none. Both may be
// NULL.
int64_t restarts_checkpoint(const char *save, const char *fallback);

#endif
