// The plan of a run that is about to start, for train/plan_comparison.h: its machine, and the planner's expectations
// there.
#ifndef CLI_PLANNER_H
#define CLI_PLANNER_H

#include "cluster/machine.h"
#include "train/plan_comparison.h"

// The machine of a run.
struct run_machine {
    const struct machine *named;  // by --machine, or by the firmware of the machine itself; NULL if neither is known
    int local_ranks;              // on this machine
};

// The machine named by the firmware, e.g. EC2's; NULL if it names no known one.
const struct machine *planner_own_machine(void);
// A machine with this many GPUs of one kind, by a device's description ("GPU 0: NVIDIA H200, 140 GiB, …"); false if
// unknown. Its network is not known.
bool planner_machine_of(const char *description, int ranks, struct machine *found);
// `machine` must outlive the planner.
struct planner planner_open(const struct run_machine *machine);

#endif
