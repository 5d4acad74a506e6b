// cuBLASLt, which every GPU needs beside the driver. See base/library.h; cuDNN's are in cudnn_library.h, the driver's
// in ops/cuda_module.h.
#ifndef OPS_CUDA_LIBRARIES_H
#define OPS_CUDA_LIBRARIES_H

#include "base/library.h"
#include "ops/cuda_module.h"

#include <cublasLt.h>

// The header's short names (cublasLtMatmulDescInit) are inline functions; these are the symbols that they call.
#define CUBLASLT_SYMBOLS(ROW)                                                                                          \
    ROW(cublasLtGetVersion)                                                                                            \
    ROW(cublasLtCreate)                                                                                                \
    ROW(cublasLtDestroy)                                                                                               \
    ROW(cublasLtGetStatusName)                                                                                         \
    ROW(cublasLtMatmul)                                                                                                \
    ROW(cublasLtMatmulAlgoCheck)                                                                                       \
    ROW(cublasLtMatmulAlgoGetHeuristic)                                                                                \
    ROW(cublasLtMatmulDescInit_internal)                                                                               \
    ROW(cublasLtMatmulDescSetAttribute)                                                                                \
    ROW(cublasLtMatmulPreferenceInit_internal)                                                                         \
    ROW(cublasLtMatmulPreferenceSetAttribute)                                                                          \
    ROW(cublasLtMatrixLayoutInit_internal)

struct cublaslt_symbols {
    CUBLASLT_SYMBOLS(LIBRARY_FIELD)
};

static inline const struct cublaslt_symbols *cublaslt(void) {
    return (const struct cublaslt_symbols *)library_symbols(LIBRARY_CUBLASLT);
}

const struct library *cublaslt_library(void);

#endif
