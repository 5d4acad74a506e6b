// Time from the kernel's monotonic and wall clocks.
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static double read_clock(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_seconds(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double clock_tick_seconds(void) {
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

double clock_thread_seconds(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double clock_process_seconds(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static _Atomic double wall_shift;

double clock_wall_seconds(void) {
    return read_clock(CLOCK_REALTIME) + atomic_load_explicit(&wall_shift, memory_order_relaxed);
}

void clock_shift_wall(double seconds) {
    atomic_store(&wall_shift, atomic_load(&wall_shift) + seconds);
}

static struct timespec split(double seconds) {
    double whole = floor(seconds);
    return (struct timespec){.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)};
}

void clock_sleep(double seconds) {
    if (!(seconds > 0))
        return;
    struct timespec left = split(seconds);
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

void clock_format(double wall_seconds, char *text, size_t size) {
    double whole = floor(wall_seconds);
    int microseconds = (int)((wall_seconds - whole) * 1e6);
    time_t seconds = (time_t)whole;
    struct tm parts;
    char date[32];
    if (!localtime_r(&seconds, &parts) || strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        snprintf(date, sizeof date, "0000-00-00 00:00:00");
    snprintf(text, size, "%s.%06d", date, microseconds);
}

double clock_now(struct clock *clock) {
    return clock ? clock->now(clock) : clock_seconds();
}

void clock_pause(struct clock *clock, double seconds) {
    if (clock)
        clock->sleep(clock, seconds);
    else
        clock_sleep(seconds);
}

bool clock_wait(struct clock *clock, pthread_cond_t *changed, pthread_mutex_t *lock, double until) {
    struct timespec moment = split(until);
    if (clock)
        clock->wait(clock, changed, lock, until);
    else
        (void)pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &moment);
    return clock_now(clock) < until;
}
