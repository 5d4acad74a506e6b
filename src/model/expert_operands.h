// Operands of the experts' matmuls: rows at their places, and the values between the two matmuls. They are in the
// pass's dtype or in fp8; storing fp8 is fused with the step before, unless the range is measured just before use or
// experts have biases. Ranks measure the rows they hold, since rows are stored after they have arrived.
//
// Weight gradients in fp8 read rows transposed, so R is then a multiple of 16. With scaling by blocks, blocks of the
// transpose lie along R, so each expert's places begin at a multiple of a block (op_sort_slots). Of the first matmul's
// input only the transpose is kept; that of the second is recomputed from the activation's input.
#ifndef MODEL_EXPERT_OPERANDS_H
#define MODEL_EXPERT_OPERANDS_H

#include "model/choices.h"
#include "model/grouped.h"

// The alignment of an expert's first place, and of R.
int64_t expert_rows_aligned(const struct grouped *grouped, const struct pass *pass);
int64_t expert_rows_step(const struct grouped *grouped);

// Input of this rank's experts: R rows, its own or received from other ranks.
struct experts_work {
    struct tensor offsets, sources, weights;  // see op_sort_slots; the weights of the slots
    int64_t rows, room;                       // R, and the most there may be
};

struct tensor work_take(const struct experts_work *work, struct arena *arena, enum dtype dtype, int64_t columns);

// Memory for rows at their places as a matmul's input: values for backward in the pass's activations, values for the
// matmul itself possibly in scratch.
struct operand work_take_input(const struct experts_work *work, const struct grouped *to, const struct pass *pass);
struct operand work_take_value(const struct experts_work *work, const struct grouped *to, const struct pass *pass,
                               struct operand input);
// Memory for the gradient of a matmul's output: in scratch, or in `plain` (R, C) if it is not in fp8.
struct operand work_take_gradient(const struct experts_work *work, const struct grouped *of, const struct pass *pass,
                                  struct tensor plain);
// op_gather_slots to an operand of either kind; op->y is not read.
void work_gather(const struct experts_work *work, const struct grouped *grouped, const struct pass *pass,
                 enum fp8_role role, struct operand to, const struct op_gather_slots *op);

// The two matmuls of experts and the activation between them.
struct expert_stage {
    const struct grouped *fc1, *fc2;
    const struct param *bias;  // of the first; or NULL
    const struct choices *choices;
};
// From `before` (R, F) or (R, 2F) to the input of the second matmul, in scratch.
struct operand expert_activate(const struct expert_stage *unit, const struct pass *pass,
                               const struct experts_work *work, struct tensor before);
// Computes the gradient of `before`, which it may replace, and `dweights` from the gradient of that input, (R, F) in
// `after`. Sets `after` to the input itself, in the form that the second matmul's weight gradient reads.
struct operand expert_activate_backward(const struct expert_stage *unit, const struct pass *pass,
                                        const struct experts_work *work, struct tensor before, struct operand *after,
                                        struct tensor dweights);

#endif
