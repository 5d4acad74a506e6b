// Matmuls of a few numbers, of fp32 operands at any distance: sums are in double and every element is rounded once, so
// small layers compute as exactly as fp32 can hold. Larger matmuls add in fp32, which takes half the time or less; in
// small ones, the overhead exceeds the multiplications. Private to ops/cpu.
#ifndef OPS_CPU_SMALL_H
#define OPS_CPU_SMALL_H

#include <stdbool.h>
#include <stdint.h>

struct small_operand {
    const float *from;
    int64_t line, step;  // distances, in elements, of its lines and of the steps of the inner dimension
};

// d (rows, columns) = factor * a b^T + addend_factor * addend.
struct small_matmul {
    struct small_operand a, b;
    int64_t rows, columns, inner;
    double factor, addend_factor;
    const float *addend;  // NULL if there is none
    int64_t addend_stride;
    float *d;  // may be the addend
    int64_t stride;
};

// Whether a matmul of fp32 operands of this size goes here.
static inline bool small_is(int64_t rows, int64_t columns, int64_t inner) {
    return (double)rows * (double)columns * (double)inner <= 1 << 15;
}

void small_multiply(const struct small_matmul *matmul);

#endif
