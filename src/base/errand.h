// Runs a shell command now and then beside the program's work, for a flag like --on-event. A thread does it: adding an
// errand never blocks. One command runs at a time; others wait in a queue of limited length, from which the oldest is
// dropped and named in the log. A command that takes too long is ended. Its output goes to the log, line by line. Facts
// reach it as environment variables and on its standard input, never as a part of the command's text, so nothing in
// them is parsed as shell syntax.
#ifndef BASE_ERRAND_H
#define BASE_ERRAND_H

#include <stdbool.h>

struct errands;

struct errand_options {
    const char *name;      // of the flag, for the log: "--on-event"; must live as long
    const char *command;   // for /bin/sh -c; "@FILE" runs the script FILE, so that other users do not see the text
    double limit_seconds;  // for one command
    struct clock *clock;   // see clock.h
};
// NULL, without an error, if the thread cannot be started.
struct errands *errands_open(const struct errand_options *options);

// One errand: its label and the command's environment and input.
struct errand {
    const char *label;             // for the log: "saved at iteration 100"
    const char *const *variables;  // "NAME=VALUE", ended by NULL; they replace those of this process
    const char *input;             // its standard input
};
void errands_add(struct errands *errands, const struct errand *errand);

// Waits up to this long for all errands; returns whether they are done.
bool errands_wait(struct errands *errands, double seconds);
// Like errands_wait, then ends the thread. Queued errands are dropped; a command that is still running is left running.
// NULL is fine.
void errands_close(struct errands *errands, double seconds);

#endif
