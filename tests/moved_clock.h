// A clock that a test moves itself (base/clock.h), so that hours pass in no time and a busy machine changes nothing.
// Code that sleeps or waits on it stands still until moved_clock_move has brought the moment, or, if the clock runs
// freely, moves it to that moment and goes on.
#ifndef TESTS_MOVED_CLOCK_H
#define TESTS_MOVED_CLOCK_H

#include "base/clock.h"

#include <stdlib.h>

enum { MOVED_CLOCK_MOST = 8 };

struct moved_clock {
    struct clock clock;  // what the code gets
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_free;
    double now;
    double step;  // passes at every reading
    int sleeps;   // so far
    // Who waits, and until when; `changed` is NULL where nobody does.
    struct moved_waiter {
        pthread_cond_t *changed;
        pthread_mutex_t *lock;
        double until;
    } waiters[MOVED_CLOCK_MOST];
};

static inline double moved_clock_now(struct clock *clock) {
    struct moved_clock *moved = (struct moved_clock *)clock;
    pthread_mutex_lock(&moved->lock);
    double now = moved->now += moved->step;
    pthread_mutex_unlock(&moved->lock);
    return now;
}

// Takes a place among those who wait. Under the clock's lock.
static inline struct moved_waiter *moved_clock_enter(struct moved_clock *moved, struct moved_waiter waiter) {
    for (int i = 0; i < MOVED_CLOCK_MOST; i++)
        if (!moved->waiters[i].changed) {
            moved->waiters[i] = waiter;
            pthread_cond_broadcast(&moved->changed);
            return &moved->waiters[i];
        }
    abort();
}

static inline void moved_clock_sleep(struct clock *clock, double seconds) {
    struct moved_clock *moved = (struct moved_clock *)clock;
    const double least = 1e-9;  // a shorter sleep would not move the clock, which a real one always does
    if (!(seconds > 0))
        return;
    pthread_mutex_lock(&moved->lock);
    double until = moved->now + (seconds > least ? seconds : least);
    moved->sleeps++;
    struct moved_waiter *own =
        moved_clock_enter(moved, (struct moved_waiter){.changed = &moved->changed, .until = until});
    while (!moved->is_free && moved->now < until)
        pthread_cond_wait(&moved->changed, &moved->lock);
    *own = (struct moved_waiter){0};
    moved->now = moved->now < until ? until : moved->now;
    pthread_mutex_unlock(&moved->lock);
}

// The caller's lock is held here as it is by whoever signals, so nothing is missed between the look at the clock and
// the wait: moved_clock_move takes that lock, too.
static inline void moved_clock_wait(struct clock *clock, pthread_cond_t *changed, pthread_mutex_t *lock, double until) {
    struct moved_clock *moved = (struct moved_clock *)clock;
    pthread_mutex_lock(&moved->lock);
    bool waits = !moved->is_free && moved->now < until;
    struct moved_waiter *own = NULL;
    if (waits)
        own = moved_clock_enter(moved, (struct moved_waiter){.changed = changed, .lock = lock, .until = until});
    else if (moved->now < until)
        moved->now = until;
    pthread_mutex_unlock(&moved->lock);
    if (waits) {
        pthread_cond_wait(changed, lock);
        pthread_mutex_lock(&moved->lock);
        *own = (struct moved_waiter){0};
        pthread_mutex_unlock(&moved->lock);
    } else {
        pthread_mutex_unlock(lock);
        pthread_mutex_lock(lock);
    }
}

static inline void moved_clock_open(struct moved_clock *moved, bool is_free) {
    *moved = (struct moved_clock){
        .clock = {.now = moved_clock_now, .sleep = moved_clock_sleep, .wait = moved_clock_wait}, .is_free = is_free};
    pthread_mutex_init(&moved->lock, NULL);
    pthread_cond_init(&moved->changed, NULL);
}

// Wakes all who wait; they look at the clock again.
static inline void moved_clock_wake(struct moved_clock *moved) {
    for (int i = 0; i < MOVED_CLOCK_MOST; i++) {
        pthread_mutex_lock(&moved->lock);
        struct moved_waiter waiter = moved->waiters[i];
        pthread_cond_broadcast(&moved->changed);
        pthread_mutex_unlock(&moved->lock);
        if (!waiter.lock)
            continue;
        pthread_mutex_lock(waiter.lock);
        pthread_cond_broadcast(waiter.changed);
        pthread_mutex_unlock(waiter.lock);
    }
}

static inline void moved_clock_move(struct moved_clock *moved, double seconds) {
    pthread_mutex_lock(&moved->lock);
    moved->now += seconds;
    pthread_mutex_unlock(&moved->lock);
    moved_clock_wake(moved);
}

// From now on the clock runs freely.
static inline void moved_clock_release(struct moved_clock *moved) {
    pthread_mutex_lock(&moved->lock);
    moved->is_free = true;
    pthread_mutex_unlock(&moved->lock);
    moved_clock_wake(moved);
}

static inline void moved_clock_set_step(struct moved_clock *moved, double seconds) {
    pthread_mutex_lock(&moved->lock);
    moved->step = seconds;
    pthread_mutex_unlock(&moved->lock);
}

// Until this many threads wait for a moment that is still to come: each of them has done all that is due by now.
static inline void moved_clock_await(struct moved_clock *moved, int count) {
    pthread_mutex_lock(&moved->lock);
    for (int waiting = -1; waiting < count;) {
        if (waiting >= 0)
            pthread_cond_wait(&moved->changed, &moved->lock);
        waiting = 0;
        for (int i = 0; i < MOVED_CLOCK_MOST; i++)
            waiting += moved->waiters[i].changed && moved->waiters[i].until > moved->now;
    }
    pthread_mutex_unlock(&moved->lock);
}

#endif
