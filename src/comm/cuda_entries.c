// The table of the module bevatron_cuda.so. Not part of the program, see ops/cuda_module.h.
#include "comm/backend.h"
#include "ops/cuda/libraries.h"
#include "ops/cuda_module.h"

const struct cuda_module *bevatron_cuda_module(void) {
    static const struct cuda_module module = {
        .version = BEVATRON_VERSION,
        .headers = cuda_module_headers,
        .toolkit = LIBRARY_TEXT(BEVATRON_CUDA_MAJOR) "." LIBRARY_TEXT(BEVATRON_CUDA_MINOR),
        .architectures = BEVATRON_CUDA_CODE,
#ifdef BEVATRON_CUDNN
        .has_cudnn = true,
#endif
        .open = cuda_open,
        .count = cuda_count,
        .libraries = cuda_libraries,
        .cudnn_takes_masks = cuda_cudnn_takes_masks,
        .cudnn_passes = cuda_cudnn_passes,
        .cudnn_parts = cuda_cudnn_parts,
        .cudnn_cut = cuda_cudnn_cut,
#ifdef BEVATRON_NCCL
        .nccl_library = nccl_library,
        .nccl_world_open = nccl_world_open,
#endif
    };
    return &module;
}
