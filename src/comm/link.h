// A link that is slower than the real one, for tests and for rehearsing a cluster on one machine: collectives are
// complete no sooner than a link of this bandwidth and latency would have carried them, one after the other. The data
// travels as always; only the clock is held back.
#ifndef COMM_LINK_H
#define COMM_LINK_H

#include "comm/record.h"

#include <stddef.h>

struct link {
    double bytes_per_second;  // 0: no such link
    double latency_seconds;   // of every collective
    double free_at;           // when what was asked for so far is through
};

// When a collective that starts now is through, 0 where there is no such link. `bytes` are of the larger side; a ring
// of `ranks` carries twice (ranks - 1) / ranks of them for a sum, once for a gather or a scatter.
double link_carry(struct link *link, enum collective_kind kind, size_t bytes, int ranks, double now);

#endif
