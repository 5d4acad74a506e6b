// The micro-kernel for aarch64: a tile of 8 x 12 in 24 of the 32 vector registers, a row to a lane of a, four columns
// to a register of b. In assembly because the placement of loads matters: spread among the multiplications and a step
// ahead they are free, and Neoverse V1 does 3.97 of at most 4 multiplications a cycle; with the loads at the start of a
// step 3.8, with intrinsics compiled by gcc 12 3.1 (2026-11-15, panels in the L1 and L2 caches).
#include "ops/cpu/kernel_aarch64.h"
#include <stddef.h>

#if defined(__aarch64__)

#define FMLA(c, b, a, lane) "fmla v" #c ".4s, v" #b ".4s, v" #a ".s[" #lane "]\n\t"

// Four columns of the tile, one step: register b times each lane of a0 and a1. The loads are for the next step.
#define COLUMNS_0(b, a0, a1, load_b, load_a)                                                                           \
    FMLA(8, b, a0, 0)                                                                                                  \
    load_b FMLA(9, b, a0, 1) FMLA(10, b, a0, 2) FMLA(11, b, a0, 3) FMLA(12, b, a1, 0) load_a FMLA(13, b, a1, 1)        \
        FMLA(14, b, a1, 2) FMLA(15, b, a1, 3)
#define COLUMNS_1(b, a0, a1, load_b, load_a)                                                                           \
    FMLA(16, b, a0, 0)                                                                                                 \
    load_b FMLA(17, b, a0, 1) FMLA(18, b, a0, 2) FMLA(19, b, a0, 3) FMLA(20, b, a1, 0) load_a FMLA(21, b, a1, 1)       \
        FMLA(22, b, a1, 2) FMLA(23, b, a1, 3)
#define COLUMNS_2(b, a0, a1, load_b, load_a)                                                                           \
    FMLA(24, b, a0, 0)                                                                                                 \
    load_b FMLA(25, b, a0, 1) FMLA(26, b, a0, 2) FMLA(27, b, a0, 3) FMLA(28, b, a1, 0) load_a FMLA(29, b, a1, 1)       \
        FMLA(30, b, a1, 2) FMLA(31, b, a1, 3)

// One step. The three loads of b rotate through four registers, so that each is loaded while the previous one is in
// use; a alternates between two pairs.
#define STEP(b0, b1, b2, spare, a0, a1, next_a0, next_a1)                                                              \
    COLUMNS_0(b0, a0, a1, LOAD_B(spare), LOAD_A(next_a0))                                                              \
    COLUMNS_1(b1, a0, a1, LOAD_B(b0), LOAD_A(next_a1))                                                                 \
    COLUMNS_2(b2, a0, a1, LOAD_B(b1), PREFETCH_A)

#define FINISH_ROW(c0, c1, c2)                                                                                         \
    FINISH_ONE_ROW("fadd v" #c0 ".4s, v" #c0 ".4s, v0.4s\n\t"                                                          \
                   "fadd v" #c1 ".4s, v" #c1 ".4s, v1.4s\n\t"                                                          \
                   "fadd v" #c2 ".4s, v" #c2 ".4s, v2.4s\n\t"                                                          \
                   "stp q" #c0 ", q" #c1 ", [%[d]]\n\t"                                                                \
                   "str q" #c2 ", [%[d], #32]\n\t")

// clang-format off
static void multiply_8x12(const struct kernel_tile *tile) {
    MULTIPLY_8X12(
        tile,
        LOAD_B(0) LOAD_B(1) LOAD_B(2) LOAD_A(4) LOAD_A(5),
        STEP(0, 1, 2, 3, 4, 5, 6, 7)
        STEP(3, 0, 1, 2, 6, 7, 4, 5)
        STEP(2, 3, 0, 1, 4, 5, 6, 7)
        STEP(1, 2, 3, 0, 6, 7, 4, 5), 4,
        FINISH_ROW(8, 16, 24) FINISH_ROW(9, 17, 25) FINISH_ROW(10, 18, 26) FINISH_ROW(11, 19, 27)
        FINISH_ROW(12, 20, 28) FINISH_ROW(13, 21, 29) FINISH_ROW(14, 22, 30) FINISH_ROW(15, 23, 31));
}
// clang-format on

const struct cpu_kernel *kernel_neon(void) {
    static const struct cpu_kernel kernel = {.name = "neon",
                                             .dtype = DTYPE_F32,
                                             .a = {.width = 8, .group = 1, .unit = 4},
                                             .b = {.width = 12, .group = 1, .unit = 4},
                                             .most_steps = 512,
                                             .move_cost = 8,
                                             .multiply = multiply_8x12};
    return &kernel;
}

#else

const struct cpu_kernel *kernel_neon(void) {
    return NULL;
}

#endif
