// Factors of blocks of fp8 numbers: powers of two, computed as on the CPU, so that codes are identical.
#ifndef OPS_CUDA_BLOCKS_CUH
#define OPS_CUDA_BLOCKS_CUH

#include "ops/cuda/scales.cuh"
#include "ops/cuda/turned.cuh"

enum { LEAST_EXPONENT = -127, MOST_EXPONENT = 127, E8M0_BIAS = 127, E8M0_NAN = 255 };

static __device__ __host__ __forceinline__ float largest_float8(bool is_e5m2) {
    return is_e5m2 ? 57344.0f : 448.0f;
}

static __device__ __forceinline__ int block_exponent(uint32_t most, float largest) {
    float size = __uint_as_float(most);
    if (most == 0 || most >= 0x7F800000u)
        return 0;
    int exponent;
    float fraction = frexpf(__fdiv_rn(size, largest), &exponent);
    exponent -= fraction == 0.5f;
    return min(max(exponent, (int)LEAST_EXPONENT), (int)MOST_EXPONENT);
}

// Index of the factor of block `block` of a line; `width` is the columns of the scales.
template <int SCALING>
static __device__ __forceinline__ int64_t factor_place(int64_t width, int64_t line, int64_t block) {
    if (SCALING == SCALING_VECTOR128)
        return block * width + line;
    if (SCALING == SCALING_BLOCK128)
        return line / TILE * width + block;
    return tiled_place(width, line, block);
}

// Stores the factor of a block with this largest magnitude, if it has a place, and returns the scale of its elements.
template <int SCALING>
static __device__ __forceinline__ float write_factor(void *scales, int64_t place, uint32_t most, float largest) {
    int exponent = block_exponent(most, largest);
    bool is_whole = most < 0x7F800000u;
    if (SCALING == SCALING_VECTOR32 && scales)
        ((uint8_t *)scales)[place] = is_whole ? (uint8_t)(exponent + E8M0_BIAS) : (uint8_t)E8M0_NAN;
    else if (scales)
        ((float *)scales)[place] = is_whole ? ldexpf(1.0f, exponent) : __int_as_float(0x7FC00000);
    return ldexpf(1.0f, -exponent);
}

#endif
