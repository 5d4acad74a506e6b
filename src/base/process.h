// Runs another program without a shell: arguments stay arguments, whatever they contain.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/buffer.h"
#include <stdbool.h>
#include <sys/types.h>

struct process_result {
    int exit_code;         // 128 + number if a signal ended it
    struct buffer output;  // what it wrote to stdout; the caller frees it
    struct buffer errors;  // what it wrote to stderr
};

// Runs argv (ended by NULL), found on PATH, and waits for it; `input` (may be NULL) is its stdin. Returns -1 if it
// could not be started: the message names the program and says if it was not found. A program that ran and failed is a
// result, not an error.
int process_run(const char *const *argv, const char *input, struct process_result *result);
void process_result_free(struct process_result *result);

// The descendants of `ancestor` that run this file, e.g. /proc/self/exe: how many, and their numbers, to be freed.
int process_list_below(pid_t ancestor, const char *program, pid_t **found);
// Sends them a signal; returns how many it reached.
int process_signal_below(pid_t ancestor, const char *program, int number);
// How many of them have a handler for the signal: one that has just been started would die of it.
int process_catching_below(pid_t ancestor, const char *program, int number);
bool process_catches(pid_t process, int number);

// When a process was started, in ticks of _SC_CLK_TCK since the machine was; 0 if it is gone. With the number it names
// one process for good.
unsigned long long process_start(pid_t process);
// The same of the oldest process that this one may look at. With /proc mounted with hidepid, those are the user's own.
unsigned long long process_oldest_start(void);

// For a child of `parent`, which has forked it from its first thread: it gets SIGTERM when that one ends, however it
// does, and now if it has ended already.
void process_end_with(pid_t parent);

// The name of this machine; "localhost" if it has none.
void process_host(char *name, size_t size);

#endif
