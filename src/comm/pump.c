// The thread behind transfers that nobody waits for. See pump.h.
#include "comm/pump.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"

#include <stdlib.h>
#include <time.h>

// A transfer through shared memory needs many calls one after the other, one through a network now and then one. The
// pump calls for a while and sleeps longer than that, so that it never takes more than a third of a core.
static const double POLL_SECONDS = 50e-6;
static const long NAP_NANOSECONDS = 100000;

struct pump {
    bool (*poll)(void *context);
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    pthread_t thread;
    bool has_thread, is_shared, is_awake, is_ending;
};

struct pump *pump_new(bool (*poll)(void *context), void *context) {
    struct pump *pump = memory_alloc(sizeof *pump);
    pump->poll = poll;
    pump->context = context;
    CHECK(pthread_mutex_init(&pump->lock, NULL) == 0 && pthread_cond_init(&pump->woken, NULL) == 0);
    return pump;
}

void pump_lock(struct pump *pump) {
    if (pump->is_shared || pump->has_thread)
        pthread_mutex_lock(&pump->lock);
}

void pump_unlock(struct pump *pump) {
    if (pump->is_shared || pump->has_thread)
        pthread_mutex_unlock(&pump->lock);
}

void pump_share(struct pump *pump, bool is_shared) {
    pump->is_shared = is_shared;
}

static void *run(void *argument) {
    struct pump *pump = argument;
    pthread_mutex_lock(&pump->lock);
    while (!pump->is_ending) {
        if (!pump->is_awake) {
            pthread_cond_wait(&pump->woken, &pump->lock);
            continue;
        }
        double end = clock_seconds() + POLL_SECONDS;
        do
            pump->is_awake = pump->poll(pump->context);
        while (pump->is_awake && clock_seconds() < end);
        pthread_mutex_unlock(&pump->lock);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NANOSECONDS}, NULL);
        pthread_mutex_lock(&pump->lock);
    }
    pthread_mutex_unlock(&pump->lock);
    return NULL;
}

void pump_start(struct pump *pump) {
    // Without a thread transfers go on when they are waited for, which is slower and just as right.
    if (!pump->has_thread)
        pump->has_thread = thread_start(&pump->thread, run, pump);
}

void pump_wake(struct pump *pump) {
    if (!pump->is_awake) {
        pump->is_awake = true;
        pthread_cond_signal(&pump->woken);
    }
}

void pump_free(struct pump *pump) {
    if (!pump)
        return;
    pump_lock(pump);
    pump->is_ending = true;
    pthread_cond_signal(&pump->woken);
    pump_unlock(pump);
    if (pump->has_thread)
        pthread_join(pump->thread, NULL);
    pthread_cond_destroy(&pump->woken);
    pthread_mutex_destroy(&pump->lock);
    free(pump);
}
