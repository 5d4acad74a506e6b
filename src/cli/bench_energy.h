// What a GPU has used up since its driver started, by the driver's own counter. The library that tells (NVML) comes
// with the driver and not with the toolkit, so it is looked for when the program runs; without it, or on a GPU without
// such a counter, there is no figure. The counter moves every tenth of a second or so: measure over some seconds.
#ifndef CLI_BENCH_ENERGY_H
#define CLI_BENCH_ENERGY_H

#include "ops/device.h"

struct energy {
    void *gpu;
};

// Of the GPU that `device` is, whatever its number among those of the machine. The library stays open until the program
// ends.
int energy_open(struct energy *energy, struct device *device);
double energy_joules(const struct energy *energy);  // only differences mean something

#endif
