// The ring of spans. Slot n % capacity holds span n; spans [taken, added) are there, with added - taken <= capacity.
#include "base/trace.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    struct trace_event *ring;  // (capacity)
    size_t capacity;
    uint64_t added, taken;
    int64_t lost;
    _Atomic int64_t iteration;  // set without the lock
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_bool is_on;

bool trace_is_on(void) {
    return atomic_load_explicit(&is_on, memory_order_relaxed);
}

void trace_open(size_t capacity) {
    pthread_mutex_lock(&trace.lock);
    if (capacity > trace.capacity) {
        struct trace_event *ring = memory_alloc(capacity * sizeof *ring);
        for (uint64_t n = trace.taken; n < trace.added; n++)
            ring[n % capacity] = trace.ring[n % trace.capacity];
        free(trace.ring);
        trace.ring = ring;
        trace.capacity = capacity;
    }
    pthread_mutex_unlock(&trace.lock);
    atomic_store(&is_on, true);
}

void trace_pause(void) {
    atomic_store(&is_on, false);
}

void trace_close(void) {
    trace_pause();
    pthread_mutex_lock(&trace.lock);
    free(trace.ring);
    trace.ring = NULL;
    trace.capacity = 0;
    trace.added = trace.taken = 0;
    trace.lost = 0;
    pthread_mutex_unlock(&trace.lock);
}

void trace_set_iteration(int64_t iteration) {
    atomic_store(&trace.iteration, iteration);
}

void trace_add(const struct trace_event *event) {
    pthread_mutex_lock(&trace.lock);
    // Another thread may have found the trace on before it was closed.
    if (trace.capacity > 0) {
        if (trace.added - trace.taken == trace.capacity) {
            trace.taken++;
            trace.lost++;
        }
        struct trace_event *slot = &trace.ring[trace.added++ % trace.capacity];
        *slot = *event;
        slot->iteration = trace.iteration;
    }
    pthread_mutex_unlock(&trace.lock);
}

bool trace_take(struct trace_event *event, int64_t last) {
    pthread_mutex_lock(&trace.lock);
    bool is_there = trace.taken < trace.added && trace.ring[trace.taken % trace.capacity].iteration <= last;
    if (is_there)
        *event = trace.ring[trace.taken++ % trace.capacity];
    // An empty ring starts again with slots that are in the caches.
    if (trace.taken == trace.added)
        trace.added = trace.taken = 0;
    pthread_mutex_unlock(&trace.lock);
    return is_there;
}

int64_t trace_take_lost(void) {
    pthread_mutex_lock(&trace.lock);
    int64_t lost = trace.lost;
    trace.lost = 0;
    pthread_mutex_unlock(&trace.lock);
    return lost;
}
