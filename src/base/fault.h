// Faults that a run injects into itself (train --inject), to test its recovery. A fault has a kind and fires when its
// rank reaches a given phase of an iteration. Code calls fault_at where a phase is reached; without faults that is a
// load and a branch that is never taken.
//
// A fault fires once for each of its iterations, also across restarts: it is first recorded in a file, and a recorded
// fault does not fire again, unless it says so. One thread opens and closes; any thread may reach a phase.
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
    FAULT_KILL,         // SIGKILL, as the OOM killer and lost machines end a process
    FAULT_SEGV,         // SIGSEGV
    FAULT_ABORT,        // SIGABRT
    FAULT_TERM,         // SIGTERM: stop and save
    FAULT_USR1,         // SIGUSR1, a scheduler's warning
    FAULT_STOP,         // SIGSTOP: no thread of the process runs
    FAULT_HANG,         // the thread waits forever; other threads keep running
    FAULT_SLOW,         // it sleeps for `seconds`
    FAULT_NAN,          // a gradient or a weight becomes NaN
    FAULT_FLIP,         // a bit of a gradient or of a weight flips
    FAULT_ENOSPC,       // a system call fails: no space left on device
    FAULT_EIO,          // a system call fails: input/output error
    FAULT_STUCK_FSYNC,  // an fsync takes `seconds`, or forever
    FAULT_RESET,        // all TCP connections of the process are reset
    FAULT_CLOCK,        // the wall clock jumps by `seconds`
    FAULT_KINDS
};

enum fault_phase {
    FAULT_AT_RENDEZVOUS,  // before the rank connects to the others
    FAULT_AT_LOAD,        // before the rank reads a checkpoint
    FAULT_AT_STEP,        // before an iteration
    FAULT_AT_DATA,        // while the rank waits for a micro-batch
    FAULT_AT_FORWARD,
    FAULT_AT_BACKWARD,
    FAULT_AT_GRADIENTS,   // after the last backward pass, before gradients are reduced
    FAULT_AT_ALL_REDUCE,  // in the order of enum collective_kind
    FAULT_AT_ALL_GATHER,
    FAULT_AT_REDUCE_SCATTER,
    FAULT_AT_ALL_TO_ALL,
    FAULT_AT_BROADCAST,
    FAULT_AT_SEND,
    FAULT_AT_RECEIVE,
    FAULT_AT_AGREE,      // collectives of host values
    FAULT_AT_OPTIMIZER,  // before an update
    FAULT_AT_WEIGHTS,    // after the update
    FAULT_AT_RESULTS,    // after FAULT_AT_WEIGHTS, when the rank knows the loss
    FAULT_AT_EVALUATE,   // before each iteration of an evaluation
    FAULT_AT_MEMORY,     // in a checkpoint in memory: before, within and after the copy
    FAULT_AT_SAVE,       // before a checkpoint is written
    FAULT_AT_WRITE,      // before each write to a file of a checkpoint
    FAULT_AT_FSYNC,      // before each fsync there, of files and folders
    FAULT_AT_RENAME,     // before each rename there
    FAULT_PHASES
};

#define FAULT_ENDLESS INT64_MAX

enum { FAULT_TEXT_BYTES = 160 };

struct fault {
    enum fault_kind kind;
    enum fault_phase phase;
    int rank;                     // -1 for every rank
    int64_t first, last;          // iterations; 0 is the start of the run, before its first iteration
    bool is_anywhere;             // fires in the first of these iterations that reaches the phase, and in no other
    int64_t call;                 // fires at the n-th arrival of an iteration at the phase, from 1
    int64_t times;                // number of consecutive arrivals at which it fires, FAULT_ENDLESS for all
    double seconds;               // of kinds that take time; FAULT_FOREVER
    bool every_start;             // fires again after a restart
    char text[FAULT_TEXT_BYTES];  // as the user gave it; names the fault in messages and in the record
};

// Value of `seconds` for no end.
#define FAULT_FOREVER 1e18

// Names, e.g. "stuck-fsync" and "allreduce", and descriptions for users.
const char *fault_kind_name(enum fault_kind kind);
const char *fault_kind_help(enum fault_kind kind);
const char *fault_phase_name(enum fault_phase phase);
const char *fault_phase_help(enum fault_phase phase);
// Whether this kind of fault can happen in this phase.
bool fault_fits(enum fault_kind kind, enum fault_phase phase);

// Copies the faults of this rank. `record` is a file of earlier starts, which need not exist; NULL for none: then all
// faults fire again after a restart. A record that cannot be read is an error.
int fault_open(const struct fault *faults, int64_t count, int rank, const char *record);
// Warns about faults that have never fired, unless the run has failed.
void fault_close(bool has_failed);
bool fault_is_on(void);
// While suspended, arrivals at phases do not count: a plan runs a step that no fault is meant for.
void fault_suspend(bool is_suspended);

void fault_set_iteration(int64_t iteration);  // the one being computed
void fault_set_save(int64_t iteration);       // the one whose checkpoint is being written

// Effects that the caller must apply; all zero for none. All other effects have already happened.
struct fault_effect {
    int error;  // an errno: the system call fails with it, and is not made
    bool makes_nan, flips_bit;
};
// The rank has reached this phase.
struct fault_effect fault_reach(enum fault_phase phase);
static inline struct fault_effect fault_at(enum fault_phase phase) {
    return fault_is_on() ? fault_reach(phase) : (struct fault_effect){0};
}

#endif
