// Custom hardware: a file of `key: value` lines as for --config, with a machine's parts and their speeds. Keys that are
// left out keep the values of a known machine.
#ifndef PLAN_HARDWARE_FILE_H
#define PLAN_HARDWARE_FILE_H

#include "config/flag.h"
#include "plan/hardware.h"

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
