// Matmuls of experts. See grouped.h.
#include "model/grouped.h"
#include "model/deferred.h"

void grouped_forward(const struct param *weight, const struct pass *pass, struct tensor y, struct tensor x,
                     struct tensor offsets) {
    op_grouped_matmul(
        pass->device,
        &(struct op_grouped_matmul){.kind = GROUPED_FORWARD, .d = y, .a = x, .b = weight->value, .offsets = offsets});
}

void grouped_backward_input(const struct param *weight, const struct pass *pass, struct tensor dx, struct tensor dy,
                            struct tensor offsets) {
    op_grouped_matmul(
        pass->device,
        &(struct op_grouped_matmul){.kind = GROUPED_INPUT, .d = dx, .a = dy, .b = weight->value, .offsets = offsets});
}

void grouped_weight_matmul(const struct param *weight, const struct pass *pass, struct tensor dy, struct tensor x,
                           struct tensor offsets) {
    op_grouped_matmul(pass->device, &(struct op_grouped_matmul){.kind = GROUPED_WEIGHT,
                                                                .d = weight->grad,
                                                                .a = dy,
                                                                .b = x,
                                                                .offsets = offsets,
                                                                .beta = pass->is_first ? 0 : 1});
}

void grouped_backward_weight(const struct param *weight, const struct pass *pass, struct tensor dy, struct tensor x,
                             struct tensor offsets, int64_t room) {
    if (pass->deferred)
        deferred_add(
            pass->deferred, pass,
            &(struct deferred_matmul){
                .experts = weight, .dy = operand_of(dy), .x = operand_of(x), .offsets = offsets, .room = room});
    else
        grouped_weight_matmul(weight, pass, dy, x, offsets);
}
