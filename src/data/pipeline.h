// Processes a stream of items with several threads and delivers results in the order of the stream. Each item passes
// through three functions: produce fills it with the next input, work computes, consume takes the result. produce and
// consume are called by one thread at a time and in order, so they need no locks and the outcome does not depend on the
// number of threads; work runs on many items at once. Items are reused, which bounds memory.
//
// The error that stops the stream is the first in stream order: everything before it has been consumed. A signal
// (base/interrupt.h) is such an error.
#ifndef DATA_PIPELINE_H
#define DATA_PIPELINE_H

#include <stddef.h>

struct pipeline {
    int threads;        // at least 1; the caller is one of them
    int items;          // that are in progress at a time; 0 for twice the threads, which keeps all of them busy
    size_t item_bytes;  // of an item, which is zeroed at first
    void *context;      // passed to the functions
    int (*produce)(void *context, void *item);           // 1, 0 at the end of the stream, -1 on error
    int (*work)(void *context, void *item, int thread);  // thread in [0, threads)
    int (*consume)(void *context, void *item);
    void (*free_item)(void *item);  // frees what an item points to; NULL if nothing
};

int pipeline_run(const struct pipeline *pipeline);

// Calls part(context, thread) on `threads` threads, of which the caller is number 0, and waits for all. Continues with
// fewer, after a warning, if not all can be started.
void pipeline_share(int threads, void (*part)(void *context, int thread), void *context);

#endif
