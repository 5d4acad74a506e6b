// The machines that runs are planned for and launched on: what EC2 calls them and what is in them.
#ifndef CLUSTER_MACHINE_H
#define CLUSTER_MACHINE_H

struct machine {
    const char *name;  // "p4d.24xlarge"
    const char *gpu;   // NULL where there is none
    int gpus, gpu_gib, cpus, memory_gib;
    int network_gbit;
    int efa;  // interfaces for Elastic Fabric Adapter
};

// NULL, after error_set with the names that come near, where there is none of that name.
const struct machine *machine_find(const char *name);

#endif
