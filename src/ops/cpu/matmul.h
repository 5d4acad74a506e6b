// What the two ways of computing a matmul share: where it is written and what is done to a finished part of it.
// Private to ops/cpu.
#ifndef OPS_CPU_MATMUL_H
#define OPS_CPU_MATMUL_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/kernel.h"

// A matmul below this many multiplications is not worth waking a thread for.
enum { MATMUL_SMALL = 1 << 17 };

// Where the matmul's own result goes: aux with an activation that keeps it, else d.
static inline const struct tensor *matmul_target(const struct op_matmul *op) {
    return op->epilogue == EPILOGUE_BIAS_ACTIVATION && op->aux.data ? &op->aux : &op->d;
}

static inline bool matmul_has_bias(const struct op_matmul *op) {
    return op->epilogue == EPILOGUE_BIAS || op->epilogue == EPILOGUE_BIAS_ACTIVATION;
}

static inline double matmul_size(const struct op_matmul *op) {
    return (double)op->d.shape[0] * (double)op->d.shape[1] * (double)op->a.shape[op->transpose_a ? 0 : 1];
}

// A part of a result, and that of its matmul: in place in the target, or elsewhere where that is not fp32.
struct matmul_part {
    struct cpu_range rows, columns;
    float *result;
    int64_t stride;
};

// What follows for a part whose matmul, with its bias, is complete and best still in cache: the activation or its
// gradient, and the rounding to bf16.
void matmul_finish(const struct op_matmul *op, const struct matmul_part *part);

// The micro-kernel that a matmul goes through, by the dtype of a and b: the best of those whose tiles it fills. 16-bit
// operands without one of their own go through one for fp32 and are widened while they are packed. NULL if there is
// none, as with the few rows of text that is being generated: then packing is not worth its while.
const struct cpu_kernel *matmul_kernel(const struct device *device, const struct op_matmul *op);

// An fp32 matmul that is small by small.h; the matmul in tiles of OpenBLAS calls, and in panels through a micro-kernel.
void matmul_small(const struct op_matmul *op);
void matmul_blas(struct device *device, const struct op_matmul *op);
void matmul_packed(struct device *device, const struct op_matmul *op, const struct cpu_kernel *kernel);

// Whether a matmul has so few rows that its bf16 weights are read unconverted, and such a matmul: all else is fp32.
bool matmul_has_few_rows(const struct device *device, const struct op_matmul *op);
void matmul_rows(struct device *device, const struct op_matmul *op);

// Whether matmul_packed can round to bf16 at once. Not if the inner dimension is longer than a block: sums then go to
// d.
bool matmul_packed_writes_half(const struct op_matmul *op, const struct cpu_kernel *kernel);

// The memory matmul_packed needs for a device with this many threads, and how much of it a matmul of 32 or 16 bits
// touches: the system provides only pages that are touched.
size_t matmul_packed_bytes(int threads);
struct own_need matmul_packed_rooms(const struct device *device, const struct op_matmul *op);

#endif
