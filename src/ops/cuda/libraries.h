// cuBLASLt, which every GPU needs beside the driver. See base/library.h; cuDNN's are in cudnn_graph.h, the driver's
// in ops/cuda_module.h.
#ifndef OPS_CUDA_LIBRARIES_H
#define OPS_CUDA_LIBRARIES_H

#include "base/library.h"
#include "ops/cuda_module.h"
#include "ops/device.h"

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

// Folders of NVIDIA's libraries besides those of the dynamic loader: Python's packages (nvidia/cu13/lib,
// nvidia/cudnn/lib), first beside a program that pip installed, and the toolkit. Patterns for the folders of a struct
// library; also the endings of package names.

// The toolkit that this was compiled with, as names of packages have it: "13", "13-0".
#define CUDA_MAJOR LIBRARY_TEXT(BEVATRON_CUDA_MAJOR)
#define CUDA_RELEASE CUDA_MAJOR "-" LIBRARY_TEXT(BEVATRON_CUDA_MINOR)

// clang-format off
#define CUDA_FOLDERS                                                                                                   \
    "$ORIGIN/../lib/python3*/*-packages/nvidia/*/lib",                                                                 \
    "$ORIGIN/../nvidia/*/lib",                                                                                         \
    "$CUDA_HOME/lib64",                                                                                                \
    "$CUDA_PATH/lib64",                                                                                                \
    "/usr/local/cuda/lib64",                                                                                           \
    "/usr/local/cuda-*/lib64",                                                                                         \
    "$CONDA_PREFIX/lib",                                                                                               \
    "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",                                                            \
    "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib",                                                           \
    "$HOME/.local/lib/python3*/site-packages/nvidia/*/lib",                                                            \
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib"
// clang-format on

// Functions of this folder in the table of the module, besides those of ops/device.h. See ops/cuda_module.h.
int cuda_libraries(const struct library **list);  // cuBLASLt and cuDNN's: fills at most 3, returns how many
bool cuda_cudnn_takes_masks(const struct device *device);
int64_t cuda_cudnn_passes(const struct device *device);
int64_t cuda_cudnn_parts(const struct device *device);
void cuda_cudnn_cut(struct device *device, int64_t elements);

#endif
