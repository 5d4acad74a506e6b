// Small matmuls in double. COLUMNS lines of b are widened at a time, one part of the inner dimension after the other,
// and used for a block of rows; the block's sums stay in memory between parts.
#include "ops/cpu/small.h"
#include "ops/cpu/kernel.h"
#include <string.h>

enum { ROWS = 4, BLOCK_ROWS = 16 * ROWS, COLUMNS = 16, PART_STEPS = 64 };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// to (steps, width): `lines` lines of an operand, and zeros.
static void widen(double *to, int64_t width, struct small_operand operand, int64_t lines, int64_t steps) {
    for (int64_t k = 0; k < steps; k++) {
        const float *from = operand.from + k * operand.step;
        for (int64_t i = 0; i < lines; i++)
            to[k * width + i] = (double)from[i * operand.line];
        for (int64_t i = lines; i < width; i++)
            to[k * width + i] = 0;
    }
}

CPU_CLONES static void add_tile(double sums[ROWS][COLUMNS], const double (*a)[ROWS], const double (*b)[COLUMNS],
                                int64_t steps) {
    double own[ROWS][COLUMNS];
    memcpy(own, sums, sizeof own);
    for (int64_t k = 0; k < steps; k++) {
        CPU_UNROLL
        for (int i = 0; i < ROWS; i++) {
#pragma omp simd
            for (int j = 0; j < COLUMNS; j++)
                own[i][j] += a[k][i] * b[k][j];
        }
    }
    memcpy(sums, own, sizeof own);
}

static struct small_operand operand_at(struct small_operand operand, int64_t line, int64_t step) {
    operand.from += line * operand.line + step * operand.step;
    return operand;
}

// The block of at most BLOCK_ROWS by COLUMNS elements whose corner is at (row, column).
static void multiply_block(const struct small_matmul *m, int64_t row, int64_t column) {
    int64_t rows = least(m->rows - row, BLOCK_ROWS), columns = least(m->columns - column, COLUMNS);
    double sums[BLOCK_ROWS][COLUMNS], b[PART_STEPS][COLUMNS], a[PART_STEPS][ROWS];
    memset(sums, 0, (size_t)((rows + ROWS - 1) / ROWS * ROWS) * sizeof sums[0]);
    for (int64_t first = 0; first < m->inner; first += PART_STEPS) {
        int64_t steps = least(m->inner - first, PART_STEPS);
        widen(b[0], COLUMNS, operand_at(m->b, column, first), columns, steps);
        for (int64_t i = 0; i < rows; i += ROWS) {
            widen(a[0], ROWS, operand_at(m->a, row + i, first), least(rows - i, ROWS), steps);
            add_tile(sums + i, (const double(*)[ROWS])a, (const double(*)[COLUMNS])b, steps);
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        float *d = m->d + (row + i) * m->stride + column;
        const float *addend = m->addend ? m->addend + (row + i) * m->addend_stride + column : NULL;
        for (int64_t j = 0; j < columns; j++)
            d[j] = (float)(m->factor * sums[i][j] + (addend ? m->addend_factor * (double)addend[j] : 0));
    }
}

void small_multiply(const struct small_matmul *matmul) {
    for (int64_t column = 0; column < matmul->columns; column += COLUMNS) {
        for (int64_t row = 0; row < matmul->rows; row += BLOCK_ROWS)
            multiply_block(matmul, row, column);
    }
}
