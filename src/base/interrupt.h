// Signals that ask a command to stop: the signal only sets a flag; whoever works for long asks for it and returns an
// error, so that temporary files go the way they always do. file_write asks by itself. A second SIGINT or SIGTERM ends
// the process at once. SIGUSR1 is a scheduler's warning that time is nearly up: it does the same, may come again, and
// leads to an exit code that asks for another run.
//
// What must be finished once it has begun, training with its checkpoints, calls interrupt_defer first: then nothing
// fails because of a signal, and the loop asks for it between two steps.
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

// From here on SIGINT, SIGTERM, SIGHUP and SIGUSR1 set the flag, except those that the process was started to ignore
// (nohup).
void interrupt_watch(void);
// 0, or -1 with a message and EXIT_CODE_STOPPED where one of them has come.
int interrupt_check(void);
// From here on interrupt_check knows of no signal, and interrupt_end leaves the exit code as it is.
void interrupt_defer(void);
// The signal that has come last, whether deferred or not; 0 for none.
int interrupt_received(void);
// "SIGTERM", of those above.
const char *interrupt_name(int number);
// To be called last, with the program's exit code: a command that failed because of a signal dies of that signal, as
// shells and schedulers expect. Otherwise returns the code to leave with: EXIT_CODE_STOPPED after SIGUSR1, and the one
// given where there was no signal or the command was done before it noticed.
int interrupt_end(int exit_code);

#endif
