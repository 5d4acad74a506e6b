// How fast GPUs and the links between them are: what long operations reach, one set of constants for each kind of GPU.
#ifndef PLAN_HARDWARE_H
#define PLAN_HARDWARE_H

#include "cluster/machine.h"
#include "comm/comm.h"
#include "ops/device.h"

struct hardware {
    const char *gpu;  // as in struct machine
    double peak[2];   // FLOP/s in 16 and 8 bits without sparsity, as the vendor states them: the MFU's measure
    struct device_rates rates;
    struct comm_path link;  // between GPUs of a machine
};

// NULL, after error_set, if nothing is known about GPUs of this kind.
const struct hardware *hardware_find(const char *gpu);
// What connects the GPUs of machines of this kind.
struct comm_fabric hardware_fabric(const struct hardware *hardware, const struct machine *machine);

#endif
