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

static _Atomic double wall_shift;

double clock_wall_seconds(void) {
    return read_clock(CLOCK_REALTIME) + atomic_load_explicit(&wall_shift, memory_order_relaxed);
}

void clock_shift_wall(double seconds) {
    atomic_store(&wall_shift, atomic_load(&wall_shift) + seconds);
}

void clock_sleep(double seconds) {
    if (!(seconds > 0))
        return;
    double whole = floor(seconds);
    struct timespec left = {.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)};
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
