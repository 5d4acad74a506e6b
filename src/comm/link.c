// The time a slower link would take. See link.h.
#include "comm/link.h"

double link_carry(struct link *link, enum collective_kind kind, size_t bytes, int ranks, double now) {
    if (link->bytes_per_second <= 0)
        return 0;
    double ring = (double)(ranks - 1) / ranks, share = 1;
    if (kind == COLLECTIVE_ALL_REDUCE)
        share = 2 * ring;
    else if (kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_ALL_TO_ALL)
        share = ring;
    double start = link->free_at > now ? link->free_at : now;
    link->free_at = start + link->latency_seconds + share * (double)bytes / link->bytes_per_second;
    return link->free_at;
}
