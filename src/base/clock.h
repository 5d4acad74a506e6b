// Time: a monotonic clock for durations, wall time for log lines.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

double clock_seconds(void);         // monotonic
double clock_tick_seconds(void);    // the same clock as of its last tick, at most milliseconds ago: a third of the cost
double clock_thread_seconds(void);  // for how long this thread has run
double clock_wall_seconds(void);    // since the epoch
// From now on the wall clock of this process is ahead by this much more: an injected fault, see fault.h.
void clock_shift_wall(double seconds);
void clock_sleep(double seconds);
// "2026-01-02 03:04:05.678901" in local time; at least 27 bytes.
void clock_format(double wall_seconds, char *text, size_t size);

#endif
