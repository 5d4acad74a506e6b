// Threads besides those that do the program's work.
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

// Creates a thread to which no signal is delivered; signals go to the threads created before. Returns false on failure.
bool thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
