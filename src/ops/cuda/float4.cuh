// NVFP4 on GPUs: what blocks.cu and the matmul call.
#ifndef OPS_CUDA_FLOAT4_CUH
#define OPS_CUDA_FLOAT4_CUH

#include "ops/cuda/cuda.cuh"

extern "C" {
#include "ops/nvfp4.h"
}

// Takes the first bytes of cuda->scratch.
void cuda_quantize_float4(struct cuda_device *cuda, const struct op_quantize_blocks *op);
// alpha times the factors of both tensors, and beta, in device memory, as cuBLASLt reads them in place of the host's:
// at these places of the first bytes of cuda->scratch, until the next operation.
enum { FLOAT4_ALPHA = 0, FLOAT4_BETA = 4 };
const float *float4_scalars(struct cuda_device *cuda, const struct op_matmul *op);

#endif
