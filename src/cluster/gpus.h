// The GPUs of this machine from nvidia-smi, and faults that would spoil a run.
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
    int64_t clock_mhz, most_mhz;  // of the multiprocessors, now and at most; -1: unknown
    bool has_ecc, is_ecc_off;     // error correction is on; exists but is off
    int64_t uncorrected;          // uncorrectable memory errors since the driver started; -1: unknown
    int64_t pending;              // rows or pages to be replaced at the next restart; -1: unknown
    int64_t throttle;             // bits: reasons for reduced clocks; -1: unknown
    int64_t temperature;          // degrees; -1: unknown
};

struct gpus {
    struct gpu items[MOST_GPUS];
    int count;
};

// Runs nvidia-smi. -1 if it is missing, fails, or its output is not readable.
int gpus_query(struct gpus *gpus);
// Parses nvidia-smi's output, for tests.
int gpus_parse(struct gpus *gpus, const char *text);
// Appends faults, a sentence per line; `expected` is the number of GPUs, 0 if unknown. Returns the number of sentences.
int gpus_faults(const struct gpus *gpus, int expected, struct buffer *out);
// Appends differences from EC2's machine: GPUs of another kind or with other memory.
int gpus_differ(const struct gpus *gpus, const struct machine *machine, struct buffer *out);

// The network that a run really uses, from NCCL's log with NCCL_DEBUG=INFO, fi_info and the kernel.
enum transport { TRANSPORT_UNKNOWN, TRANSPORT_TCP, TRANSPORT_IB, TRANSPORT_EFA };

const char *transport_name(enum transport transport);  // "tcp", …; "unknown"
// The network in an NCCL log: the one that it uses, not those that it found on the way. TRANSPORT_UNKNOWN if the log
// does not name one.
enum transport transport_of_log(const char *log);
// Interfaces for EFA that libfabric sees on this machine, from fi_info's answer. 0 for none.
int transport_efa_interfaces(const char *fi_info);
// Ports of InfiniBand (or RoCE) cards that are up, in the kernel's tree at `folder`, /sys/class/infiniband. EFA's own
// cards are listed there too and do not count. 0 if there is no such folder.
int transport_ib_ports(const char *folder);

// Expected bus bandwidth in GB/s of an all-reduce of 256 MiB between machines of a type; 0 if no figure is known.
double transport_expected_busbw(const char *machine, int nodes);

#endif
