// The micro-kernels for aarch64, in assembly.
// Their common frame: a tile of 8 x 12 sums in registers 8 to 31, panels of a
// and b that are read once from front to end, then the rows of the result. A kernel fills in its loads before the loop,
// the loop body, how much of `inner` one iteration consumes, and how a row is assembled.
#include "ops/cpu/kernel.h"

#if defined(__aarch64__)

#include <stddef.h>
#include <sys/auxv.h>

#define LOAD_A(register) "ldr q" #register ", [%[a]], #16\n\t"
#define LOAD_B(register) "ldr q" #register ", [%[b]], #16\n\t"
// Panels of a stream from the L2 cache: prefetching 512 bytes ahead gained 3 % on a Neoverse V1 (2026-11-15).
#define PREFETCH_A "prfm pldl1keep, [%[a], #512]\n\t"

// Loads the addend's row of twelve into registers 0 to 2; then `sums` adds and stores, and both pointers advance a row.
#define FINISH_ONE_ROW(sums)                                                                                           \
    "ldp q0, q1, [%[addend]]\n\t"                                                                                      \
    "ldr q2, [%[addend], #32]\n\t" sums "add %[addend], %[addend], %[addend_stride], lsl #2\n\t"                       \
    "add %[d], %[d], %[stride], lsl #2\n\t"

#define ZERO(c) "movi v" #c ".4s, #0\n\t"

// clang-format off
#define MULTIPLY_8X12(tile, first_loads, turn, steps_of_turn, finish)                                                  \
    do {                                                                                                               \
        int64_t inner = (tile)->inner;                                                                                 \
        const void *a = (tile)->a, *b = (tile)->b;                                                                     \
        const float *addend = (tile)->addend;                                                                          \
        float *d = (tile)->d;                                                                                          \
        __asm__ volatile(                                                                                              \
            ZERO(8) ZERO(9) ZERO(10) ZERO(11) ZERO(12) ZERO(13) ZERO(14) ZERO(15)                                      \
            ZERO(16) ZERO(17) ZERO(18) ZERO(19) ZERO(20) ZERO(21) ZERO(22) ZERO(23)                                    \
            ZERO(24) ZERO(25) ZERO(26) ZERO(27) ZERO(28) ZERO(29) ZERO(30) ZERO(31)                                    \
            "cbz %[inner], 2f\n\t"                                                                                     \
            first_loads                                                                                                \
            ".p2align 6\n"                                                                                             \
            "1:\n\t"                                                                                                   \
            turn                                                                                                       \
            "subs %[inner], %[inner], #" #steps_of_turn "\n\t"                                                         \
            "b.ne 1b\n"                                                                                                \
            "2:\n\t"                                                                                                   \
            finish                                                                                                     \
            : [inner] "+r"(inner), [a] "+r"(a), [b] "+r"(b), [addend] "+r"(addend), [d] "+r"(d)                        \
            : [addend_stride] "r"((tile)->addend_stride), [stride] "r"((tile)->stride)                                 \
            : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",  \
              "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", \
              "v29", "v30", "v31");                                                                                    \
    } while (0)
// clang-format on

// ---- NEON ----

// A tile of 8 x 12 in 24 of the 32 vector registers, a row to a lane of a, four columns
// to a register of b. In assembly because the placement of loads matters: spread among the multiplications and a step
// ahead they are free, and Neoverse V1 does 3.97 of at most 4 multiplications a cycle; with the loads at the start of a
// step 3.8, with intrinsics compiled by gcc 12 3.1 (2026-11-15, panels in the L1 and L2 caches).

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
static void neon_multiply_8x12(const struct kernel_tile *tile) {
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
                                             .multiply = neon_multiply_8x12};
    return &kernel;
}

// ---- BFMMLA ----

// For bf16 on processors with the BF16 extension. One BFMMLA multiplies two rows of a by two
// columns of b over four steps and adds the four sums to an fp32 register, four times the work of an fp32 instruction:
// Neoverse V1 does 3.4 a cycle in this loop (2026-11-15). A tile of 8 x 12 is 24 such registers.

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
#define FINISH_HALF_ROW(half, c0, c1, c2, c3, c4, c5)                                                                  \
    FINISH_ONE_ROW("zip" #half " v3.2d, v" #c0 ".2d, v" #c1 ".2d\n\t"                                                  \
                   "zip" #half " v4.2d, v" #c2 ".2d, v" #c3 ".2d\n\t"                                                  \
                   "zip" #half " v5.2d, v" #c4 ".2d, v" #c5 ".2d\n\t"                                                  \
                   "fadd v0.4s, v0.4s, v3.4s\n\t"                                                                      \
                   "fadd v1.4s, v1.4s, v4.4s\n\t"                                                                      \
                   "fadd v2.4s, v2.4s, v5.4s\n\t"                                                                      \
                   "stp q0, q1, [%[d]]\n\t"                                                                            \
                   "str q2, [%[d], #32]\n\t")
#define FINISH_TWO_ROWS(c0, c1, c2, c3, c4, c5)                                                                        \
    FINISH_HALF_ROW(1, c0, c1, c2, c3, c4, c5) FINISH_HALF_ROW(2, c0, c1, c2, c3, c4, c5)

// clang-format off
static void bfmmla_multiply_8x12(const struct kernel_tile *tile) {
    MULTIPLY_8X12(
        tile,
        LOAD_B(4) LOAD_B(5) LOAD_B(6) LOAD_A(0) LOAD_A(1) LOAD_A(2) LOAD_A(3),
        FOUR_STEPS(4, 5, 6, 7)
        FOUR_STEPS(6, 7, 4, 5), 8,
        FINISH_TWO_ROWS(8, 12, 16, 20, 24, 28) FINISH_TWO_ROWS(9, 13, 17, 21, 25, 29)
        FINISH_TWO_ROWS(10, 14, 18, 22, 26, 30) FINISH_TWO_ROWS(11, 15, 19, 23, 27, 31));
}
// clang-format on

const struct cpu_kernel *kernel_bfmmla(void) {
    static const struct cpu_kernel kernel = {.name = "bfmmla",
                                             .dtype = DTYPE_BF16,
                                             .a = {.width = 8, .group = 4, .unit = 8},
                                             .b = {.width = 12, .group = 4, .unit = 8},
                                             .most_steps = 1024,
                                             .move_cost = 32,
                                             .multiply = bfmmla_multiply_8x12};
    return getauxval(AT_HWCAP2) & HWCAP2_HAS_BF16 ? &kernel : NULL;
}

#endif
