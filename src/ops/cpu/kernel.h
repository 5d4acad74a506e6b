// Micro-kernels: the innermost loop of a matmul, over operands that were packed into panels. A panel holds `width`
// neighbouring lines of an operand, ordered by steps of the inner dimension, so that the kernel reads both operands
// sequentially. A kernel is a row of a table: its panel shapes and a function. The code around it (packing, blocks,
// threads, attention) is the same for all kernels. Private to ops/cpu.
#ifndef OPS_CPU_KERNEL_H
#define OPS_CPU_KERNEL_H

#include "tensor/tensor.h"

#include <stdint.h>

// At least KERNEL_SLACK_BYTES after a panel may be read. A tile has at most KERNEL_MOST_ROWS by KERNEL_MOST_COLUMNS
// elements.
enum { KERNEL_SLACK_BYTES = 256, KERNEL_MOST_ROWS = 32, KERNEL_MOST_COLUMNS = 32, KERNEL_MOST_UNIT = 32 };
enum { KERNEL_MOST = 4 };  // of one processor

// A panel is (steps / group, width, group): `group` steps of a line lie side by side. Its steps are filled up with
// zeros to a multiple of `unit`, which is one of `group`. fp32 panels have groups of 1, bf16 ones longer groups.
struct panel_shape {
    int64_t width, group, unit;
};

// d = a^T b + addend, for one tile.
struct kernel_tile {
    int64_t inner;      // steps, a multiple of the panels' unit
    const void *a, *b;  // panels of `inner` steps
    const float *addend;
    int64_t addend_stride;  // 0 if all rows get the same
    float *d;               // may be the addend
    int64_t stride;
};

struct cpu_kernel {
    const char *name;
    enum dtype dtype;         // of the panels; sums are in fp32
    struct panel_shape a, b;  // a tile has a.width rows and b.width columns
    int64_t most_steps;       // best per call: a panel of b then stays in the L1 cache from tile to tile
    int64_t move_cost;        // about how many multiplications take as long as packing or fetching an element
    // Every element is one sum from the first step to the last, to which the addend is added, first or last.
    void (*multiply)(const struct kernel_tile *tile);
    // Called by a thread before its first and after its last matmul of a task; may be NULL.
    void (*enter)(void);
    void (*leave)(void);
};

// A row of zeros, for an addend.
extern const float kernel_zeros[KERNEL_MOST_COLUMNS];

// A part of a tile, or a tile with factors: d = alpha a^T b + addend_factor * addend in its first rows and columns; the
// rest of d and the addend is not accessed.
struct kernel_part {
    int64_t rows, columns;
    float alpha, addend_factor;
};
void kernel_multiply_part(const struct cpu_kernel *kernel, const struct kernel_tile *tile,
                          const struct kernel_part *part);

// The kernels that this processor supports, best first, then NULL: all, or those in `names`, separated by commas.
// "openblas" stands for no kernel.
int kernel_choose(const struct cpu_kernel *chosen[KERNEL_MOST + 1], const char *names);

// Each is NULL if the processor lacks the instructions, and exists only in builds for its kind.
const struct cpu_kernel *kernel_neon(void);         // fp32, aarch64
const struct cpu_kernel *kernel_bfmmla(void);       // bf16, aarch64 with the BF16 extension
const struct cpu_kernel *kernel_avx2(void);         // fp32, x86-64 with AVX2 and FMA
const struct cpu_kernel *kernel_avx512(void);       // fp32, x86-64 with AVX-512
const struct cpu_kernel *kernel_avx512_bf16(void);  // bf16, x86-64 with AVX512-BF16
const struct cpu_kernel *kernel_amx(void);          // bf16, x86-64 with AMX, where the system lets us use it

// CPU_CLONES before a function compiles it for several levels of x86-64 and picks the best one when the program starts.
// The helpers it uses are CPU_INLINE, so that each clone compiles its own copy. The macro is empty on aarch64, where
// NEON is always available, and under sanitizers, which do not support the choice at start-up.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(BEVATRON_SANITIZE)
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

// Before a loop that takes a maximum into `max` by vector_max. Clang cannot vectorize such a loop and would warn.
#if defined(__clang__)
#define CPU_SIMD_MAX
#else
#define CPU_SIMD_MAX _Pragma("omp simd reduction(max : max)")
#endif

// Before a loop with a small constant count that must be unrolled, such as one over vector registers.
#define CPU_UNROLL _Pragma("GCC unroll 16")

#define CPU_INLINE static inline __attribute__((always_inline))

#endif
