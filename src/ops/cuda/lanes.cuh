// Sums and maxima over the lanes of a warp and over the threads of a block. Blocks consist of whole warps; every thread
// participates and gets the result. The order of a sum is fixed.
#ifndef OPS_CUDA_LANES_CUH
#define OPS_CUDA_LANES_CUH

#include "ops/cuda/cuda.cuh"

template <typename F> static __device__ __forceinline__ F warp_sum(F value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
    return value;
}

static __device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
    return value;
}

// `shared` holds 32 elements. The next call may reuse it at once: its first barrier waits for the readers.
template <typename F> static __device__ __forceinline__ F block_sum(F value, F *shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    value = warp_sum(value);
    __syncthreads();
    if (lane == 0)
        shared[warp] = value;
    __syncthreads();
    return warp_sum(lane < warps ? shared[lane] : (F)0);
}

static __device__ __forceinline__ float block_max(float value, float *shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    value = warp_max(value);
    __syncthreads();
    if (lane == 0)
        shared[warp] = value;
    __syncthreads();
    return warp_max(lane < warps ? shared[lane] : -INFINITY);
}

#endif
