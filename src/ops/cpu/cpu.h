// The CPU backend: fp32 (and 16 bits through it: half.c), threads of one pool, matmuls by a micro-kernel of our own or
// by OpenBLAS. An operation is cut into tasks, and the order of a sum follows from the shapes alone: one task in a
// fixed order, or fixed chunks that are added in order. So results are bitwise equal for any number of threads. Private
// to ops/cpu.
#ifndef OPS_CPU_CPU_H
#define OPS_CPU_CPU_H

#include "base/layer_kinds.h"
#include "base/pool.h"
#include "ops/cpu/kernel.h"
#include "ops/device.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct cpu_device {
    struct device base;
    struct pool *pool;
    const struct cpu_kernel *kernels[KERNEL_MOST + 1];  // kernels that matmuls may use, best first, then NULL
    char *workspace;                                    // panels of matmul_packed
    void *wide;                                         // fp32 copies of 16-bit tensors, see half.c
    size_t wide_bytes;
    struct profile *profile;  // NULL while none is on
};

// The best micro-kernel for a dtype; NULL if there is none, and OpenBLAS does the work.
const struct cpu_kernel *cpu_kernel(const struct device *device, enum dtype dtype);

// Runs task(context, 0…count-1) on the device's threads and returns when all are done.
void cpu_run(struct device *device, int64_t count, void (*task)(void *context, int64_t index, int thread),
             const void *context);

// Piece number `index` of [0, total) cut into pieces of `size`.
struct cpu_range {
    int64_t first, end;
};
static inline int64_t cpu_pieces(int64_t total, int64_t size) {
    return (total + size - 1) / size;
}
static inline struct cpu_range cpu_piece(int64_t total, int64_t size, int64_t index) {
    int64_t first = index * size;
    return (struct cpu_range){first, first + size < total ? first + size : total};
}

// Runs task(context, piece) for all pieces of [0, total).
void cpu_run_ranges(struct device *device, int64_t total, int64_t size,
                    void (*task)(void *context, struct cpu_range range), const void *context);

// Rows of `columns` elements that make a task: about 8 thousand elements, a few microseconds.
static inline int64_t cpu_rows_per_task(int64_t columns) {
    return columns >= 8192 ? 1 : 8192 / (columns > 0 ? columns : 1);
}

// Columns of a matrix that one task sums over all rows, and elements of a flat range per task.
enum { CPU_COLUMN_BLOCK = 64, CPU_FLAT_CHUNK = 65536 };

// Columns of such a task, chosen by the number of threads so that all end at about the same time: at most
// CPU_COLUMN_BLOCK. A column's sum does not depend on the size of its block.
int64_t cpu_column_block(const struct device *device, int64_t columns);

// Sums over all rows of some columns at a time; adds to out (C).
void cpu_add_column_sums(struct device *device, struct tensor out, struct tensor x);

void cpu_profile_start(struct device *device);
int cpu_profile_stop(struct device *device, struct profile_row *rows, int most);

#define DECLARE(name_) void cpu_##name_(struct device *device, const struct op_##name_ *op);
OPERATIONS(DECLARE)
#undef DECLARE
// Performs several copies to different places in parallel.
enum { CPU_MOST_COPIES = 12 };
void cpu_copy_all(struct device *device, const struct op_copy *copies, int count);
// A number of a contiguous tensor of an activation dtype.
float cpu_element(struct tensor t, int64_t i);
void cpu_store_element(struct tensor t, int64_t i, float value);
void cpu_matmul_float8(struct device *device, const struct op_matmul *op);
void cpu_grouped_float8(struct device *device, const struct op_grouped_matmul *op);
// The magnitude that a range takes of a number.
static inline float cpu_seen_size(float value) {
    return isnan(value) ? INFINITY : fabsf(value);
}
// Stores row `row` of `rows` rows of values in fp8: plain, transposed or both, as `to` has them.
void cpu_store_row8(const struct operand *to, int64_t row, int64_t rows, int64_t columns, const float *value);
void cpu_matmul_blocks(struct device *device, const struct op_matmul *op);
// Stores x (rows, columns) as op_quantize_blocks does.
void cpu_store_blocks(const struct operand *to, const float *x, int64_t rows, int64_t columns, int64_t parts);
// The dequantized numbers of an operand by blocks, in its own order, with parts as in op_quantize_blocks. The caller
// frees them.
float *cpu_restored_parts(const struct operand *of, int64_t parts);
// The place of a scale in tiles of 128 rows x 4 blocks, of which there are `width` across.
int64_t cpu_tiled_place(int64_t width, int64_t row, int64_t block);
// op_quantize_blocks in NVFP4, and the dequantized numbers of such an operand, contiguous.
void cpu_quantize_float4(struct device *device, const struct op_quantize_blocks *op);
void cpu_restore_float4(float *out, struct tensor t, struct tensor scales);

// bf16 and fp16 on the CPU: storage of 16 bits, arithmetic in fp32. Private to ops/cpu.
// The operations of cpu.h for any float dtype; fp32 goes straight through.
#define DECLARE(name_) void half_##name_(struct device *device, const struct op_##name_ *op);
ACTIVATION_OPERATIONS(DECLARE)
#undef DECLARE

// In grouped.c.
struct own_need grouped_matmul_own_bytes(const struct device *device, const struct op_grouped_matmul *op);

// The fp32 copies of an operation's tensors of 16 bits.
extern const struct own_bytes half_own_bytes;

// fp32 to and from the 16-bit float types, rounding to nearest, ties to even; NaN stays NaN.

// count elements of `from` (dtype from_dtype) become count elements of `to`; the ranges do not overlap. Float dtypes.
void cpu_convert(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype, int64_t count);

// The activations of activation.c as functions over pieces of rows. Private to ops/cpu.

// y may be x.
struct cpu_activation {
    void (*value)(float *y, const float *x, int64_t count);
    void (*gradient)(float *y, const float *x, int64_t count);
};
extern const struct cpu_activation cpu_activations[ACTIVATION_COUNT];

// Apply a gated unit's rule: prepare its halves in place, and zero gradients where the original halves were clamped.
bool cpu_glu_has_rule(struct glu_rule rule);
void cpu_glu_prepare(float *gate, float *up, struct glu_rule rule, int64_t count);
void cpu_glu_mask(float *dgate, float *dup, const float *gate, const float *up, float limit, int64_t count);

#endif
