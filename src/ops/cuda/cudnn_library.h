// The cuDNN library. See base/library.h.
#ifndef OPS_CUDA_CUDNN_LIBRARY_H
#define OPS_CUDA_CUDNN_LIBRARY_H

#include "base/library.h"

#include <cudnn.h>

#define CUDNN_SYMBOLS(ROW)                                                                                             \
    ROW(cudnnGetVersion)                                                                                               \
    ROW(cudnnBackendCreateDescriptor)                                                                                  \
    ROW(cudnnBackendDestroyDescriptor)                                                                                 \
    ROW(cudnnBackendExecute)                                                                                           \
    ROW(cudnnBackendFinalize)                                                                                          \
    ROW(cudnnBackendGetAttribute)                                                                                      \
    ROW(cudnnBackendSetAttribute)                                                                                      \
    ROW(cudnnCreate)                                                                                                   \
    ROW(cudnnDestroy)                                                                                                  \
    ROW(cudnnGetCudartVersion)                                                                                         \
    ROW(cudnnGetErrorString)                                                                                           \
    ROW(cudnnGetLastErrorString)                                                                                       \
    ROW(cudnnSetStream)

struct cudnn_symbols {
    CUDNN_SYMBOLS(LIBRARY_FIELD)
};

static inline const struct cudnn_symbols *cudnn(void) {
    return library_symbols(LIBRARY_CUDNN);
}

// Loads cuDNN and the compiler that it needs; -1 after error_set.
int cudnn_load(void);

#endif
