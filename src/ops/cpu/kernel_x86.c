// The micro-kernels for x86-64 processors.
#include "ops/cpu/kernel.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- AVX2 and FMA ----

// A tile of 4 x 24 in 12 of the 16 vector registers, three of
// them hold a step of b and one an element of a. A step has 7 loads for 12 multiplications; the processor executes as
// many of each per cycle.

enum { AVX2_ROWS = 4, AVX2_VECTORS = 3, AVX2_LANES = 8 };

__attribute__((target("avx2,fma"))) static void multiply_4x24(const struct kernel_tile *tile) {
    __m256 sums[AVX2_ROWS][AVX2_VECTORS];
    const float *a = tile->a, *b = tile->b;
    CPU_UNROLL
    for (int i = 0; i < AVX2_ROWS; i++) {
        CPU_UNROLL
        for (int j = 0; j < AVX2_VECTORS; j++)
            sums[i][j] = _mm256_setzero_ps();
    }
    for (int64_t k = 0; k < tile->inner; k++) {
        __m256 columns[AVX2_VECTORS];
        CPU_UNROLL
        for (int j = 0; j < AVX2_VECTORS; j++)
            columns[j] = _mm256_loadu_ps(b + j * AVX2_LANES);
        CPU_UNROLL
        for (int i = 0; i < AVX2_ROWS; i++) {
            __m256 row = _mm256_broadcast_ss(a + i);
            CPU_UNROLL
            for (int j = 0; j < AVX2_VECTORS; j++)
                sums[i][j] = _mm256_fmadd_ps(row, columns[j], sums[i][j]);
        }
        a += AVX2_ROWS;
        b += AVX2_VECTORS * AVX2_LANES;
    }
    CPU_UNROLL
    for (int i = 0; i < AVX2_ROWS; i++) {
        const float *addend = tile->addend + i * tile->addend_stride;
        float *d = tile->d + i * tile->stride;
        CPU_UNROLL
        for (int j = 0; j < AVX2_VECTORS; j++)
            _mm256_storeu_ps(d + j * AVX2_LANES, _mm256_add_ps(sums[i][j], _mm256_loadu_ps(addend + j * AVX2_LANES)));
    }
}

const struct cpu_kernel *kernel_avx2(void) {
    static const struct cpu_kernel kernel = {.name = "avx2",
                                             .dtype = DTYPE_F32,
                                             .a = {.width = AVX2_ROWS, .group = 1, .unit = 1},
                                             .b = {.width = AVX2_VECTORS * AVX2_LANES, .group = 1, .unit = 1},
                                             .most_steps = 256,
                                             .move_cost = 8,
                                             .multiply = multiply_4x24};
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernel : NULL;
}

// ---- AVX-512 ----

// For fp32, and for bf16 where there is VDPBF16PS, which multiplies two
// steps at once and adds both products to an fp32 sum. A tile of 12 x 32 takes 24 of the 32 vector registers, one of 8
// x 32 takes 16. Panels of a stream from the L2 cache, and so do parts of b's panel that the L1 cache, possibly shared
// with a hyperthread, has evicted: both are prefetched.

enum { F32_ROWS = 12, BF16_ROWS = 8, AVX512_VECTORS = 2, AVX512_LANES = 16, A_AHEAD_BYTES = 768, B_AHEAD_BYTES = 1024 };

#define AVX512 __attribute__((target("avx512f")))
#define AVX512_BF16 __attribute__((target("avx512f,avx512bf16")))

AVX512 CPU_INLINE void finish_row(const struct kernel_tile *tile, int i, const __m512 sums[AVX512_VECTORS]) {
    const float *addend = tile->addend + i * tile->addend_stride;
    float *d = tile->d + i * tile->stride;
    CPU_UNROLL
    for (int j = 0; j < AVX512_VECTORS; j++)
        _mm512_storeu_ps(d + j * AVX512_LANES, _mm512_add_ps(sums[j], _mm512_loadu_ps(addend + j * AVX512_LANES)));
}

AVX512 static void multiply_12x32(const struct kernel_tile *tile) {
    __m512 sums[F32_ROWS][AVX512_VECTORS];
    const float *a = tile->a, *b = tile->b;
    CPU_UNROLL
    for (int i = 0; i < F32_ROWS; i++)
        sums[i][0] = sums[i][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < tile->inner; k++) {
        __m512 left = _mm512_loadu_ps(b), right = _mm512_loadu_ps(b + AVX512_LANES);
        _mm_prefetch((const char *)a + A_AHEAD_BYTES, _MM_HINT_T0);
        _mm_prefetch((const char *)b + B_AHEAD_BYTES, _MM_HINT_T0);
        _mm_prefetch((const char *)(b + AVX512_LANES) + B_AHEAD_BYTES, _MM_HINT_T0);
        CPU_UNROLL
        for (int i = 0; i < F32_ROWS; i++) {
            __m512 row = _mm512_set1_ps(a[i]);
            sums[i][0] = _mm512_fmadd_ps(row, left, sums[i][0]);
            sums[i][1] = _mm512_fmadd_ps(row, right, sums[i][1]);
        }
        a += F32_ROWS;
        b += AVX512_VECTORS * AVX512_LANES;
    }
    CPU_UNROLL
    for (int i = 0; i < F32_ROWS; i++)
        finish_row(tile, i, sums[i]);
}

AVX512_BF16 static void multiply_8x32_bf16(const struct kernel_tile *tile) {
    __m512 sums[BF16_ROWS][AVX512_VECTORS];
    const int32_t *a = tile->a, *b = tile->b;  // two steps of a line each
    CPU_UNROLL
    for (int i = 0; i < BF16_ROWS; i++)
        sums[i][0] = sums[i][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < tile->inner; k += 2) {
        __m512bh left = (__m512bh)_mm512_loadu_si512(b), right = (__m512bh)_mm512_loadu_si512(b + AVX512_LANES);
        _mm_prefetch((const char *)a + A_AHEAD_BYTES, _MM_HINT_T0);
        CPU_UNROLL
        for (int i = 0; i < BF16_ROWS; i++) {
            __m512bh row = (__m512bh)_mm512_set1_epi32(a[i]);
            sums[i][0] = _mm512_dpbf16_ps(sums[i][0], row, left);
            sums[i][1] = _mm512_dpbf16_ps(sums[i][1], row, right);
        }
        a += BF16_ROWS;
        b += AVX512_VECTORS * AVX512_LANES;
    }
    CPU_UNROLL
    for (int i = 0; i < BF16_ROWS; i++)
        finish_row(tile, i, sums[i]);
}

const struct cpu_kernel *kernel_avx512(void) {
    static const struct cpu_kernel kernel = {.name = "avx512",
                                             .dtype = DTYPE_F32,
                                             .a = {.width = F32_ROWS, .group = 1, .unit = 1},
                                             .b = {.width = AVX512_VECTORS * AVX512_LANES, .group = 1, .unit = 1},
                                             .most_steps = 384,
                                             .move_cost = 16,
                                             .multiply = multiply_12x32};
    return __builtin_cpu_supports("avx512f") ? &kernel : NULL;
}

const struct cpu_kernel *kernel_avx512_bf16(void) {
    static const struct cpu_kernel kernel = {.name = "avx512-bf16",
                                             .dtype = DTYPE_BF16,
                                             .a = {.width = BF16_ROWS, .group = 2, .unit = 2},
                                             .b = {.width = AVX512_VECTORS * AVX512_LANES, .group = 2, .unit = 2},
                                             .most_steps = 512,
                                             .move_cost = 32,
                                             .multiply = multiply_8x32_bf16};
    return __builtin_cpu_supports("avx512bf16") ? &kernel : NULL;
}

// ---- AMX ----

// For bf16. A tile register is 16 rows of 64 bytes. One TDPBF16PS adds
// the product of 16 rows of a, 32 steps each, and 16 columns of b, pairs of steps by columns, to 16 x 16 sums in fp32.
// Four registers of sums, two of a and two of b make a tile of 32 x 32, for which four are loaded and four multiplied
// every 32 steps.
//
// The shapes of the registers are part of a thread's state: tiles are multiplied between enter and leave. leave
// releases the state, which would add 8 KB to every context switch of the thread.

enum { AMX_ROWS = 32, AMX_COLUMNS = 32, AMX_STEPS = 32 };
enum {
    REGISTER_LINES = 16,
    REGISTER_BYTES = 1024,
    A_STRIDE = 64,
    B_STRIDE = 128,
    PANEL_BYTES = 2048,
    AHEAD_BYTES = 4096
};

#define AMX __attribute__((target("amx-tile,amx-bf16")))

// Prefetches one register's part of a panel of a from the L2 into the L1 cache.
AMX CPU_INLINE void fetch(const char *a) {
    CPU_UNROLL
    for (int i = 0; i < REGISTER_LINES; i++)
        _mm_prefetch(a + i * A_STRIDE, _MM_HINT_T0);
}

AMX static void multiply_32x32(const struct kernel_tile *tile) {
    const char *a = tile->a, *b = tile->b;
    const float *addend = tile->addend;
    float *d = tile->d;
    int64_t stride = tile->stride * (int64_t)sizeof *d, addend_stride = tile->addend_stride * (int64_t)sizeof *d;
    int64_t half = REGISTER_LINES * tile->stride, addend_half = REGISTER_LINES * tile->addend_stride;
    _tile_loadd(0, addend, addend_stride);
    _tile_loadd(1, addend + REGISTER_LINES, addend_stride);
    _tile_loadd(2, addend + addend_half, addend_stride);
    _tile_loadd(3, addend + addend_half + REGISTER_LINES, addend_stride);
    for (int64_t k = 0; k < tile->inner; k += AMX_STEPS) {
        _tile_loadd(4, b, B_STRIDE);
        _tile_loadd(6, a, A_STRIDE);
        _tile_loadd(5, b + B_STRIDE / 2, B_STRIDE);
        fetch(a + AHEAD_BYTES);
        _tile_dpbf16ps(0, 6, 4);
        _tile_loadd(7, a + REGISTER_BYTES, A_STRIDE);
        fetch(a + AHEAD_BYTES + REGISTER_BYTES);
        _tile_dpbf16ps(1, 6, 5);
        _tile_dpbf16ps(2, 7, 4);
        _tile_dpbf16ps(3, 7, 5);
        a += PANEL_BYTES;
        b += PANEL_BYTES;
    }
    _tile_stored(0, d, stride);
    _tile_stored(1, d + REGISTER_LINES, stride);
    _tile_stored(2, d + half, stride);
    _tile_stored(3, d + half + REGISTER_LINES, stride);
}

AMX static void enter(void) {
    // The layout of LDTILECFG: palette 1, then each register's bytes per row and rows.
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&shapes);
}

AMX static void leave(void) {
    _tile_release();
}

// Linux saves the large state only for processes that have requested it.
static bool system_allows_tiles(void) {
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA of the Linux ABI
    return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}

static bool processor_has_amx(void) {
    enum { BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE);
}

const struct cpu_kernel *kernel_amx(void) {
    static const struct cpu_kernel kernel = {.name = "amx",
                                             .dtype = DTYPE_BF16,
                                             .a = {.width = AMX_ROWS, .group = AMX_STEPS, .unit = AMX_STEPS},
                                             .b = {.width = AMX_COLUMNS, .group = 2, .unit = AMX_STEPS},
                                             .most_steps = 768,
                                             .move_cost = 128,
                                             .multiply = multiply_32x32,
                                             .enter = enter,
                                             .leave = leave};
    return processor_has_amx() && system_allows_tiles() ? &kernel : NULL;
}

#endif
