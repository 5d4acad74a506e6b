// The libraries that every GPU needs: the driver's, which the CUDA runtime (linked statically) opens itself, and
// cuBLASLt. See base/library.h; cuDNN's are in cudnn_library.h.
#ifndef OPS_CUDA_LIBRARIES_H
#define OPS_CUDA_LIBRARIES_H

#include "base/library.h"

#include <cublasLt.h>

// What the header gives short names (cublasLtMatmulDescInit) are inline functions; these are the ones they call.
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

const struct library *cuda_driver_library(void);
const struct library *cublaslt_library(void);

#endif
