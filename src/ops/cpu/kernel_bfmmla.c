// The micro-kernel for bf16 on aarch64 processors with the BF16 extension. One BFMMLA multiplies two rows of a by two
// columns of b over four steps and adds the four sums to an fp32 register, four times the work of an fp32 instruction:
// Neoverse V1 does 3.4 a cycle in this loop (2026-11-15). A tile of 8 x 12 is 24 such registers.
#include "ops/cpu/kernel_aarch64.h"
#include <stddef.h>

#if defined(__aarch64__)

#include <sys/auxv.h>

enum { HWCAP2_HAS_BF16 = 1 << 14 };  // HWCAP2_BF16 of the Linux ABI

// c += a b, as a raw opcode: assemblers disagree on how to enable the extension.
#define BFMMLA(c, a, b) ".inst 0x6e40ec00 | (" #b " << 16) | (" #a " << 5) | " #c "\n\t"
#define NOTHING ""

// Two columns of the tile, four steps: registers 0 to 3 hold a. The load is of b, three registers ahead.
#define TWO_COLUMNS(c0, c1, c2, c3, b, load, prefetch)                                                                 \
    BFMMLA(c0, 0, b) load BFMMLA(c1, 1, b) BFMMLA(c2, 2, b) prefetch BFMMLA(c3, 3, b)
// The last two columns; each register of a is reloaded after its last use.
#define LAST_COLUMNS(c0, c1, c2, c3, b, load)                                                                          \
    BFMMLA(c0, 0, b) LOAD_A(0) BFMMLA(c1, 1, b) LOAD_A(1) load BFMMLA(c2, 2, b) LOAD_A(2) BFMMLA(c3, 3, b) LOAD_A(3)

// Four steps. The six loads of b rotate through four registers, so two of these make one loop iteration.
#define FOUR_STEPS(b0, b1, b2, b3)                                                                                     \
    TWO_COLUMNS(8, 9, 10, 11, b0, LOAD_B(b3), NOTHING)                                                                 \
    TWO_COLUMNS(12, 13, 14, 15, b1, LOAD_B(b0), NOTHING)                                                               \
    TWO_COLUMNS(16, 17, 18, 19, b2, LOAD_B(b1), NOTHING)                                                               \
    TWO_COLUMNS(20, 21, 22, 23, b3, LOAD_B(b2), NOTHING)                                                               \
    TWO_COLUMNS(24, 25, 26, 27, b0, LOAD_B(b3), PREFETCH_A)                                                            \
    LAST_COLUMNS(28, 29, 30, 31, b1, LOAD_B(b0))

// A row of twelve: one half (1: low, 2: high) of each of six registers.
#define FINISH_ROW(half, c0, c1, c2, c3, c4, c5)                                                                       \
    FINISH_ONE_ROW("zip" #half " v3.2d, v" #c0 ".2d, v" #c1 ".2d\n\t"                                                  \
                   "zip" #half " v4.2d, v" #c2 ".2d, v" #c3 ".2d\n\t"                                                  \
                   "zip" #half " v5.2d, v" #c4 ".2d, v" #c5 ".2d\n\t"                                                  \
                   "fadd v0.4s, v0.4s, v3.4s\n\t"                                                                      \
                   "fadd v1.4s, v1.4s, v4.4s\n\t"                                                                      \
                   "fadd v2.4s, v2.4s, v5.4s\n\t"                                                                      \
                   "stp q0, q1, [%[d]]\n\t"                                                                            \
                   "str q2, [%[d], #32]\n\t")
#define FINISH_ROWS(c0, c1, c2, c3, c4, c5) FINISH_ROW(1, c0, c1, c2, c3, c4, c5) FINISH_ROW(2, c0, c1, c2, c3, c4, c5)

// clang-format off
static void multiply_8x12(const struct kernel_tile *tile) {
    MULTIPLY_8X12(
        tile,
        LOAD_B(4) LOAD_B(5) LOAD_B(6) LOAD_A(0) LOAD_A(1) LOAD_A(2) LOAD_A(3),
        FOUR_STEPS(4, 5, 6, 7)
        FOUR_STEPS(6, 7, 4, 5), 8,
        FINISH_ROWS(8, 12, 16, 20, 24, 28) FINISH_ROWS(9, 13, 17, 21, 25, 29)
        FINISH_ROWS(10, 14, 18, 22, 26, 30) FINISH_ROWS(11, 15, 19, 23, 27, 31));
}
// clang-format on

const struct cpu_kernel *kernel_bfmmla(void) {
    static const struct cpu_kernel kernel = {.name = "bfmmla",
                                             .dtype = DTYPE_BF16,
                                             .a = {.width = 8, .group = 4, .unit = 8},
                                             .b = {.width = 12, .group = 4, .unit = 8},
                                             .most_steps = 1024,
                                             .move_cost = 32,
                                             .multiply = multiply_8x12};
    return getauxval(AT_HWCAP2) & HWCAP2_HAS_BF16 ? &kernel : NULL;
}

#else

const struct cpu_kernel *kernel_bfmmla(void) {
    return NULL;
}

#endif
