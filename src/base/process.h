// Runs another program without a shell: arguments stay arguments, whatever they contain.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_result {
    int exit_code;         // 128 + number if a signal ended it
    struct buffer output;  // its stdout; the caller frees it
    struct buffer errors;  // its stderr
};

// Runs argv (ended by NULL), found on PATH, and waits for it; `input` (may be NULL) is its stdin. Returns -1 if it
// could not be started: the message names the program and says if it was not found. A program that ran and failed is a
// result, not an error.
int process_run(const char *const *argv, const char *input, struct process_result *result);
void process_result_free(struct process_result *result);

// Counts the descendants of `ancestor` that run this file, e.g. /proc/self/exe. *found are their numbers, to be freed.
int process_list_below(pid_t ancestor, const char *program, pid_t **found);
// Sends them a signal; returns how many it reached.
int process_signal_below(pid_t ancestor, const char *program, int number);
// Number of them with a handler for the signal: a process that has just started has none, and the signal would end it.
int process_catching_below(pid_t ancestor, const char *program, int number);
bool process_catches(pid_t process, int number);

// Start time of a process, in clock ticks (_SC_CLK_TCK) since the machine was started; 0 if it is gone. Together with
// the number it identifies one process for good.
unsigned long long process_start(pid_t process);
// Start time of the oldest process visible to this one. With /proc mounted with hidepid, those are the user's own.
unsigned long long process_oldest_start(void);

// For a child that `parent` has forked from its first thread: the child gets SIGTERM when the parent ends for any
// reason, and now if it has ended already.
void process_end_with(pid_t parent);

// The name of this machine; "localhost" if it has none.
void process_host(char *name, size_t size);

// ---- tasks of children ----

// Child processes that share the numbers 0…count-1 among them, for work with per-process state. Each task writes its
// result into memory shared with the parent.

struct child_tasks {
    int count;
    size_t result_bytes;  // of one task
    // Runs in a child. The result is zeroed before.
    void (*task)(void *context, int index, void *result);
    // Runs in the parent, now and then, with the number of tasks that have ended; may be NULL.
    void (*watch)(void *context, int done);
    void *context;
};
// Returns count × result_bytes of results, to be freed with child_tasks_free; NULL after error_set if a child could not
// be started or died. With one child or one task everything runs in this process.
void *child_tasks_run(const struct child_tasks *work, int children);
void child_tasks_free(void *results, const struct child_tasks *work);

// ---- the position of a run ----

// Where this process of a run is: its iteration, its work within it, and its machine. A rank that hangs, crashes or
// gives up reports this, since its log may end long before. Setting it costs a store, and the text can be made in a
// signal handler.

void run_position_set_rank(int rank);                // only for a run of several ranks
void run_position_set_iteration(int64_t iteration);  // the one now being computed, from 1; -1 for none
// The label must live until the next one is set, e.g. "forward"; NULL for none. Returns the previous one.
const char *run_position_set_phase(const char *label);
// Sets it if it is still `from`. Threads other than the one that computes restore the phase this way: that one may have
// moved on.
void run_position_change_phase(const char *from, const char *label);

int64_t run_position_iteration(void);
const char *run_position_phase(void);  // "" for nothing
// "iteration 12, forward, rank 3 on node7"; "" before the run has reached an iteration or a phase. Returns `text`.
const char *run_position_text(char *text, size_t size);

#endif
