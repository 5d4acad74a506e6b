// Finds the rank that holds up the others, and why. All ranks of a synchronous step take equally long; the rank that
// the others wait for waits least. Ranks are therefore compared by their own time: the step minus their waits.
#ifndef RECOVERY_STRAGGLERS_H
#define RECOVERY_STRAGGLERS_H

#include "base/buffer.h"
#include "comm/comm.h"
#include <stdbool.h>

// Seconds per step of one rank.
struct rank_times {
    double step;
    double wait;   // for other ranks
    double data;   // for micro-batches
    double stall;  // in which the host should have worked and did not: not scheduled, stopped, or late to launch
    int stage;     // of the pipeline: ranks of one stage have the same work
    double clock;  // of its GPU, in MHz; 0 if it is not known
};

enum straggler_cause { CAUSE_DATA, CAUSE_COMPUTE, CAUSE_LINK, CAUSE_HOST, CAUSE_CLOCK };
struct straggler {
    int rank;  // -1: none stands out
    enum straggler_cause cause;
    double late;           // seconds per step by which its own time exceeds that of its peers
    double share;          // of the step
    double theirs, peers;  // what the cause is measured by, of this rank and of its peers: seconds per step, or MHz
};

// A rank stands out if it is late by at least a tenth of the step, compared with the median of its peers: the ranks of
// its stage, or all if it is alone there. With one rank there is none.
struct straggler stragglers_find(const struct rank_times *ranks, int count);
// Sorts the values and returns the one at an index.
double stragglers_value_at(double *values, int count, int index);
const char *straggler_cause_name(enum straggler_cause cause);
// One sentence with the rank, its host, the cause and what to look at.
void straggler_describe(const struct straggler *straggler, const char *host, struct buffer *out);

// ---- slow links ----

// Measures the links between ranks, one pair at a time. A slow link makes all ranks wait equally, so their times do not
// show which of them has it. The probe sends a message back and forth between neighbours in a ring: along hosts if
// there are several, so that links of one kind are compared. A rank both of whose links are slow is named; with fewer
// than three ranks in a ring that cannot be told.

// All ranks of the group call. links[i], of (size), is the time in seconds of a message from rank i to the next in its
// ring; *stride is the distance of the two. -1, with an error, if this rank has no memory for it: then on all ranks.
int link_probe_measure(struct group *all, struct device *device, double *links, int *stride);
// A rank whose two links both take at least twice as long as a sound one; rank -1 if there is none. late, theirs and
// peers are seconds per message.
struct straggler link_probe_find(const double *links, int count, int stride);

#endif
