// Storage of Adam's moments: in fp32, in bf16 with stochastic rounding, or as 8-bit codes (tensor/moment8.h). Four
// elements per thread; a half warp has the MOMENT8_SHARE elements that share an exponent, so all of its threads
// participate, even beyond the last element.
#ifndef OPS_CUDA_UPDATES_CUH
#define OPS_CUDA_UPDATES_CUH

#include "ops/cuda/cuda.cuh"
#include "ops/cuda/elements.cuh"
#include "tensor/moment8.h"

static_assert(MOMENT8_SHARE == 4 * 16, "a half warp has the elements of an exponent");

static __device__ __forceinline__ int64_t moments_end(int64_t count) {
    return (count + MOMENT8_SHARE - 1) / MOMENT8_SHARE * MOMENT8_SHARE;
}

static __device__ __forceinline__ void store_moment(float *to, int64_t i, int64_t count, const float x[4],
                                                    const float grad[4]) {
    store4(to, i, count, x);
}

static __device__ __forceinline__ void store_moment(__nv_bfloat16 *to, int64_t i, int64_t count, const float x[4],
                                                    const float grad[4]) {
    float rounded[4];
#pragma unroll
    for (int n = 0; n < 4; n++)
        rounded[n] = half_from_bf16(half_to_bf16_by(x[n], half_dice(grad[n], x[n])));
    store4(to, i, count, rounded);
}

template <enum moment8_kind kind> struct coded {
    uint8_t *codes;      // (count)
    uint8_t *exponents;  // (count / MOMENT8_SHARE), rounded up
};

// Four codes can be accessed at once if the first is aligned.
static __device__ __forceinline__ bool codes_are_wide(const uint8_t *codes, int64_t i, int64_t count) {
    return i + 4 <= count && ((uintptr_t)(codes + i) & 3) == 0;
}

template <enum moment8_kind kind>
static __device__ __forceinline__ void load4(float out[4], struct coded<kind> from, int64_t i, int64_t count) {
    uint32_t codes = 0;
    if (codes_are_wide(from.codes, i, count))
        codes = *(const uint32_t *)(from.codes + i);
    else
        for (int n = 0; n < 4 && i + n < count; n++)
            codes |= (uint32_t)from.codes[i + n] << 8 * n;
    uint8_t exponent = from.exponents[i / MOMENT8_SHARE];
#pragma unroll
    for (int n = 0; n < 4; n++)
        out[n] = moment8_decode(kind, (uint8_t)(codes >> 8 * n), exponent);
}

template <enum moment8_kind kind>
static __device__ __forceinline__ void store_moment(struct coded<kind> to, int64_t i, int64_t count, const float x[4],
                                                    const float grad[4]) {
    uint32_t lane = threadIdx.x & 31, mask = 0xFFFFu << (lane & 16);
    float largest = 0;
#pragma unroll
    for (int n = 0; n < 4; n++)
        largest = fmaxf(largest, i + n < count ? moment8_size(kind, x[n]) : 0);
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(mask, largest, offset));
    uint8_t exponent = moment8_exponent(kind, largest);
    uint32_t codes = 0;
#pragma unroll
    for (int n = 0; n < 4; n++)
        codes |= (uint32_t)moment8_encode(kind, x[n], exponent, half_dice(grad[n], x[n])) << 8 * n;
    if (i % MOMENT8_SHARE == 0)
        to.exponents[i / MOMENT8_SHARE] = exponent;
    if (codes_are_wide(to.codes, i, count))
        *(uint32_t *)(to.codes + i) = codes;
    else
        for (int n = 0; n < 4 && i + n < count; n++)
            to.codes[i + n] = (uint8_t)(codes >> 8 * n);
}

// A moment stored in any of these ways.
template <enum moment8_kind kind> struct any_moment {
    struct coded<kind> at;  // fp32 and bf16 lie where codes would
    enum dtype dtype;
};

template <enum moment8_kind kind>
static __device__ __forceinline__ void load4(float out[4], struct any_moment<kind> from, int64_t i, int64_t count) {
    if (from.dtype == DTYPE_F32)
        load4(out, (const float *)from.at.codes, i, count);
    else if (from.dtype == DTYPE_BF16)
        load4(out, (const __nv_bfloat16 *)from.at.codes, i, count);
    else
        load4(out, from.at, i, count);
}

template <enum moment8_kind kind>
static __device__ __forceinline__ void store_moment(struct any_moment<kind> to, int64_t i, int64_t count,
                                                    const float x[4], const float grad[4]) {
    if (to.dtype == DTYPE_F32)
        store_moment((float *)to.at.codes, i, count, x, grad);
    else if (to.dtype == DTYPE_BF16)
        store_moment((__nv_bfloat16 *)to.at.codes, i, count, x, grad);
    else
        store_moment(to.at, i, count, x, grad);
}

// ---- a pass over a flat range ----

// Many blocks with one piece of memory each are faster than few that walk all of it: on an H200 Adam moves 4.2 TB/s,
// and 3.95 with 4096 blocks. Grid-wide steps serve only ranges beyond MOST_FLAT_BLOCKS.
enum { FLAT_THREADS = 256, MOST_FLAT_BLOCKS = 1 << 30 };

static inline unsigned flat_blocks(int64_t count) {
    int64_t blocks = divide_up(count, FLAT_THREADS);
    return (unsigned)min(blocks, (int64_t)MOST_FLAT_BLOCKS);
}

// ---- Muon ----

// The inverse norm of a matrix, from the sum of its squares: Muon's division, separate or fused into a matmul.

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
