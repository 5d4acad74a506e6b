// Signals as a queue, for a process that waits for others and forwards signals to them. A handler appends, on any
// thread (libraries start some before main and leave every signal unblocked there), and the caller takes them one by
// one when it is ready: none is lost or merged with another.
#ifndef BASE_SIGNAL_QUEUE_H
#define BASE_SIGNAL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Installs the queue's handlers for these signals and SIGCHLD, and unblocks them; signals that the process was started
// to ignore (nohup) stay ignored. To be called once.
int signal_queue_open(const int *numbers, size_t count);
// The next signal; 0 if none arrives within that many seconds. A negative time means no limit.
int signal_queue_next(double seconds);
// Like fork. In the child the signals of the queue have their default action; `is_held` blocks them until the program
// that it becomes handles them (interrupt_watch, signal_queue_open).
pid_t signal_queue_fork(bool is_held);

#endif
