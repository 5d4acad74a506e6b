// Runs a shell command now and then beside the program's work, for a flag like --on-event. A thread does it: adding an
// command never blocks. One command runs at a time; others wait in a queue of limited length, from which the oldest is
// dropped and named in the log. A command that takes too long is ended. Its output goes to the log, line by line. Facts
// reach it as environment variables and on its standard input, never as a part of the command's text, so nothing in
// them is parsed as shell syntax.
#ifndef BASE_COMMAND_QUEUE_H
#define BASE_COMMAND_QUEUE_H

#include <stdbool.h>

struct command_queue;

struct command_queue_options {
    const char *name;      // of the flag, for the log: "--on-event"; must live as long
    const char *command;   // for /bin/sh -c; "@FILE" runs the script FILE, so that other users do not see the text
    double limit_seconds;  // for one command
    struct clock *clock;   // see clock.h
};
// NULL, without an error, if the thread cannot be started.
struct command_queue *command_queue_open(const struct command_queue_options *options);

// A command to run: its label, its environment and its input.
struct queued_command {
    const char *label;             // for the log: "saved at iteration 100"
    const char *const *variables;  // "NAME=VALUE", ended by NULL; they replace those of this process
    const char *input;             // its standard input
};
void command_queue_add(struct command_queue *queue, const struct queued_command *command);

// Waits up to this long for all commands; returns whether they are done.
bool command_queue_wait(struct command_queue *queue, double seconds);
// Like command_queue_wait, then ends the thread. Queued commands are dropped; one that is still running is left
// running. NULL is fine.
void command_queue_close(struct command_queue *queue, double seconds);

#endif
