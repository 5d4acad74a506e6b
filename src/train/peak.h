// The peak of a device according to its maker: the number that a run's throughput is compared with (MFU).
#ifndef TRAIN_PEAK_H
#define TRAIN_PEAK_H

#include "ops/device.h"

// Dense matmuls in this dtype, in TFLOP/s; 0 if it is not known. Runs with fp8 are compared with bf16, as is usual.
double peak_teraflops(const struct device *device, enum dtype dtype);
// peak_teraflops by the device's name.
double peak_find(const char *name, enum dtype dtype);

// The part of the name that says which GPU it is, "H200" of "NVIDIA H200"; NULL if it is not in the table.
const char *peak_name(const char *name);

#endif
