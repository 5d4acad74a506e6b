// The machines that runs are planned for and launched on: what EC2 calls them, what is in them and what an hour costs.
#ifndef CLUSTER_MACHINE_H
#define CLUSTER_MACHINE_H

#include <stdbool.h>

struct machine {
    const char *name;  // "p4d.24xlarge"
    const char *gpu;   // NULL if there is none
    int gpus, gpu_gib, cpus, memory_gib;
    int network_gbit;
    int efa;  // interfaces for Elastic Fabric Adapter
};

// NULL, after error_set with the names that come near, if there is none of that name.
const struct machine *machine_find(const char *name);
// The same without a word about what is missing.
const struct machine *machine_look_up(const char *name);

// Dollars an hour on demand (Linux, us-east-1), 0 if none is known; also of machines that are not in the table
// above, as head nodes are.
double machine_price(const char *name);
// Whether the name is in one of the tables: a type that is in neither may be misspelt.
bool machine_is_known(const char *name);
// When and where those prices were read, for people.
const char *machine_price_note(void);

#endif
