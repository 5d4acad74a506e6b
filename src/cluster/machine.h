// Machines that runs are planned for and launched on: their names in EC2, their hardware and their price per hour.
#ifndef CLUSTER_MACHINE_H
#define CLUSTER_MACHINE_H

#include "base/buffer.h"

#include <stdbool.h>

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

#endif
