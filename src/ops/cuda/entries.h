// Functions of this folder in the table of the module, besides those of ops/device.h. See ops/cuda_module.h.
#ifndef OPS_CUDA_ENTRIES_H
#define OPS_CUDA_ENTRIES_H

#include "ops/device.h"

int cuda_libraries(const struct library **list);  // cuBLASLt and cuDNN's: fills at most 3, returns how many
bool cuda_cudnn_takes_masks(const struct device *device);
int64_t cuda_cudnn_passes(const struct device *device);
int64_t cuda_cudnn_parts(const struct device *device);
void cuda_cudnn_cut(struct device *device, int64_t elements);

#endif
