// Replaces nccl.c in a build without NCCL: collectives between GPUs go through host memory and MPI.
#include "base/error.h"
#include "comm/backend.h"

bool nccl_is_built(void) {
    return false;
}

const struct library *nccl_library(void) {
    return NULL;
}

int nccl_world_open(struct world **world, struct device *device, struct world *host) {
    (void)world;
    (void)device;
    (void)host;
    return error_set("this build has no NCCL; install libnccl-dev and build again with -DBEVATRON_NCCL=ON");
}
