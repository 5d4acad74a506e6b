// The thread that drives transfers that no call is waiting for. See pump.h.
#include "comm/pump.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"

#include <stdlib.h>

struct pump {
    bool (*poll)(void *context);
    void *context;
    struct pump_pace pace;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool is_awake, is_ending;  // with the lock
    pthread_t thread;
    bool has_thread, is_shared;  // the owner's; apart from the others, so that a compiler reads them apart
};

struct pump *pump_new(bool (*poll)(void *context), void *context, struct pump_pace pace) {
    struct pump *pump = memory_alloc(sizeof *pump);
    pump->poll = poll;
    pump->context = context;
    pump->pace = pace;
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

static void *run_pump(void *argument) {
    struct pump *pump = argument;
    pthread_mutex_lock(&pump->lock);
    while (!pump->is_ending) {
        if (!pump->is_awake) {
            pthread_cond_wait(&pump->woken, &pump->lock);
            continue;
        }
        double end = clock_now(pump->pace.clock) + pump->pace.poll_seconds;
        do
            pump->is_awake = pump->poll(pump->context);
        while (pump->is_awake && clock_now(pump->pace.clock) < end);
        pthread_mutex_unlock(&pump->lock);
        clock_pause(pump->pace.clock, pump->pace.nap_seconds);
        pthread_mutex_lock(&pump->lock);
    }
    pthread_mutex_unlock(&pump->lock);
    return NULL;
}

bool pump_start(struct pump *pump) {
    // Without a thread, transfers make progress when they are waited for, which is slower but just as correct.
    if (!pump->has_thread)
        pump->has_thread = thread_start(&pump->thread, run_pump, pump);
    return pump->has_thread;
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
