// The thread that drives transfers that no call is waiting for, and the watch over collectives. See pump.h.
#include "comm/pump.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/interrupt.h"
#include "comm/backend.h"
#include "comm/hang.h"

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

// ---- the watch ----

enum { FIRST_CAPACITY = 256 };

struct watched {
    struct comm_request request;
    int64_t before;  // the last number in the flight record when the device was told to wait
};

struct watch {
    struct world *world;
    struct pump *pump;
    struct watched *ring;  // (capacity) oldest at `first`
    int64_t first, count, capacity;
    struct comm_request entered;  // the request that the host is starting; its group is NULL if there is none
    struct stopwatch stopwatch;   // of the current request
};

static struct watched *at(const struct watch *watch, int64_t i) {
    return &watch->ring[(watch->first + i) % watch->capacity];
}

// The request whose time counts: the oldest one, or a start if nothing is older; NULL if there is none.
static const struct comm_request *current(const struct watch *watch) {
    if (watch->count > 0)
        return &at(watch, 0)->request;
    return watch->entered.group ? &watch->entered : NULL;
}

// Drops completed requests, oldest first; returns whether any are left.
static bool look(void *context) {
    struct watch *watch = context;
    struct world *world = watch->world;
    while (watch->count > 0) {
        const struct comm_request *oldest = &at(watch, 0)->request;
        if (!oldest->collective->test(oldest->carrier, oldest->handle))
            break;
        record_end(&world->record, oldest->number, clock_seconds());
        watch->first = (watch->first + 1) % watch->capacity;
        watch->count--;
        stopwatch_reset(&watch->stopwatch, world);
    }
    if (current(watch))
        stopwatch_look(&watch->stopwatch, current(watch));
    return current(watch) != NULL;
}

struct watch *watch_new(struct world *world) {
    // A look takes the driver's lock, which kernel launches need too, so it is rare. A hang is still found soon enough.
    const struct pump_pace pace = {.poll_seconds = 0, .nap_seconds = 0.01, .clock = world->clock};
    struct watch *watch = memory_alloc(sizeof *watch);
    *watch = (struct watch){.world = world, .capacity = FIRST_CAPACITY, .pump = pump_new(look, watch, pace)};
    watch->ring = memory_alloc(sizeof *watch->ring * FIRST_CAPACITY);
    return watch;
}

void watch_free(struct watch *watch) {
    if (!watch)
        return;
    pump_free(watch->pump);
    free(watch->ring);
    free(watch);
}

// The device's own queue limits how far the host can be ahead of it, so this ends soon.
static void grow(struct watch *watch) {
    struct watched *ring = memory_alloc(sizeof *ring * 2 * (size_t)watch->capacity);
    for (int64_t i = 0; i < watch->count; i++)
        ring[i] = *at(watch, i);
    free(watch->ring);
    watch->ring = ring;
    watch->first = 0;
    watch->capacity *= 2;
}

bool watch_add(struct watch *watch, const struct comm_request *request) {
    if (!watch || !pump_start(watch->pump))
        return false;
    watch_lock(watch);
    if (watch->count == watch->capacity)
        grow(watch);
    if (!current(watch))
        stopwatch_reset(&watch->stopwatch, watch->world);
    *at(watch, watch->count++) = (struct watched){.request = *request, .before = watch->world->record.count};
    pump_wake(watch->pump);
    watch_unlock(watch);
    return true;
}

void watch_enter(struct watch *watch, const struct comm_request *request) {
    if (!watch || watch->world->patience > 0 || !pump_start(watch->pump))
        return;
    watch_lock(watch);
    if (!current(watch))
        stopwatch_reset(&watch->stopwatch, watch->world);
    watch->entered = *request;
    pump_wake(watch->pump);
    watch_unlock(watch);
}

void watch_leave(struct watch *watch) {
    if (!watch)
        return;
    watch_lock(watch);
    if (current(watch) == &watch->entered)
        stopwatch_reset(&watch->stopwatch, watch->world);
    watch->entered.group = NULL;
    watch_unlock(watch);
}

// The device has not reached collectives begun after it was told to wait for the oldest one, nor those begun after the
// oldest one in the same group.
int64_t watch_begun(const struct watch *watch, const struct group *group) {
    int64_t begun = group->collectives;
    for (int64_t i = 1; watch && i < watch->count; i++) {
        const struct comm_request *later = &at(watch, i)->request;
        bool is_behind = later->number > at(watch, 0)->before || group == at(watch, 0)->request.group;
        if (later->group == group && later->sequence > 0 && later->sequence <= begun && is_behind)
            begun = later->sequence - 1;
    }
    return begun;
}

void watch_settle(struct watch *watch) {
    for (bool is_done = !watch; !is_done;) {
        watch_lock(watch);
        is_done = !look(watch);
        watch_unlock(watch);
        if (!is_done)
            clock_sleep(1e-3);  // also where a test has the clock: the end is real
    }
}

void watch_lock(struct watch *watch) {
    if (watch)
        pump_lock(watch->pump);
}

void watch_unlock(struct watch *watch) {
    if (watch)
        pump_unlock(watch->pump);
}
