// What a GPU's driver measures: the energy it has used since the driver started, and its clock. The library that tells
// (NVML) comes with the driver and not with the toolkit, so it is looked for when the program runs; without it there is
// no figure. The energy counter moves every tenth of a second or so: measure over some seconds.
#ifndef OPS_SENSORS_H
#define OPS_SENSORS_H

#include "ops/device.h"

struct sensors {
    void *gpu;
};

// Of the GPU that `device` is, whatever its number among those of the machine. The library stays open until the program
// ends. Fails on a device without sensors.
int sensors_open(struct sensors *sensors, struct device *device);
// Fails if the GPU has no counter. Only differences mean something.
int sensors_joules(const struct sensors *sensors, double *joules);
// The clock of its multiprocessors at this moment, in MHz; 0 if the driver does not tell.
double sensors_clock(const struct sensors *sensors);

#endif
