// Simulation of many ranks that queue at one place: rank 0 of a star, or the metadata server of a file system. The
// place serves requests in the order in which they arrive, and a rank sends its next request when the last one is
// answered. The end of each thus depends on all others, and superlinear growth shows by itself.
#ifndef PLAN_RANK_QUEUE_H
#define PLAN_RANK_QUEUE_H

#include <stdbool.h>

struct rank_queue {
    double service;  // seconds that the place spends on a request
    double delay;    // seconds until an answer arrives, in which the place serves others
    double burst;    // requests of a rank that are served in one event, to save events; at least 1
    double served;   // requests so far
};

// A rank's next action, called at the start and when all its requests are answered: sends `requests` from `time` on.
// False if it is done.
typedef bool rank_queue_next(void *context, int rank, double *time, double *requests);
// Runs all ranks from time 0 on. Returns when the last one is done or, with `stops_at_first`, the first.
double rank_queue_run(struct rank_queue *place, int ranks, rank_queue_next *next, void *context, bool stops_at_first);

#endif
