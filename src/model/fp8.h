// Ranges and weights of fp8 matmuls: inputs and weights are E4M3, gradients E5M2, each tensor with one range. The range
// follows the largest magnitude in the tensor. It is either delayed, taken from earlier steps, or measured each time
// just before it is used (always in the first step of a run, when nothing is known yet). A measured range is of that
// tensor alone, not of earlier micro-batches, so a recomputed layer gets its range again. Matmuls sum in fp32.
// Everything between them, the heads and all evaluation stay in the activations' dtype.
//
// With blocks (enum scaling) no ranges are kept: factors are computed together with their values. So are NVFP4's, with
// stochastic rounding of gradients and a Hadamard transform of weight gradients' operands.
//
// fp8 matmuls read both operands along the dimension that is summed over, so a backward pass needs weights transposed.
// If a step has several micro-batches, it stores all weights in both orders when it starts. Otherwise a pass stores
// each where it is used, in scratch: that reads weights twice, which takes little time beside the memory it saves.
#ifndef MODEL_FP8_H
#define MODEL_FP8_H

#include "config/config.h"
#include "ops/ops.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "tensor/arena.h"

enum fp8_role { FP8_INPUT, FP8_WEIGHT, FP8_GRADIENT, FP8_ROLES };

struct fp8_layer {
    const struct param *weight;  // (out, in); of experts (E, out, in), which are one matrix (E * out, in) here
    struct operand operand;      // E4M3, as it is and transposed; only the range unless keeps_weights
};

struct fp8 {
    struct fp8_layer *layers;
    int count, capacity;
    struct tensor ranges;    // (count * FP8_ROLES, RANGE_LENGTH) fp32
    struct tensor history;   // (count * FP8_ROLES, length) fp32
    struct tensor measured;  // (1, RANGE_LENGTH) fp32: the range of the tensor being measured
    int64_t length;
    enum scaling inputs, weights;  // gradients have the inputs' scaling
    enum dtype values, gradients;  // by blocks; values: inputs and weights
    bool is_delayed, takes_largest;
    bool has_fast_gradients;  // input gradients by blocks are summed with fewer bits, as in the forward pass
    bool keeps_ranges;        // several micro-batches are in flight at once: inputs have ranges of their own
    bool keeps_weights;       // a step has several micro-batches
    int margin;
    int64_t step;   // steps ended so far
    bool is_known;  // the ranges hold what earlier steps have seen
};

void fp8_set(struct fp8 *fp8, const struct config *config, const struct mesh *mesh);
// Adds a layer whose matmuls are in fp8; returns its number.
int fp8_add(struct fp8 *fp8, const struct param *weight);
void fp8_free(struct fp8 *fp8);
// Takes its tensors from the arena.
void fp8_lay_out(struct fp8 *fp8, struct arena *arena);
// Forgets all ranges. Call before the first step.
void fp8_reset(struct fp8 *fp8, struct device *device);
// Call when a run is resumed after this many steps; has_ranges: `ranges` and `history` were loaded.
void fp8_resume(struct fp8 *fp8, int64_t steps, bool has_ranges);
// fp8_begin_step prepares the weights for a step's micro-batches. fp8_end_step updates the ranges with the magnitudes
// seen; afterwards all ranks that hold a layer have the same ranges. All ranks call both.
void fp8_begin_step(struct fp8 *fp8, struct device *device);
void fp8_end_step(struct fp8 *fp8, struct device *device, const struct mesh *mesh);

// Memory for a matrix of x's shape in fp8 by blocks, in some of its orders.
enum { FP8_VALUE = 1, FP8_TRANSPOSED = 2 };
struct operand fp8_take(enum scaling scaling, enum dtype dtype, struct tensor x, int orders, struct arena *arena);

struct tensor fp8_range(const struct fp8 *fp8, int layer, enum fp8_role role);  // (RANGE_LENGTH)
// The weight of a layer, as it is or transposed; in the arena if it is not kept.
struct operand fp8_weight(const struct fp8 *fp8, int layer, bool is_transposed, struct device *device,
                          struct arena *arena);
// Measures the range of the values that op_quantize will store, if it is not known. If a mesh is given, the ranks that
// split the residual stream agree on it.
void fp8_measure(const struct fp8 *fp8, struct device *device, const struct op_quantize *op, const struct mesh *mesh);
// op_quantize, after fp8_measure.
void fp8_quantize(const struct fp8 *fp8, struct device *device, const struct op_quantize *op, const struct mesh *mesh);

#endif
