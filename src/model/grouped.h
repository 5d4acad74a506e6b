// Matmuls of experts: rows are sorted by expert, and each expert multiplies its rows by its own matrix. Only the device
// knows an expert's rows; `offsets` (E + 1) i32 tells where they begin (ops/ops_experts.h). Matmuls are in the pass's
// dtype or, while training, in fp8 (expert_operands.c makes the operands): with one range for all experts' matrices, or
// by blocks, none of which spans two experts.
#ifndef MODEL_GROUPED_H
#define MODEL_GROUPED_H

#include "model/fp8.h"
#include "model/layer.h"

struct grouped {
    struct param *weight;  // (E, out, in)
    struct fp8 *fp8;       // not NULL: matmuls are in fp8 while training, with the next
    int fp8_layer;
};

bool grouped_is_fp8(const struct grouped *grouped, const struct pass *pass);
// y (R, out) = x (R, in) W^T.
void grouped_forward(const struct grouped *grouped, const struct pass *pass, struct tensor y, struct operand x,
                     struct tensor offsets);
// dx (R, in) = dy W.
void grouped_backward_input(const struct grouped *grouped, const struct pass *pass, struct tensor dx, struct operand dy,
                            struct tensor offsets);
// dW += dy^T x, or dW = dy^T x in the first pass of a step. Deferred if the pass says so; then memory is taken for
// `room` rows, the most of any pass.
void grouped_backward_weight(const struct grouped *grouped, const struct pass *pass, struct operand dy,
                             struct operand x, struct tensor offsets, int64_t room);
// The matmul itself, never deferred.
void grouped_weight_matmul(const struct grouped *grouped, const struct pass *pass, struct operand dy, struct operand x,
                           struct tensor offsets);

#endif
