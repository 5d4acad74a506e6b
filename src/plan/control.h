// What ranks that meet over TCP say to each other besides tensors, by way of rank 0, and how long that takes it: at the
// start, at every log line and at every save. Tables with a row of each rank go to all of them, so their bytes grow
// with the square of the ranks; this is where it shows.
#ifndef PLAN_CONTROL_H
#define PLAN_CONTROL_H

#include "parallel/mesh.h"

enum control_phase {
    CONTROL_JOIN,       // all ranks connect to rank 0
    CONTROL_ADDRESSES,  // rank 0 tells all of them each other's addresses
    CONTROL_HOSTS,      // names of machines, devices
    CONTROL_GROUPS,     // ports of the groups' first ranks; then the groups join, all at the same time
    CONTROL_LOG,        // times of all ranks, at every log line
    CONTROL_SAVE,       // sizes and digests of the files, at every save
    CONTROL_PHASES
};

struct control_cost {
    double bytes;    // that rank 0 sends
    double seconds;  // that it works
};
extern const char *const control_names[CONTROL_PHASES];

// The mesh must be placed, but not connected.
void control_plan(const struct mesh *mesh, struct control_cost costs[CONTROL_PHASES]);
// Of the phases before the first iteration.
double control_start_seconds(const struct control_cost costs[CONTROL_PHASES]);

#endif
