// Layout of factors of blocks, as cuBLASLt reads them: those of 16 and 32 elements, one byte each, in tiles of 128 rows
// x 4 blocks; a tile is 512 contiguous bytes.
#ifndef OPS_CUDA_SCALES_CUH
#define OPS_CUDA_SCALES_CUH

#include "ops/cuda/cuda.cuh"

#include <cuda_fp8.h>

// `width` is the columns of the scales.
static __device__ __forceinline__ int64_t tiled_place(int64_t width, int64_t line, int64_t block) {
    return (line / 128 * (width / 4) + block / 4) * 512 + line % 32 * 16 + line % 128 / 32 * 4 + block % 4;
}

static __device__ __forceinline__ float decode_float8(uint8_t code, bool is_e5m2) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, is_e5m2 ? __NV_E5M2 : __NV_E4M3)));
}

// The magnitudes 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
static __device__ __forceinline__ float float4_size(unsigned code) {
    return code < 4 ? 0.5f * (float)code : code == 7 ? 6.0f : (float)code - 2.0f;
}

#endif
