// Signals that ask a command to stop. A signal only sets a flag; long-running code checks it and returns an error, so
// that temporary files are cleaned up as always. file_write checks by itself. SIGINT or SIGTERM after one of these two
// ends the process at once. SIGHUP may arrive repeatedly, and so may SIGUSR1, a scheduler's warning that time is nearly
// up, which leads to an exit code that asks for another run.
//
// Work that must be finished once it has begun, such as training with its checkpoints, calls interrupt_defer first:
// then nothing fails because of a signal, and the loop checks for it between two steps.
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Installs handlers: SIGINT, SIGTERM, SIGHUP and SIGUSR1 set the flag, except those that the process was started to
// ignore (nohup). Signals that were blocked at the start are unblocked.
void interrupt_watch(void);
// 0, or -1 with a message and EXIT_CODE_STOPPED if one of them has arrived.
int interrupt_check(void);
// Makes interrupt_check ignore signals, and interrupt_end leave the exit code as it is.
void interrupt_defer(void);
// The last signal that arrived, whether deferred or not; 0 for none.
int interrupt_received(void);
// The immediate answer to the first SIGINT or SIGTERM: a line on stderr made of `doing`, a number unless it is
// negative, and `next`: "finishing iteration ", 12, ", then saving". For Ctrl-C, `again` says what a second one does:
// "quit without saving". The texts must live as long as the process. NULL as `doing`: no answer.
void interrupt_answer(const char *doing, int64_t number, const char *next, const char *again);
// Makes SIGINT, SIGTERM and SIGQUIT clear the lines at the bottom of the terminal (log_status, log_view) before they
// end the process, where they have no other handler.
void interrupt_clear_screen(void);
// The name of one of the signals above, e.g. "SIGTERM".
const char *interrupt_name(int number);
// To be called last, with the program's exit code. A command that failed because of a signal is ended by that signal,
// as shells and schedulers expect. Otherwise returns the exit code to use: EXIT_CODE_STOPPED after SIGUSR1, or the
// given one if there was no signal or the command finished before it noticed.
int interrupt_end(int exit_code);

// Signals as a queue, for a process that waits for others and forwards signals to them. A handler appends, on any
// thread (libraries start some before main and leave every signal unblocked there), and the caller takes them one by
// one when it is ready: none is lost or merged with another.

// Installs the queue's handlers for these signals and SIGCHLD, and unblocks them; signals that the process was started
// to ignore (nohup) stay ignored. To be called once.
int signal_queue_open(const int *numbers, size_t count);
// The next signal; 0 if none arrives within that many seconds. A negative time means no limit.
int signal_queue_next(double seconds);
// Like fork. In the child the signals of the queue have their default action; `is_held` blocks them until the program
// that it becomes handles them (interrupt_watch, signal_queue_open).
pid_t signal_queue_fork(bool is_held);

// Creates a thread to which no signal is delivered; signals go to the threads created before. Returns false on failure.
bool thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
