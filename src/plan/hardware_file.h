// Hardware of your own: a file of `key: value` lines as for --config, with what is in a machine and how fast it is.
// Keys that are left out keep the values of a known machine.
#ifndef PLAN_HARDWARE_FILE_H
#define PLAN_HARDWARE_FILE_H

#include "config/flag.h"
#include "plan/hardware.h"

struct hardware_file {
    struct flag_given given;
    // What the rows of hardware_file.c read: owned strings, and numbers in their units.
    char *name, *gpu, *network, *source;
    int64_t gpus, gpu_gib, joined, cpus, memory_gib, network_gbit, capability;
    struct machine machine;
    struct hardware hardware;
};

// Begins as the known machine. Then one may read text over it, any number of times, and change `machine` and
// `hardware`. Their strings are those of the file, until it is freed.
int hardware_file_open(struct hardware_file *file, const struct machine *machine);
int hardware_file_read(struct hardware_file *file, const char *name, const char *text, size_t length);
void hardware_file_free(struct hardware_file *file);

// The text that would read back as this.
void hardware_file_write(const struct hardware_file *file, struct buffer *out);

#endif
