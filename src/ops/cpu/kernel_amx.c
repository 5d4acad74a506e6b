// The micro-kernel for bf16 on x86-64 processors with AMX. A tile register is 16 rows of 64 bytes. One TDPBF16PS adds
// the product of 16 rows of a, 32 steps each, and 16 columns of b, pairs of steps by columns, to 16 x 16 sums in fp32.
// Four registers of sums, two of a and two of b make a tile of 32 x 32, for which four are loaded and four multiplied
// every 32 steps.
//
// The shapes of the registers are part of a thread's state: tiles are multiplied between enter and leave. leave
// releases the state, which would add 8 KB to every context switch of the thread.
#include "ops/cpu/kernel.h"
#include "ops/cpu/clones.h"
#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROWS = 32, COLUMNS = 32, STEPS = 32 };
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
    for (int64_t k = 0; k < tile->inner; k += STEPS) {
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
                                             .a = {.width = ROWS, .group = STEPS, .unit = STEPS},
                                             .b = {.width = COLUMNS, .group = 2, .unit = STEPS},
                                             .most_steps = 768,
                                             .move_cost = 128,
                                             .multiply = multiply_32x32,
                                             .enter = enter,
                                             .leave = leave};
    return processor_has_amx() && system_allows_tiles() ? &kernel : NULL;
}

#else

const struct cpu_kernel *kernel_amx(void) {
    return NULL;
}

#endif
