// The commands below `bevatron launch`: starting runs on this machine or a cluster.
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "base/buffer.h"
#include "base/lifeline.h"
#include "cluster/launch_job.h"
#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

// A launcher's command line: its own flags, then those of the launched command.
struct launch_command {
    char **own;  // argv[0] and the launcher's flags, ended by NULL
    int own_count;
    char **rest;  // the command's name ("train" if none is given) and its flags, ended by NULL
    int rest_count;
    // The command will run in a container without the files of --config: their contents are written out as flags.
    bool is_elsewhere;
    bool takes_machines;         // the launcher's --nodes and --machine give the number of ranks
    struct string_list written;  // those flags
    char default_name[6];        // "train"
    const char *flag_remedy;     // the remedy for a flag that neither of them has; NULL for none
};
// Appends a flag and its value.
void launch_command_add(struct launch_command *command, const char *flag, const char *value);

// -1 if the word in the place of a command's name is not a command. The message lists all names but `hidden`, which may
// be NULL.
int launch_check_name(const struct launch_command *command, const char *hidden);
// Checks a command other than train, as far as possible without running it: that it exists, its part too (`dataset
// merge`), and the flags of preprocess, evaluate, generate, preflight and bench (unless their --config file is
// elsewhere). Returns 0, FLAGS_HELP if they ask for help, which has then been printed, or -1. *journal, to be freed, is
// the file that records progress and from which the same command continues; NULL if it would start over.
int launch_check(struct launch_command *command, char **journal);
// Parses the flags of a train command and checks them as train itself will on `ranks` ranks. launch_run frees the
// config.
int launch_config(struct config *config, struct launch_command *command, int64_t ranks);
// A launcher from its command line to its exit code: splits, parses, calls `launch`, which returns -1 or the exit code,
// and frees.
struct launch_call {
    const struct flag_command *flags;  // of the launcher; one table
    void *options;
    int (*launch)(void *options, struct launch_command *command, struct config *config);
};
int launch_run(const struct launch_call *call, int argc, char **argv);
// Refuses GPUs that are too old for the command, and runs that do not fit their memory. Passes the machine on to train.
// The config is that of train, otherwise not read.
int launch_check_machine(const struct launch_job *job, struct launch_command *command, struct config *config);
// Adds the items of --export (NAME=VALUE or NAME, separated by commas, as in sbatch) to those of --env, and makes all
// of them visible to files of --config read after this.
int launch_export(const struct string_list *exported, struct string_list *environment);
// Adds the variables that those files referred to.
void launch_export_found(struct string_list *environment);
// Refuses --checkpoint-in-memory for a launcher without a process on the ranks' machines that outlives them.
int launch_refuse_memory(const struct config *config);
// Makes a restarted run resume: --load becomes the folder of --save unless it is given. Fails if the run would stop
// because of the folder of --save, unless that is on another machine.
int launch_resume(struct launch_command *command, const struct config *config);

// ---- restarts ----

// Whether a failed run is restarted. Failures are part of long runs: the criterion is progress. A run is given up if it
// fails at the same iteration repeatedly, or too often within the window.

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

// State of a supervisor that does not live as long as the run, kept between attempts in a small file: see above
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
