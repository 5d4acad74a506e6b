// The common frame of the assembly micro-kernels for aarch64: a tile of 8 x 12 sums in registers 8 to 31, panels of a
// and b that are read once from front to end, then the rows of the result. A kernel fills in its loads before the loop,
// the loop body, how much of `inner` one iteration consumes, and how a row is assembled.
#ifndef OPS_CPU_KERNEL_AARCH64_H
#define OPS_CPU_KERNEL_AARCH64_H

#include "ops/cpu/kernel.h"

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

#endif
