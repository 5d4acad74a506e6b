// The micro-kernel for x86-64 processors with AVX2 and FMA: a tile of 4 x 24 in 12 of the 16 vector registers, three of
// them hold a step of b and one an element of a. A step has 7 loads for 12 multiplications; the processor executes as
// many of each per cycle.
#include "ops/cpu/kernel.h"
#include "ops/cpu/clones.h"
#include <stddef.h>

#if defined(__x86_64__)

#include <immintrin.h>

enum { ROWS = 4, VECTORS = 3, LANES = 8 };

__attribute__((target("avx2,fma"))) static void multiply_4x24(const struct kernel_tile *tile) {
    __m256 sums[ROWS][VECTORS];
    const float *a = tile->a, *b = tile->b;
    CPU_UNROLL
    for (int i = 0; i < ROWS; i++) {
        CPU_UNROLL
        for (int j = 0; j < VECTORS; j++)
            sums[i][j] = _mm256_setzero_ps();
    }
    for (int64_t k = 0; k < tile->inner; k++) {
        __m256 columns[VECTORS];
        CPU_UNROLL
        for (int j = 0; j < VECTORS; j++)
            columns[j] = _mm256_loadu_ps(b + j * LANES);
        CPU_UNROLL
        for (int i = 0; i < ROWS; i++) {
            __m256 row = _mm256_broadcast_ss(a + i);
            CPU_UNROLL
            for (int j = 0; j < VECTORS; j++)
                sums[i][j] = _mm256_fmadd_ps(row, columns[j], sums[i][j]);
        }
        a += ROWS;
        b += VECTORS * LANES;
    }
    CPU_UNROLL
    for (int i = 0; i < ROWS; i++) {
        const float *addend = tile->addend + i * tile->addend_stride;
        float *d = tile->d + i * tile->stride;
        CPU_UNROLL
        for (int j = 0; j < VECTORS; j++)
            _mm256_storeu_ps(d + j * LANES, _mm256_add_ps(sums[i][j], _mm256_loadu_ps(addend + j * LANES)));
    }
}

const struct cpu_kernel *kernel_avx2(void) {
    static const struct cpu_kernel kernel = {.name = "avx2",
                                             .dtype = DTYPE_F32,
                                             .a = {.width = ROWS, .group = 1, .unit = 1},
                                             .b = {.width = VECTORS * LANES, .group = 1, .unit = 1},
                                             .most_steps = 256,
                                             .move_cost = 8,
                                             .multiply = multiply_4x24};
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernel : NULL;
}

#else

const struct cpu_kernel *kernel_avx2(void) {
    return NULL;
}

#endif
