// The GPUs of this machine as nvidia-smi describes them, and what about them would spoil a run.
#ifndef CLUSTER_GPUS_H
#define CLUSTER_GPUS_H

#include "base/buffer.h"
#include "cluster/machine.h"

#include <stdbool.h>
#include <stdint.h>

enum { MOST_GPUS = 64 };

struct gpu {
    char name[64], driver[32];
    int64_t memory_mib;
    int64_t clock_mhz, most_mhz;  // of the multiprocessors, now and at most; -1: not said
    bool has_ecc, is_ecc_off;     // error correction is on; exists but is off
    int64_t uncorrected;          // memory errors it could not correct since the driver started; -1: not said
    int64_t pending;              // rows or pages that wait for a restart to be replaced; -1: not said
    int64_t throttle;             // bits: why the clocks are held down; -1: not said
    int64_t temperature;          // degrees; -1: not said
};

struct gpus {
    struct gpu items[MOST_GPUS];
    int count;
};

// Asks nvidia-smi. -1 if it is not there, fails, or says what cannot be read.
int gpus_query(struct gpus *gpus);
// The same from nvidia-smi's answer, for tests.
int gpus_parse(struct gpus *gpus, const char *text);
// Appends, a sentence per line, what must not be so; `expected` is how many there should be, 0 if unknown.
// Returns how many sentences.
int gpus_faults(const struct gpus *gpus, int expected, struct buffer *out);
// The same for what a machine of EC2 has: GPUs of another kind or with other memory.
int gpus_differ(const struct gpus *gpus, const struct machine *machine, struct buffer *out);

#endif
