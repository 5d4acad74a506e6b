// NVFP4 on GPUs, for blocks.cu and the matmul.
#ifndef OPS_CUDA_FLOAT4_CUH
#define OPS_CUDA_FLOAT4_CUH

#include "ops/cuda/cuda.cuh"

extern "C" {
#include "ops/formulas.h"
}

// Uses the first bytes of cuda->scratch.
void cuda_quantize_float4(struct cuda_device *cuda, const struct op_quantize_blocks *op);
// alpha times the factors of both tensors, and beta, in device memory for cuBLASLt: at these offsets of cuda->scratch,
// valid until the next operation.
enum { FLOAT4_ALPHA = 0, FLOAT4_BETA = 4 };
const float *float4_scalars(struct cuda_device *cuda, const struct op_matmul *op);

#endif
