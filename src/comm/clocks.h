// The differences between the clocks of ranks, so that times of several machines can be put side by side. They are
// found by a few exchanges of host values: in each, no rank leaves before all have entered, so every rank reads its
// clock before entering earlier than any other rank reads it after leaving. Each exchange bounds a difference from both
// sides, and the middle between the best bounds is the answer.
#ifndef COMM_CLOCKS_H
#define COMM_CLOCKS_H

#include "comm/comm.h"

struct clock_offset {
    double seconds;  // this rank's clock minus that of the group's first rank
    double error;    // it is off by at most this
};

// A clock of this rank. Clocks with the same identity are one clock, whatever machine they are read on.
struct rank_clock {
    double (*read)(void);  // seconds
    int64_t identity[2];
};
struct rank_clock clocks_own(void);  // clock_seconds
// All ranks of the group call.
struct clock_offset clocks_compare(struct group *group, const struct rank_clock *clock);

// One exchange as two ranks saw it: each looked before it entered and after it left.
struct clock_round {
    int64_t before, after;              // this rank's, in nanoseconds
    int64_t first_before, first_after;  // the first rank's
};
struct clock_offset clocks_solve(const struct clock_round *rounds, int count);

#endif
