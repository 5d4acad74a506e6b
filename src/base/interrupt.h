// Signals that ask a command to stop. A signal only sets a flag; long-running code checks it and returns an error, so
// that temporary files are cleaned up as always. file_write checks by itself. SIGINT or SIGTERM after one of these two
// ends the process at once. SIGHUP may arrive repeatedly, and so may SIGUSR1, a scheduler's warning that time is nearly
// up, which leads to an exit code that asks for another run.
//
// Work that must be finished once it has begun, such as training with its checkpoints, calls interrupt_defer first:
// then nothing fails because of a signal, and the loop checks for it between two steps.
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <stdint.h>

// From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 set the flag, except those that the process was started to ignore
// (nohup).
// Those that were blocked at the start are not from here on.
void interrupt_watch(void);
// 0, or -1 with a message and EXIT_CODE_STOPPED if one of them has arrived.
int interrupt_check(void);
// From now on interrupt_check ignores signals, and interrupt_end leaves the exit code as it is.
void interrupt_defer(void);
// The signal that arrived last, whether deferred or not; 0 for none.
int interrupt_received(void);
// What the first SIGINT or SIGTERM is answered with as soon as it comes: a line on stderr made of `doing`, a number
// unless it is negative, and `next`: "finishing iteration ", 12, ", then saving". Ctrl-C is also told what pressing it
// again does: `again`, "quit without saving". The texts must live as long as the process. NULL as `doing`: no answer.
void interrupt_answer(const char *doing, int64_t number, const char *next, const char *again);
// From now on what is drawn at the bottom of the terminal (log_status, log_view) is cleared before a signal from there
// ends the process, where nothing else is done about that signal.
void interrupt_clear_screen(void);
// "SIGTERM" and so on, for those above.
const char *interrupt_name(int number);
// To be called last, with the program's exit code. A command that failed because of a signal dies of that signal, as
// shells and schedulers expect. Otherwise returns the exit code to use: EXIT_CODE_STOPPED after SIGUSR1, or the given
// one if there was no signal or the command was done before it noticed.
int interrupt_end(int exit_code);

#endif
