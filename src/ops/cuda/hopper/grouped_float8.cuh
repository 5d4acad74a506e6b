// Code common to fp8 matmuls over ragged groups, with ranges or with factors of blocks.
#ifndef OPS_CUDA_HOPPER_GROUPED_FLOAT8_CUH
#define OPS_CUDA_HOPPER_GROUPED_FLOAT8_CUH

#include "ops/cuda/hopper/grouped_tiles.cuh"

enum { STEP8 = LINE_BYTES, STEP8_MATMULS = STEP8 / 32, HALF_COLUMNS = COLUMNS / 2 };

struct float8_args : grouped_args {
    const float *a_range, *b_range;  // ranges, or factors of blocks
    int64_t a_width, b_width;        // columns of the factors
};

// Multiplies a stage: all of its columns, or half of them.
template <bool A_IS_E5M2, int COUNT>
static __device__ __forceinline__ void multiply_stage(float (&sums)[COUNT], uint64_t a, uint64_t b, bool keeps) {
    matmul_fence();
#pragma unroll
    for (int i = 0; i < STEP8_MATMULS; i++) {
        matmul_float8<A_IS_E5M2>(sums, a, b, keeps || i > 0);
        a = next_steps<false>(a);
        b = next_steps<false>(b);
    }
    matmul_commit();
}

#endif
