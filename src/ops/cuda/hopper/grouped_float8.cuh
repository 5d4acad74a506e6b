// What matmuls over ragged groups in fp8 share, whether their operands have one range or factors of blocks.
#ifndef OPS_CUDA_HOPPER_GROUPED_FLOAT8_CUH
#define OPS_CUDA_HOPPER_GROUPED_FLOAT8_CUH

#include "ops/cuda/hopper/grouped_tiles.cuh"

enum { STEP8 = LINE_BYTES, STEP8_MATMULS = STEP8 / 32, HALF_COLUMNS = COLUMNS / 2 };

struct float8_args {
    struct grouped_args grouped;
    const float *a_range, *b_range;  // ranges, or factors of blocks
    int64_t a_width, b_width;        // columns of the factors
};

// A stage times half of its columns, or all.
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
