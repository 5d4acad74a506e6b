// Replaces nccl.c in a build without NCCL: collectives between GPUs go through host memory and MPI.
#include "base/error.h"
#include "comm/backend.h"

enum nccl_fit nccl_fit(struct device *device, struct world *host) {
    (void)device;
    (void)host;
    return NCCL_MISSING;
}

int nccl_world_open(struct world **world, struct device *device, struct world *host) {
    (void)world;
    (void)device;
    (void)host;
    return error_set("this build has no NCCL; install libnccl-dev and build again with -DBEVATRON_NCCL=ON");
}
