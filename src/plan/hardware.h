// How fast GPUs and the links between them are: what long operations reach, one set of constants for each kind of GPU.
// cluster/machine.h knows what is in a machine.
#ifndef PLAN_HARDWARE_H
#define PLAN_HARDWARE_H

#include "cluster/machine.h"
#include "comm/comm.h"
#include "ops/device.h"

struct hardware {
    const char *gpu;  // as in struct machine; "CPU" without GPUs
    int gib;          // if GPUs of this name differ in their memory; 0 for any
    double peak[3];   // FLOP/s in 16, 8 and 4 bits without sparsity, as the vendor states them: the MFU's measure
    struct device_rates rates;
    struct comm_path link;     // between GPUs that it joins
    struct comm_path network;  // between machines, the part of one rank
    double exchange;           // bytes/s of a rank's all-to-all between machines; 0: as the network's
    const char *source;        // of the constants
};

// -1, after error_set, if nothing is known about GPUs of this kind.
int hardware_of(struct hardware *hardware, const struct machine *machine);
// Ranks of a machine: one for each GPU, or one.
int hardware_ranks(const struct machine *machine);
// What connects this many ranks on machines of this kind.
struct comm_fabric hardware_fabric(const struct hardware *hardware, const struct machine *machine, int ranks);

#endif
