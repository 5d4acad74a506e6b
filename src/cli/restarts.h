// Whether a failed run is restarted. Failures are part of long runs: the criterion is progress. A run is given up if it
// fails at the same iteration repeatedly, or too often within the window.
#ifndef CLI_RESTARTS_H
#define CLI_RESTARTS_H

#include "base/buffer.h"
#include "base/lifeline.h"

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

// Detects from outside that a run makes no progress. The run counts its completed work (lifeline.h); the observer
// measures on its own clock how long the count stands still, so clocks of different machines do not matter.
#define STALL_LOOK_SECONDS 1.0  // between two looks

struct stall {
    int64_t beats;
    double waited, looked;
    struct clock *clock;  // see base/clock.h
};
// Seconds for which the count has been the same. Between two looks only a little time counts: a paused machine, or a
// suspended observer, says nothing about the run. Zeroed before the first call.
double stall_look(struct stall *stall, int64_t beats);
// The message about a run that is ended for a stall, to be freed.
char *stall_describe(const struct lifeline_state *state, double seconds);

// State of a supervisor that does not live as long as the run, kept between attempts in a small file: see restarts.h
// for its decisions. Next to the file, STATE.lifeline is where the run reports progress (lifeline.h).
struct restarts_file {
    const char *path;
    const char *job;       // job of these attempts: another job starts the file over; at most 63 bytes
    const char *save;      // folder of the run's checkpoints; NULL for none
    const char *fallback;  // of --save-fallback; NULL for none
    const char *journal;   // a file that records progress, for commands without checkpoints; NULL for none
    bool keeps_memory;     // the run resumes from memory, which is lost with the allocation
    int64_t most;          // restarts within the window
    double window_seconds;
};

// Records the start of an attempt. If the previous one has no end, e.g. because its machine died, that is decided
// first, and anything but RESTARTS_AGAIN means that the run is given up. -1 if the file cannot be written.
int restarts_file_begin(const struct restarts_file *file, enum restarts_decision *decision);

struct restarts_end {
    enum restarts_decision decision;
    int exit_code;         // of the job if it ends here
    bool is_nothing_lost;  // the attempt has not completed an iteration, or memory has what it computed: it may be
                           // repeated on the same machines
    double delay;          // before the repetition
};
// Decides on an attempt that ended with this code.
int restarts_file_end(const struct restarts_file *file, int exit_code, struct restarts_end *end);

// The contents of the file, as text and back. -1 if the text is not a state.
struct restarts_state {
    struct restarts restarts;
    char job[64];
    bool is_running;    // an attempt has begun and not ended
    char progress[80];  // progress of the run when it began: an iteration, or a hash of the journal
};
void restarts_state_write(const struct restarts_state *state, struct buffer *out);
int restarts_state_read(struct restarts_state *state, const char *text, size_t length, const char *name);

#endif
