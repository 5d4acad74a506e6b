// Measurements of a GPU's driver: the energy used since the driver started, and the clock. The library (NVML) comes
// with the driver, not with the toolkit, so it is loaded at run time; without it there are no figures. The energy
// counter is updated every tenth of a second or so: measure over some seconds.
#ifndef OPS_SENSORS_H
#define OPS_SENSORS_H

#include "ops/device.h"

struct sensors {
    void *gpu;
};

// Opens the sensors of the GPU that `device` is, independent of its index on the machine. The library stays open until
// the program ends. Fails on a device without sensors.
int sensors_open(struct sensors *sensors, struct device *device);
// Fails if the GPU has no counter. Only differences are meaningful.
int sensors_joules(const struct sensors *sensors, double *joules);
// The current clock of its multiprocessors, in MHz; 0 if unknown.
double sensors_clock(const struct sensors *sensors);

#endif
