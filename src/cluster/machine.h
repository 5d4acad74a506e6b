// The machines that runs are planned for and launched on: what EC2 calls them, what is in them and what an hour costs.
#ifndef CLUSTER_MACHINE_H
#define CLUSTER_MACHINE_H

#include "base/buffer.h"

#include <stdbool.h>

// The oldest GPUs that src/ops/cuda/device.cu takes: 8.0, the A100's.
enum { MACHINE_OLDEST_CAPABILITY = 80 };

// What connects machines: each has its own latency and overhead.
enum machine_network { NETWORK_ETHERNET, NETWORK_EFA, NETWORK_INFINIBAND };

struct machine {
    const char *name;  // "p4d.24xlarge"
    const char *gpu;   // NULL if there is none
    int capability;    // compute capability of the GPUs, 80 for 8.0
    int gpus, gpu_gib, cpus, memory_gib;
    int network_gbit;
    int efa;     // interfaces for Elastic Fabric Adapter
    int joined;  // GPUs that the fast link joins, those of other machines included: 72 of a GB200 NVL72; 1 without GPUs
    enum machine_network network;
    double dollars;  // an hour on demand; 0 if none is known
};

// NULL, after error_set with the names that come near, if there is none of that name.
const struct machine *machine_find(const char *name);
// The same without an error message.
const struct machine *machine_look_up(const char *name);

// Whether it has GPUs that this program does not run on, and a sentence that says so.
bool machine_has_old_gpus(const struct machine *machine);
void machine_describe_old_gpus(const struct machine *machine, struct buffer *out);
// Whether this program trains experts in fp8 there: its kernels are for compute capability 9.0; CPUs emulate them.
bool machine_trains_experts8(const struct machine *machine);

// The compute capability of a GPU that a machine of the table has, e.g. "H200"; otherwise the oldest that is taken.
int machine_gpu_capability(const char *gpu);

// Dollars an hour on demand (Linux, us-east-1), 0 if none is known; also of machines that are not in the table
// above, as head nodes are.
double machine_price(const char *name);
// Whether the name is in one of the tables: a type that is in neither may be misspelt.
bool machine_is_known(const char *name);
// When and where those prices were read, for people.
const char *machine_price_note(void);
// Why the table has no price of a machine, for people.
const char *machine_unpriced_note(const struct machine *machine);

#endif
