// Code common to kernels over the places of experts.
#ifndef OPS_CUDA_SLOTS_CUH
#define OPS_CUDA_SLOTS_CUH

#include "ops/cuda/cuda.cuh"

// The expert of a place before offsets[experts]: the last one that has places and whose first place is at or before it.
static __device__ __forceinline__ int expert_at(const int32_t *offsets, int experts, int64_t place) {
    int low = 0, high = experts - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (offsets[middle + 1] > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// The sum of the values of all threads of the block before this one; `shared` holds 32 numbers.
static __device__ __forceinline__ int scan_block(int value, int *shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, sum = value;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        int other = __shfl_up_sync(0xFFFFFFFFu, sum, offset);
        sum += lane >= offset ? other : 0;
    }
    __syncthreads();
    if (lane == 31)
        shared[warp] = sum;
    __syncthreads();
    int before = 0;
    for (int i = 0; i < warp; i++)
        before += shared[i];
    return before + sum - value;
}

// out (E, C) fp32 += sums down the columns of the rows of each expert in x (R, C).
void expert_column_sums(struct cuda_device *cuda, struct tensor out, struct tensor x, struct tensor offsets);

#endif
