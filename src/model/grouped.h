// Matmuls of experts: rows are sorted by expert, and those of each expert go through a matrix of its own. Which rows an
// expert has is known on the device only, where `offsets` (E + 1) i32 tells where they begin; see ops/ops_experts.h.
#ifndef MODEL_GROUPED_H
#define MODEL_GROUPED_H

#include "model/layer.h"

// y (R, out) = x (R, in) W^T with W (E, out, in).
void grouped_forward(const struct param *weight, const struct pass *pass, struct tensor y, struct tensor x,
                     struct tensor offsets);
// dx (R, in) = dy W.
void grouped_backward_input(const struct param *weight, const struct pass *pass, struct tensor dx, struct tensor dy,
                            struct tensor offsets);
// dW += dy^T x, or dW = dy^T x in the first pass of a step. Deferred if the pass says so; then memory is taken for the
// `room` rows that there may be in other passes.
void grouped_backward_weight(const struct param *weight, const struct pass *pass, struct tensor dy, struct tensor x,
                             struct tensor offsets, int64_t room);
// The matmul itself, never deferred.
void grouped_weight_matmul(const struct param *weight, const struct pass *pass, struct tensor dy, struct tensor x,
                           struct tensor offsets);

#endif
