// A link that is slower than the real one, for tests and for rehearsing a cluster on one machine: collectives complete
// no sooner than a link of this bandwidth and latency would have carried them, one after the other. The data travels as
// usual; only completion is delayed.
#ifndef COMM_LINK_H
#define COMM_LINK_H

#include "comm/record.h"

#include <stddef.h>

struct link {
    double bytes_per_second;  // 0: the real link
    double latency_seconds;   // per collective
    double free_at;           // when all requests so far have been carried
};

// When a collective that starts now completes; 0 on the real link. `bytes` counts the larger side. A ring of `ranks`
// carries twice (ranks - 1) / ranks of them for a sum, once for a gather, a scatter or an all-to-all.
double link_carry(struct link *link, enum collective_kind kind, size_t bytes, int ranks, double now);

#endif
