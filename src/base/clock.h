// Time: a monotonic clock for durations, wall time for log lines, and a clock as a value for code that waits.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

double clock_seconds(void);          // monotonic
double clock_tick_seconds(void);     // monotonic, as of the last tick, at most milliseconds ago: a third of the cost
double clock_thread_seconds(void);   // CPU time of this thread
double clock_process_seconds(void);  // CPU time of all threads of the process
double clock_wall_seconds(void);     // since the epoch
// Moves the wall clock of this process ahead by this much more: an injected fault, see fault.h.
void clock_shift_wall(double seconds);
void clock_sleep(double seconds);
// "2026-01-02 03:04:05.678901" in local time; at least 27 bytes.
void clock_format(double wall_seconds, char *text, size_t size);

// Clock of code that has deadlines or waits, given by its caller: NULL is the monotonic clock; a test has one that it
// moves itself (tests/moved_clock.h).
struct clock {
    double (*now)(struct clock *clock);
    void (*sleep)(struct clock *clock, double seconds);
    void (*wait)(struct clock *clock, pthread_cond_t *changed, pthread_mutex_t *lock, double until);
};
double clock_now(struct clock *clock);
void clock_pause(struct clock *clock, double seconds);
// Waits until the condition is signalled or `until` has come; returns whether `until` is still ahead. As with
// pthread_cond_wait the caller holds the lock and checks its condition again.
bool clock_wait(struct clock *clock, pthread_cond_t *changed, pthread_mutex_t *lock, double until);

#endif
