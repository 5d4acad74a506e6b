// Machines that runs are planned for and launched on: their names in EC2, their hardware and their price per hour.
#ifndef CLUSTER_MACHINE_H
#define CLUSTER_MACHINE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

// The oldest GPUs supported by src/ops/cuda/device.cu: 8.0, the A100's.
enum { MACHINE_OLDEST_CAPABILITY = 80 };

// Networks between machines: each has its own latency and overhead.
enum machine_network { NETWORK_ETHERNET, NETWORK_EFA, NETWORK_INFINIBAND };

struct machine {
    const char *name;  // "p4d.24xlarge"
    const char *gpu;   // NULL if there is none
    int capability;    // compute capability of the GPUs, 80 for 8.0
    int gpus, gpu_gib, cpus, memory_gib;
    int network_gbit;
    int efa;     // interfaces for Elastic Fabric Adapter
    int joined;  // GPUs on the fast link, including those of other machines: 72 of a GB200 NVL72; 1 without GPUs
    enum machine_network network;
    double dollars;  // an hour on demand; 0 if unknown
};

// NULL, after error_set with similar names, if there is no such machine.
const struct machine *machine_find(const char *name);
// Like machine_find, without an error message.
const struct machine *machine_look_up(const char *name);

// Whether this program does not run on its GPUs, and a sentence that says so.
bool machine_has_old_gpus(const struct machine *machine);
void machine_describe_old_gpus(const struct machine *machine, struct buffer *out);
// Whether this program trains experts in fp8 there: its kernels are for compute capability 9.0; CPUs emulate them.
bool machine_trains_experts8(const struct machine *machine);

// The compute capability of a GPU of a machine in the table, e.g. "H200"; otherwise the oldest supported one.
int machine_gpu_capability(const char *gpu);

// Dollars an hour on demand (Linux, us-east-1), 0 if unknown; also of machines that are not in the table above, e.g.
// head nodes.
double machine_price(const char *name);
// Whether the name is in one of the tables: a type that is in neither may be misspelt.
bool machine_is_known(const char *name);
// Date and source of those prices, for users.
const char *machine_price_note(void);
// The reason why the table has no price of a machine, for users.
const char *machine_unpriced_note(const struct machine *machine);

// ---- this machine ----

// The GPUs of this machine from nvidia-smi, and faults that would spoil a run.

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
// cards are listed there too and do not count. 0 where the folder is missing.
int transport_ib_ports(const char *folder);

// Expected bus bandwidth in GB/s of an all-reduce of 256 MiB between machines of a type; 0 if no figure is known.
double transport_expected_busbw(const char *machine, int nodes);

#endif
