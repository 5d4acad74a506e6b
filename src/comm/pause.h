// How a rank pauses between two looks at an incomplete collective.
//
//  - A rank with a processor to itself yields, which is the fastest way to learn of the end.
//  - A yield gives the processor to another program for a whole slice of time, milliseconds, if one is ready to run; a
//    rank that sleeps gets it back within about 100 µs of its own accord. So after a yield that took long, ranks sleep.
//  - If the ranks of the machine have more threads than processors, long waits sleep in any case: the ranks that
//    compute need the processor.
//  - Otherwise only very long waits sleep, to save power, and briefly.
//
// A sleep is bounded by a share of the wait so far, so the end is noticed late by at most that share. If ranks
// outnumber processors, the wait starts over after a look that moved data: a collective takes many such looks.
#ifndef COMM_PAUSE_H
#define COMM_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

// Facts about the machine, kept between waits.
struct pause_manner {
    bool is_crowded;      // the ranks of this machine have more threads than processors
    double busy_until;    // another program had the processor a moment ago
    double busy_seconds;  // length of the last busy interval
    struct clock *clock;  // see base/clock.h
};

// One wait; zeroed when it begins.
struct pause {
    int64_t looks;
    double began;    // when it first yielded or slept, or last moved data
    double resumed;  // when it last returned to the caller; 0: not yet
};
// After a look that found nothing. `most` bounds a sleep, for waits whose end is known; HUGE_VAL if it is not.
void pause_after_look(struct pause *pause, struct pause_manner *manner, double most);

#endif
