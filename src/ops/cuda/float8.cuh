// 8-bit floats on the device: storing values, remembering the largest, and transposing tiles of bytes.
#ifndef OPS_CUDA_FLOAT8_CUH
#define OPS_CUDA_FLOAT8_CUH

#include "ops/cuda/cuda.cuh"

#include <cuda_fp8.h>

// GPUs before compute capability 8.9 convert in software, which is long code, so it is not inlined.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
#define FLOAT8_INLINE __forceinline__
#else
#define FLOAT8_INLINE __noinline__
#endif

// Four values, scaled and rounded, in the order of memory.
static __device__ FLOAT8_INLINE uint32_t pack_float8(float4 value, float scale, bool is_e5m2) {
    __nv_fp8_interpretation_t kind = is_e5m2 ? __NV_E5M2 : __NV_E4M3;
    float2 low = make_float2(value.x * scale, value.y * scale), high = make_float2(value.z * scale, value.w * scale);
    return (uint32_t)__nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, kind) |
           (uint32_t)__nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, kind) << 16;
}

static __device__ __forceinline__ uint32_t pack_float8(const float value[4], float scale, bool is_e5m2) {
    return pack_float8(make_float4(value[0], value[1], value[2], value[3]), scale, is_e5m2);
}

// Magnitudes are compared by their bits as integers, which puts NaN above all.
static __device__ __forceinline__ uint32_t magnitude_bits(float value) {
    return __float_as_uint(value) & 0x7FFFFFFFu;
}

// The larger magnitude, or NaN if either is.
static __device__ __forceinline__ float larger_magnitude(float most, float value) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(most), "f"(fabsf(value)));
    return larger;
}

// The largest magnitude in a range so far. A kernel reads it at its start, with its inputs, so that it need not wait at
// its end.
static __device__ __forceinline__ uint32_t range_seen(const float *range) {
    return *(const volatile uint32_t *)(range + RANGE_SEEN);
}

// Raises the range's largest magnitude to the warp's, infinity for NaN; all threads of the warp call it. An integer
// maximum does not depend on order, and most warps know from `before` that they need not write.
static __device__ __forceinline__ void range_see(float *range, uint32_t before, uint32_t bits) {
    bits = min(__reduce_max_sync(0xFFFFFFFFu, bits), 0x7F800000u);
    if ((threadIdx.x & 31) == 0 && bits > before)
        atomicMax((unsigned *)(range + RANGE_SEEN), bits);
}

// Transposes a 4 x 4 tile of bytes.
static __device__ __forceinline__ void turn4x4(uint32_t out[4], uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);  // a0 b0 a1 b1, c0 d0 c1 d1
    out[0] = __byte_perm(ab, cd, 0x5410);
    out[1] = __byte_perm(ab, cd, 0x7632);
    ab = __byte_perm(a, b, 0x7362), cd = __byte_perm(c, d, 0x7362);
    out[2] = __byte_perm(ab, cd, 0x5410);
    out[3] = __byte_perm(ab, cd, 0x7632);
}

// Layout of factors of blocks, as cuBLASLt reads them: those of 16 and 32 elements, one byte each, in tiles of 128 rows
// x 4 blocks; a tile is 512 contiguous bytes.

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
