// Speeds of GPUs and the links between them, as reached by long operations; one set of constants for each kind of GPU.
// cluster/machine.h describes the machines.
#ifndef PLAN_HARDWARE_H
#define PLAN_HARDWARE_H

#include "cluster/machine.h"
#include "comm/comm.h"
#include "config/flag.h"
#include "ops/device.h"

struct hardware {
    const char *gpu;  // as in struct machine; "CPU" without GPUs
    int gib;          // memory, if GPUs of this name differ in it; 0 for any
    double peak[3];   // FLOP/s in 16, 8 and 4 bits without sparsity, as the vendor states them: the MFU's measure
    struct device_rates rates;
    struct comm_path link;     // between the GPUs that it joins
    struct comm_path network;  // between machines, one rank's part
    double exchange;           // bytes/s of a rank's all-to-all between machines; 0: as the network's
    const char *source;        // of the constants
};

// -1, after error_set, if this kind of GPU is unknown.
int hardware_of(struct hardware *hardware, const struct machine *machine);
// Ranks of a machine: one for each GPU, or one.
int hardware_ranks(const struct machine *machine);
// The fabric that connects this many ranks on machines of this kind.
struct comm_fabric hardware_fabric(const struct hardware *hardware, const struct machine *machine, int ranks);

// The peak of a device according to its maker: the number that a run's throughput is compared with (MFU).
// Dense matmuls in this dtype, in TFLOP/s; 0 if it is not known. Runs with fp8 are compared with bf16, as is usual.
double peak_teraflops(const struct device *device, enum dtype dtype);
// peak_teraflops by the device's name.
double peak_find(const char *name, enum dtype dtype);

// The part of the name that says which GPU it is, "H200" of "NVIDIA H200"; NULL if it is not in the table.
const char *peak_name(const char *name);

// ---- hardware files ----

// Custom hardware: a file of `key: value` lines as for --config, with a machine's parts and their speeds. Keys that are
// left out keep the values of a known machine.

struct hardware_file {
    struct flag_given given;
    // Targets of the rows in hardware_file.c: owned strings, and numbers in the file's units.
    char *name, *gpu, *network, *source;
    int64_t gpus, gpu_gib, joined, cpus, memory_gib, network_gbit, capability;
    struct machine machine;
    struct hardware hardware;
};

// Starts as the known machine. The caller may then read texts over it and change `machine` and `hardware`. Their
// strings belong to the file, until it is freed.
int hardware_file_open(struct hardware_file *file, const struct machine *machine);
int hardware_file_read(struct hardware_file *file, const char *name, const char *text, size_t length);
void hardware_file_free(struct hardware_file *file);

// Writes text that reads back as this file.
void hardware_file_write(const struct hardware_file *file, struct buffer *out);

#endif
