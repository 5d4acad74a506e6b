// Code common to all ways of computing a matmul: the target, and the epilogue of a finished part. Private to ops/cpu.
#ifndef OPS_CPU_MATMUL_H
#define OPS_CPU_MATMUL_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/kernel.h"

// A matmul below this many multiplications is not worth waking a thread for.
enum { MATMUL_SMALL = 1 << 17 };

// The target of the matmul's own result: aux if an activation keeps its input, else d.
static inline const struct tensor *matmul_target(const struct op_matmul *op) {
    return op->epilogue == EPILOGUE_BIAS_ACTIVATION && op->aux.data ? &op->aux : &op->d;
}

static inline bool matmul_has_bias(const struct op_matmul *op) {
    return op->epilogue == EPILOGUE_BIAS || op->epilogue == EPILOGUE_BIAS_ACTIVATION;
}

static inline double matmul_size(const struct op_matmul *op) {
    return (double)op->d.shape[0] * (double)op->d.shape[1] * (double)op->a.shape[op->transpose_a ? 0 : 1];
}

// A part of the result. The matmul's sums are in the target, or in a buffer if the target is not fp32.
struct matmul_part {
    struct cpu_range rows, columns;
    float *result;
    int64_t stride;
};

// The epilogue of a part whose matmul, with its bias, is complete and ideally still in cache: the activation or its
// gradient, and the rounding to bf16.
void matmul_finish(const struct op_matmul *op, const struct matmul_part *part);

// The micro-kernel for a matmul, by the dtype of a and b: the best of those whose tiles it fills. Without a kernel for
// their dtype, 16-bit operands use one for fp32 and are widened while packed. NULL if there is none or packing does not
// pay off (few rows, as in text generation).
const struct cpu_kernel *matmul_kernel(const struct device *device, const struct op_matmul *op);

// A matmul in double if small_is; in tiles of OpenBLAS calls; in panels by a micro-kernel.
void matmul_small(const struct op_matmul *op);
void matmul_blas(struct device *device, const struct op_matmul *op);
void matmul_packed(struct device *device, const struct op_matmul *op, const struct cpu_kernel *kernel);

// Whether a matmul has so few rows that its bf16 weights are read unconverted; its other operands are fp32.
bool matmul_has_few_rows(const struct device *device, const struct op_matmul *op);

// Whether matmul_packed can round to bf16 at once. Not if the inner dimension is longer than a block: sums then go to
// d.
bool matmul_packed_writes_half(const struct op_matmul *op, const struct cpu_kernel *kernel);

// The memory matmul_packed needs for a device with this many threads, and how much of it a matmul of 32 or 16 bits
// touches: the system provides only pages that are touched.
size_t matmul_packed_bytes(int threads);
struct own_need matmul_packed_rooms(const struct device *device, const struct op_matmul *op);

#endif
