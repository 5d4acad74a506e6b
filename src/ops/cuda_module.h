// The backend of NVIDIA GPUs is a module of the program: a shared object, bevatron_cuda.so, made of src/ops/cuda and
// src/comm/nccl*.c. The program loads it when it first looks for or uses a GPU, and is the same with and without it.
//
// The module has one symbol, bevatron_cuda_module, which returns its table of functions. It has no copy of src/base:
// the functions of base, tensor, ops and comm that it calls are the program's, listed in src/ops/cuda/program.symbols.
//
// Both sides share structs, so a module must be built from the program's headers: it is refused unless it has the
// program's version and the digest of those headers (cmake/headers_digest.cmake).
#ifndef OPS_CUDA_MODULE_H
#define OPS_CUDA_MODULE_H

#include "base/library.h"
#include "ops/device.h"

struct world;

struct cuda_module {
    // These come first in every version: they are compared before anything else is read.
    const char *version;        // "0.1.0"
    const char *headers;        // their digest
    const char *toolkit;        // CUDA's version: "13.0"
    const char *architectures;  // "sm_80, sm_90"
    bool has_cudnn;
    int (*open)(struct device **device, const struct device_options *options);
    int (*count)(void);
    int (*libraries)(const struct library **list);
    // For tests. Whether cuDNN handles attention with masks on this GPU; how many attention operations it has done, and
    // in how many parts; sets the most elements of a part, at most ATTENTION_PART_ELEMENTS.
    bool (*cudnn_takes_masks)(const struct device *device);
    int64_t (*cudnn_passes)(const struct device *device);
    int64_t (*cudnn_parts)(const struct device *device);
    void (*cudnn_cut)(struct device *device, int64_t elements);
    // NULL in a module that was built without NCCL. See nccl_world_open in comm/backend.h.
    const struct library *(*nccl_library)(void);
    int (*nccl_world_open)(struct world **world, struct device *device, struct world *host);
};

// The module's only symbol.
const struct cuda_module *bevatron_cuda_module(void);

// Made by the build, the same on both sides.
extern const char cuda_module_headers[];

// Loads the module. NULL if it cannot be loaded: library_load(cuda_module_library()) says why.
const struct cuda_module *cuda_module(void);
const struct library *cuda_module_library(void);
// Writes why --device auto does not use this machine's GPUs: "this machine has 2 GPUs, but …"; false if it has none or
// they can be used.
bool cuda_module_is_missed(struct buffer *out);
// The driver's library. The module's CUDA runtime, linked statically, opens it too.
const struct library *cuda_driver_library(void);

#endif
