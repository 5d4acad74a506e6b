// Signals as a queue, for a process that waits for others and passes on what it is sent. A handler appends, whichever
// thread it runs on (libraries start some before main and leave every signal open there), and the caller takes one
// after the other when it is ready for it: none is lost or merged with another.
#ifndef BASE_SIGNAL_QUEUE_H
#define BASE_SIGNAL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// From now on these signals and SIGCHLD are queued, and none of them is blocked; those that the process was started to
// ignore (nohup) stay ignored. To be called once.
int signal_queue_open(const int *numbers, size_t count);
// The next signal; 0 if none comes within that many seconds, which are without end if negative.
int signal_queue_next(double seconds);
// As fork. In the child the signals of the queue have their default meaning; `is_held` blocks them until the program
// that it becomes knows what to do with them (interrupt_watch, signal_queue_open).
pid_t signal_queue_fork(bool is_held);

#endif
