// What the matmuls of experts read: rows at their places, and what is between the two matmuls. In the pass's dtype, or
// in fp8; then storing an operand is fused with the step before it, unless its range is measured just before its use or
// experts have biases. Ranks measure what they hold, since rows are stored after they have arrived.
//
// fp8 gradients of weights read rows transposed, so R is a multiple of 16 then. By blocks, those of the transpose go
// along R, so the places of each expert begin at a multiple of a block (op_sort_slots). Of the input of the first
// matmul only the transpose is kept, that of the second is computed again from what is before the activation.
#ifndef MODEL_EXPERT_OPERANDS_H
#define MODEL_EXPERT_OPERANDS_H

#include "model/choices.h"
#include "model/grouped.h"

// What the places of an expert begin at a multiple of, and what R is a multiple of.
int64_t expert_rows_aligned(const struct grouped *grouped, const struct pass *pass);
int64_t expert_rows_step(const struct grouped *grouped);

// What the experts of this rank work on: R rows, all of this rank's or those that have arrived.
struct experts_work {
    struct tensor offsets, sources, weights;  // see op_sort_slots; the weights of the slots
    int64_t rows, room;                       // R, and how many there may be
};

struct tensor work_take(const struct experts_work *work, struct arena *arena, enum dtype dtype, int64_t columns);

// Rows at their places as the input of a matmul: what backward reads, in the pass's activations; and with what the
// matmul itself reads, which may be in scratch.
struct operand work_take_input(const struct experts_work *work, const struct grouped *to, const struct pass *pass);
struct operand work_take_value(const struct experts_work *work, const struct grouped *to, const struct pass *pass,
                               struct operand input);
// As the gradient of its output: in scratch, or in `plain` (R, C) if it is not in fp8.
struct operand work_take_gradient(const struct experts_work *work, const struct grouped *of, const struct pass *pass,
                                  struct tensor plain);
// op_gather_slots to an operand of either kind; op->y is not read.
void work_gather(const struct experts_work *work, const struct grouped *grouped, const struct pass *pass,
                 enum fp8_role role, struct operand to, const struct op_gather_slots *op);

// The two matmuls of experts, and what is between them.
struct expert_stage {
    const struct grouped *fc1, *fc2;
    const struct param *bias;  // of the first; or NULL
    const struct choices *choices;
};
// From `before` (R, F) or (R, 2F) to the input of the second matmul, in scratch.
struct operand expert_activate(const struct expert_stage *unit, const struct pass *pass,
                               const struct experts_work *work, struct tensor before);
// From the gradient of that input, (R, F) in `after`, to that of `before`, which it may replace, and `dweights`. Sets
// `after` to the input itself, as the gradient of the second weights needs it.
struct operand expert_activate_backward(const struct expert_stage *unit, const struct pass *pass,
                                        const struct experts_work *work, struct tensor before, struct operand *after,
                                        struct tensor dweights);

#endif
