// Measures the links between ranks, one pair at a time. A slow link makes all ranks wait equally, so their times do not
// show which of them has it. The probe sends a message back and forth between neighbours in a ring: along hosts if
// there are several, so that links of one kind are compared. A rank both of whose links are slow is named; with fewer
// than three ranks in a ring that cannot be told.
#ifndef RECOVERY_LINK_PROBE_H
#define RECOVERY_LINK_PROBE_H

#include "comm/comm.h"
#include "recovery/stragglers.h"

// All ranks of the group call. links[i], of (size), is the time in seconds of a message from rank i to the next in its
// ring; *stride is the distance of the two. -1, with an error, if this rank has no memory for it: then on all ranks.
int link_probe_measure(struct group *all, struct device *device, double *links, int *stride);
// A rank whose two links both take at least twice as long as a sound one; rank -1 if there is none. late, theirs and
// peers are seconds per message.
struct straggler link_probe_find(const double *links, int count, int stride);

#endif
