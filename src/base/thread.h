// Threads of our own beside those that do the program's work.
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

// A thread that no signal is delivered to: those are for the threads that were there before. False where none can be
// had.
bool thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
