// Runs another program without a shell: arguments stay arguments, whatever they contain.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/buffer.h"
#include <stdbool.h>
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

#endif
