// The micro-kernels for x86-64 processors with AVX-512: fp32, and bf16 where there is VDPBF16PS, which multiplies two
// steps at once and adds both products to an fp32 sum. A tile of 12 x 32 takes 24 of the 32 vector registers, one of 8
// x 32 takes 16. Panels of a stream from the L2 cache, and so do parts of b's panel that the L1 cache, possibly shared
// with a hyperthread, has evicted: both are prefetched.
#include "ops/cpu/kernel.h"
#include "ops/cpu/clones.h"
#include <stddef.h>

#if defined(__x86_64__)

#include <immintrin.h>

enum { F32_ROWS = 12, BF16_ROWS = 8, VECTORS = 2, LANES = 16, A_AHEAD_BYTES = 768, B_AHEAD_BYTES = 1024 };

#define AVX512 __attribute__((target("avx512f")))
#define AVX512_BF16 __attribute__((target("avx512f,avx512bf16")))

AVX512 CPU_INLINE void finish_row(const struct kernel_tile *tile, int i, const __m512 sums[VECTORS]) {
    const float *addend = tile->addend + i * tile->addend_stride;
    float *d = tile->d + i * tile->stride;
    CPU_UNROLL
    for (int j = 0; j < VECTORS; j++)
        _mm512_storeu_ps(d + j * LANES, _mm512_add_ps(sums[j], _mm512_loadu_ps(addend + j * LANES)));
}

AVX512 static void multiply_12x32(const struct kernel_tile *tile) {
    __m512 sums[F32_ROWS][VECTORS];
    const float *a = tile->a, *b = tile->b;
    CPU_UNROLL
    for (int i = 0; i < F32_ROWS; i++)
        sums[i][0] = sums[i][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < tile->inner; k++) {
        __m512 left = _mm512_loadu_ps(b), right = _mm512_loadu_ps(b + LANES);
        _mm_prefetch((const char *)a + A_AHEAD_BYTES, _MM_HINT_T0);
        _mm_prefetch((const char *)b + B_AHEAD_BYTES, _MM_HINT_T0);
        _mm_prefetch((const char *)(b + LANES) + B_AHEAD_BYTES, _MM_HINT_T0);
        CPU_UNROLL
        for (int i = 0; i < F32_ROWS; i++) {
            __m512 row = _mm512_set1_ps(a[i]);
            sums[i][0] = _mm512_fmadd_ps(row, left, sums[i][0]);
            sums[i][1] = _mm512_fmadd_ps(row, right, sums[i][1]);
        }
        a += F32_ROWS;
        b += VECTORS * LANES;
    }
    CPU_UNROLL
    for (int i = 0; i < F32_ROWS; i++)
        finish_row(tile, i, sums[i]);
}

AVX512_BF16 static void multiply_8x32_bf16(const struct kernel_tile *tile) {
    __m512 sums[BF16_ROWS][VECTORS];
    const int32_t *a = tile->a, *b = tile->b;  // two steps of a line each
    CPU_UNROLL
    for (int i = 0; i < BF16_ROWS; i++)
        sums[i][0] = sums[i][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < tile->inner; k += 2) {
        __m512bh left = (__m512bh)_mm512_loadu_si512(b), right = (__m512bh)_mm512_loadu_si512(b + LANES);
        _mm_prefetch((const char *)a + A_AHEAD_BYTES, _MM_HINT_T0);
        CPU_UNROLL
        for (int i = 0; i < BF16_ROWS; i++) {
            __m512bh row = (__m512bh)_mm512_set1_epi32(a[i]);
            sums[i][0] = _mm512_dpbf16_ps(sums[i][0], row, left);
            sums[i][1] = _mm512_dpbf16_ps(sums[i][1], row, right);
        }
        a += BF16_ROWS;
        b += VECTORS * LANES;
    }
    CPU_UNROLL
    for (int i = 0; i < BF16_ROWS; i++)
        finish_row(tile, i, sums[i]);
}

const struct cpu_kernel *kernel_avx512(void) {
    static const struct cpu_kernel kernel = {.name = "avx512",
                                             .dtype = DTYPE_F32,
                                             .a = {.width = F32_ROWS, .group = 1, .unit = 1},
                                             .b = {.width = VECTORS * LANES, .group = 1, .unit = 1},
                                             .most_steps = 384,
                                             .move_cost = 16,
                                             .multiply = multiply_12x32};
    return __builtin_cpu_supports("avx512f") ? &kernel : NULL;
}

const struct cpu_kernel *kernel_avx512_bf16(void) {
    static const struct cpu_kernel kernel = {.name = "avx512-bf16",
                                             .dtype = DTYPE_BF16,
                                             .a = {.width = BF16_ROWS, .group = 2, .unit = 2},
                                             .b = {.width = VECTORS * LANES, .group = 2, .unit = 2},
                                             .most_steps = 512,
                                             .move_cost = 32,
                                             .multiply = multiply_8x32_bf16};
    return __builtin_cpu_supports("avx512bf16") ? &kernel : NULL;
}

#else

const struct cpu_kernel *kernel_avx512(void) {
    return NULL;
}

const struct cpu_kernel *kernel_avx512_bf16(void) {
    return NULL;
}

#endif
