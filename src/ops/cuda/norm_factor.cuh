// The inverse norm of a matrix, from the sum of its squares: Muon's division, separate or fused into a matmul.
#ifndef OPS_CUDA_NORM_FACTOR_CUH
#define OPS_CUDA_NORM_FACTOR_CUH

#include "ops/cuda/cuda.cuh"

struct norm_factor {
    const float *sum_squares;  // one for each matrix, or NULL: the factor is 1
    float least;               // of the norm
    bool is_twice;             // the factor's square
};

static __device__ __forceinline__ float factor_of(const struct norm_factor &by, int matrix) {
    if (!by.sum_squares)
        return 1;
    float factor = 1.0f / fmaxf(sqrtf(by.sum_squares[matrix]), by.least);
    return by.is_twice ? factor * factor : factor;
}

#endif
