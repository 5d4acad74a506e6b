// NCCL for the program: nccl.c is in the module for GPUs, which ranks with a GPU have loaded. See ops/cuda_module.h.
#include "base/error.h"
#include "comm/backend.h"
#include "ops/cuda_module.h"

const struct library *nccl_library(void) {
    const struct cuda_module *module = cuda_module();
    return module && module->nccl_library ? module->nccl_library() : NULL;
}

int nccl_load(void) {
    TRY(library_load(cuda_module_library()));
    const struct library *library = nccl_library();
    if (!library)
        return error_set("the module for GPUs was built without NCCL; install libnccl-dev and build it again with "
                         "-DBEVATRON_NCCL=ON, or give --distributed-backend mpi to communicate through host memory, "
                         "which is slow");
    return library_load(library);
}

int nccl_world_open(struct world **world, struct device *device, struct world *host) {
    TRY(nccl_load());
    return cuda_module()->nccl_world_open(world, device, host);
}
