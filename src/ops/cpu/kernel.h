// Micro-kernels: the innermost loop of a matrix product, over operands that were packed into panels. A panel holds
// `width` neighbouring lines of an operand, one step of the inner dimension after the other, so that the kernel reads
// both operands from first to last byte. Private to ops/cpu.
#ifndef OPS_CPU_KERNEL_H
#define OPS_CPU_KERNEL_H

#include "tensor/tensor.h"
#include <stdint.h>

// Panels have a multiple of KERNEL_STEP steps, the last ones zero where need be, and at least KERNEL_SLACK_BYTES that
// may be read behind them. A tile has at most KERNEL_MOST_ROWS by KERNEL_MOST_COLUMNS elements.
enum { KERNEL_STEP = 8, KERNEL_SLACK_BYTES = 256, KERNEL_MOST_ROWS = 16, KERNEL_MOST_COLUMNS = 32 };

// d = a^T b + addend, for one tile.
struct kernel_tile {
    int64_t inner;      // a multiple of KERNEL_STEP
    const void *a, *b;  // panels (inner, rows) and (inner, columns), as pack.h has them
    const float *addend;
    int64_t addend_stride;  // 0 where all rows get the same
    float *d;               // may be the addend
    int64_t stride;
};

struct cpu_kernel {
    const char *name;
    enum dtype dtype;       // of the panels; sums are in fp32
    int64_t rows, columns;  // of a tile
    // Every element is one sum from the first step to the last, to which the addend is added.
    void (*multiply)(const struct kernel_tile *tile);
};

// A row of zeros, for an addend.
extern const float kernel_zeros[KERNEL_MOST_COLUMNS];

// A tile of which only a part is wanted, or with factors: d = alpha a^T b + addend_factor * addend in its first rows
// and columns; nothing else there is read or written.
struct kernel_part {
    int64_t rows, columns;
    float alpha, addend_factor;
};
void kernel_multiply_part(const struct cpu_kernel *kernel, const struct kernel_tile *tile,
                          const struct kernel_part *part);

// The kernel for the processor we run on; NULL where there is none, or OpenBLAS is the faster choice.
const struct cpu_kernel *cpu_kernel(enum dtype dtype);

// Those of aarch64, NULL elsewhere.
const struct cpu_kernel *kernel_neon(void);
const struct cpu_kernel *kernel_neon_bf16(void);

#endif
