// Threads beside those that do the program's work.
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

// Creates a thread to which no signal is delivered; signals go to the threads that were there before. Returns false if
// it cannot be created.
bool thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
