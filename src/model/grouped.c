// Matmuls of experts. See grouped.h.
#include "model/grouped.h"
#include "model/deferred.h"

bool grouped_is_fp8(const struct grouped *grouped, const struct pass *pass) {
    return grouped->fp8 && pass->is_training;
}

// The weight as it is, or transposed if it is in fp8 and read by a backward pass; new tensors are in scratch.
static struct operand weight_of(const struct grouped *grouped, const struct pass *pass, bool is_backward) {
    struct tensor w = grouped->weight->value;
    if (!grouped_is_fp8(grouped, pass))
        return operand_of(w);
    struct operand weight = fp8_weight(grouped->fp8, grouped->fp8_layer, is_backward, pass->device, pass->scratch);
    if (weight.value.data)
        weight.value = tensor_3d(weight.value.data, weight.value.dtype, w.shape[0], w.shape[1], w.shape[2]);
    return weight;
}

void grouped_forward(const struct grouped *grouped, const struct pass *pass, struct tensor y, struct operand x,
                     struct tensor offsets) {
    size_t mark = arena_mark(pass->scratch);
    struct operand weight = weight_of(grouped, pass, false);
    op_grouped_matmul(pass->device, &(struct op_grouped_matmul){.kind = GROUPED_FORWARD,
                                                                .d = y,
                                                                .a = x.value,
                                                                .b = weight.value,
                                                                .a_range = x.range,
                                                                .b_range = weight.range,
                                                                .a_scaling = x.scaling,
                                                                .b_scaling = weight.scaling,
                                                                .offsets = offsets});
    arena_release(pass->scratch, mark);
}

void grouped_backward_input(const struct grouped *grouped, const struct pass *pass, struct tensor dx, struct operand dy,
                            struct tensor offsets) {
    size_t mark = arena_mark(pass->scratch);
    struct operand weight = weight_of(grouped, pass, true);
    bool is_turned = weight.transposed.data != NULL;
    op_grouped_matmul(pass->device, &(struct op_grouped_matmul){.kind = GROUPED_INPUT,
                                                                .d = dx,
                                                                .a = dy.value,
                                                                .b = is_turned ? weight.transposed : weight.value,
                                                                .a_range = dy.range,
                                                                .b_range = operand_range(&weight, is_turned),
                                                                .a_scaling = dy.scaling,
                                                                .b_scaling = weight.scaling,
                                                                .offsets = offsets});
    arena_release(pass->scratch, mark);
}

void grouped_weight_matmul(const struct grouped *grouped, const struct pass *pass, struct operand dy, struct operand x,
                           struct tensor offsets) {
    op_grouped_matmul(pass->device, &(struct op_grouped_matmul){.kind = GROUPED_WEIGHT,
                                                                .d = grouped->weight->grad,
                                                                .a = dy.transposed.data ? dy.transposed : dy.value,
                                                                .b = x.transposed.data ? x.transposed : x.value,
                                                                .a_range = operand_range(&dy, true),
                                                                .b_range = operand_range(&x, true),
                                                                .a_scaling = dy.scaling,
                                                                .b_scaling = x.scaling,
                                                                .offsets = offsets,
                                                                .beta = pass->is_first ? 0 : 1});
}

static void compute_deferred(const struct deferred_matmul *matmul, const struct pass *pass) {
    grouped_weight_matmul(matmul->layer, pass, matmul->dy, matmul->x, matmul->offsets);
}

void grouped_backward_weight(const struct grouped *grouped, const struct pass *pass, struct operand dy,
                             struct operand x, struct tensor offsets, int64_t room) {
    if (dy.transposed.data)  // the matmul reads nothing else
        dy.value = x.value = (struct tensor){0};
    if (dy.transposed_range.data)
        dy.range = x.range = (struct tensor){0};
    if (pass->deferred)
        deferred_add(
            pass->deferred, pass,
            &(struct deferred_matmul){
                .compute = compute_deferred, .layer = grouped, .dy = dy, .x = x, .offsets = offsets, .room = room});
    else
        grouped_weight_matmul(grouped, pass, dy, x, offsets);
}
