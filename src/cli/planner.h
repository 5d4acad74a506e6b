// The plan of a run that is about to start, for train/planned.h: on which machine it is, and what the planner expects
// there.
#ifndef CLI_PLANNER_H
#define CLI_PLANNER_H

#include "cluster/machine.h"
#include "train/planned.h"

// The machine that a run is on.
struct run_machine {
    const struct machine *named;  // by --machine, or by the firmware of the machine itself; NULL if neither is known
    int local_ranks;              // on this machine
};

// The machine that the firmware names, as EC2's does; NULL if it names none that is known.
const struct machine *planner_own_machine(void);
// A machine with this many GPUs of one kind, by how a device describes itself ("GPU 0: NVIDIA H200, 140 GiB, …"); false
// if that is not known. Its network is not.
bool planner_machine_of(const char *description, int ranks, struct machine *found);
// `machine` must stay as long as the planner.
struct planner planner_open(const struct run_machine *machine);

#endif
