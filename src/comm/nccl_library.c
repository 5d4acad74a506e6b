// Version check and folders of NCCL. See nccl_library.h.
#include "comm/nccl_library.h"
#include "base/error.h"
#include "comm/backend.h"
#include "ops/cuda/libraries.h"

#include <stdio.h>

// Later versions keep the ABI of earlier ones. ncclGetLastError came with 2.13.
static int check_version(const void *table, char *version, size_t size) {
    const struct nccl_symbols *candidate = table;
    enum { OLDEST = NCCL_VERSION(2, 13, 0) };
    int code = 0;
    if (candidate->ncclGetVersion(&code) != ncclSuccess)
        return error_set("does not tell its version");
    int major = code / 10000, minor = code / 100 % 100;
    snprintf(version, size, "%d.%d.%d", major, minor, code % 100);
    if (major != NCCL_MAJOR || code < OLDEST)
        return error_set("is NCCL %s, but NCCL %d.13 or a later %d.x is needed", version, NCCL_MAJOR, NCCL_MAJOR);
    return 0;
}

static const struct library nccl_row = {
    .id = LIBRARY_NCCL,
    .name = "NCCL",
    .user = "collectives between GPUs",
    .variable = "BEVATRON_NCCL_LIBRARY",
    .sonames = LIBRARY_LIST("libnccl.so." LIBRARY_TEXT(NCCL_MAJOR)),
    .folders = LIBRARY_LIST("/opt/nccl/build/lib", "/opt/nccl/lib", "/opt/aws-ofi-nccl/lib",
                            "/opt/amazon/ofi-nccl/lib*", CUDA_FOLDERS),
    .package = "apt-get install libnccl2 (NVIDIA's repository), or pip install 'nvidia-nccl-cu" CUDA_MAJOR
               "==" LIBRARY_TEXT(NCCL_MAJOR) ".*'",
    .instead = "give --distributed-backend mpi to communicate through host memory, which is slow",
    LIBRARY_SYMBOLS(NCCL_SYMBOLS),
    .check = check_version,
};

const struct library *nccl_library(void) {
    return &nccl_row;
}
