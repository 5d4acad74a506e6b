// Matmuls of small blocks inside one task, used by attention: operands are packed explicitly, once for several matmuls
// where possible, and multiplied by the micro-kernel, or by OpenBLAS if there is none. Matmuls of a few numbers
// (small.h) read operands in place, so an operand is packed when the first matmul needs it. Private to ops/cpu.
#ifndef OPS_CPU_BLOCK_H
#define OPS_CPU_BLOCK_H

#include "ops/cpu/kernel.h"
#include "ops/cpu/pack.h"

// A block has at most BLOCK_LINES lines by BLOCK_STEPS steps, or the other way round.
enum { BLOCK_LINES = 256, BLOCK_STEPS = 128 };

// The lines of an operand: rows of the left one, columns of the right one.
struct block_operand {
    struct pack_source source;  // fp32
    int64_t lines, steps;
    float factor;  // the operand is multiplied by it
};

// The transposed block: its steps become lines.
static inline struct block_operand block_transposed(struct block_operand block) {
    block.source.lines_are_across = !block.source.lines_are_across;
    return (struct block_operand){block.source, block.steps, block.lines, block.factor};
}

struct block_panels {
    _Alignas(64) float values[(BLOCK_LINES + 8) * (BLOCK_STEPS + KERNEL_MOST_COLUMNS)];
    struct block_operand block;
    const struct cpu_kernel *kernel;
    const struct panel_shape *packed;  // values have this shape; NULL: the block is not packed yet
};

// Puts a block into panels, for matmuls by this kernel, or by OpenBLAS if it is NULL. Its elements must not change
// before the last of these matmuls.
void block_put(struct block_panels *panels, const struct block_operand *block, const struct cpu_kernel *kernel);

// d (lines of a, columns) = a b^T, or d += a b^T, with the first `columns` lines of b and as many of its steps as a
// has. Both are packed for the same kernel.
struct block_matmul {
    struct block_panels *a, *b;
    int64_t columns;
    float *d;
    int64_t stride;
    bool adds;
};
void block_multiply(const struct block_matmul *matmul);

#endif
