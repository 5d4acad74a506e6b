// Folders of NVIDIA's libraries besides those of the dynamic loader: Python's packages (nvidia/cu13/lib,
// nvidia/cudnn/lib), first beside a program that pip installed, and the toolkit. Patterns for the folders of a struct
// library; also the endings of package names.
#ifndef OPS_CUDA_PLACES_H
#define OPS_CUDA_PLACES_H

#include "base/library.h"

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

#endif
