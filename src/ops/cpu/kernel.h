// Micro-kernels: the innermost loop of a matrix product, over operands that were packed into panels. A panel holds
// `width` neighbouring lines of an operand, one step of the inner dimension after the other, so that the kernel reads
// both operands from first to last byte. Private to ops/cpu.
#ifndef OPS_CPU_KERNEL_H
#define OPS_CPU_KERNEL_H

#include <stdint.h>

// Panels have a multiple of KERNEL_STEP steps, the last ones zero where need be, and at least KERNEL_SLACK floats that
// may be read behind them. A tile has at most KERNEL_MOST_ROWS by KERNEL_MOST_COLUMNS elements.
enum { KERNEL_STEP = 4, KERNEL_SLACK = 64, KERNEL_MOST_ROWS = 16, KERNEL_MOST_COLUMNS = 64 };

// d = a^T b + addend, for one tile.
struct kernel_tile {
    int64_t inner;       // a multiple of KERNEL_STEP
    const float *a, *b;  // panels (inner, rows) and (inner, columns)
    const float *addend;
    int64_t addend_stride;  // 0 where all rows get the same
    float *d;               // may be the addend
    int64_t stride;
};

struct cpu_kernel {
    const char *name;
    int64_t rows, columns;  // of a tile
    // Every element is one sum from the first step to the last, to which the addend is added.
    void (*multiply)(const struct kernel_tile *tile);
};

// The kernel for the processor we run on; NULL where OpenBLAS is the faster choice.
const struct cpu_kernel *cpu_kernel(void);

#endif
