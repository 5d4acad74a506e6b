// The NCCL library, which nccl.c loads when GPUs communicate.
#ifndef COMM_NCCL_LIBRARY_H
#define COMM_NCCL_LIBRARY_H

#include "base/library.h"

#include <nccl.h>

#define NCCL_SYMBOLS(ROW)                                                                                              \
    ROW(ncclGetVersion)                                                                                                \
    ROW(ncclAllGather)                                                                                                 \
    ROW(ncclAllReduce)                                                                                                 \
    ROW(ncclBroadcast)                                                                                                 \
    ROW(ncclCommDestroy)                                                                                               \
    ROW(ncclCommGetAsyncError)                                                                                         \
    ROW(ncclCommInitRank)                                                                                              \
    ROW(ncclGetErrorString)                                                                                            \
    ROW(ncclGetLastError)                                                                                              \
    ROW(ncclGetUniqueId)                                                                                               \
    ROW(ncclGroupEnd)                                                                                                  \
    ROW(ncclGroupStart)                                                                                                \
    ROW(ncclRecv)                                                                                                      \
    ROW(ncclReduceScatter)                                                                                             \
    ROW(ncclSend)

struct nccl_symbols {
    NCCL_SYMBOLS(LIBRARY_FIELD)
};

static inline const struct nccl_symbols *nccl(void) {
    return library_symbols(LIBRARY_NCCL);
}

#endif
