// Operands of the matmuls of experts. See expert_operands.h.
#include "model/expert_operands.h"

struct tensor work_take(const struct experts_work *work, struct arena *arena, enum dtype dtype, int64_t columns) {
    return tensor_rows(arena_2d(arena, dtype, work->room, columns), 0, work->rows);
}

// (columns, R).
static struct tensor take_turned(const struct experts_work *work, struct arena *arena, enum dtype dtype,
                                 int64_t columns) {
    struct tensor memory = arena_2d(arena, dtype, columns, work->room);
    return tensor_2d(memory.data, dtype, columns, work->rows);
}

static struct tensor range_of(const struct grouped *grouped, enum fp8_role role) {
    return fp8_range(grouped->fp8, grouped->fp8_layer, role);
}

// Whether an operation may store in fp8 what it computes: not before the range is known.
static bool is_direct(const struct grouped *grouped) {
    return grouped->fp8->is_known;
}

// op_quantize to an operand. One with a range of its own gets a copy of the range it is stored with.
static void quantize(const struct grouped *grouped, const struct pass *pass, enum fp8_role role, struct operand to,
                     struct tensor x) {
    struct op_quantize op = {.y = to, .x = x};
    op.y.range = range_of(grouped, role);
    fp8_quantize(grouped->fp8, pass->device, &op, NULL);
    if (to.range.data != op.y.range.data)
        op_copy(pass->device, &(struct op_copy){.dst = to.range, .src = op.y.range});
}

// If ranges are measured and several micro-batches are in flight, the next one may measure before this one's backward.
struct operand work_take_input(const struct experts_work *work, const struct grouped *to, const struct pass *pass) {
    int64_t columns = to->weight->value.shape[2];
    if (!grouped_is_fp8(to, pass))
        return operand_of(work_take(work, pass->activations, pass->dtype, columns));
    bool keeps_range = to->fp8->keeps_ranges && !to->fp8->is_known;
    return (struct operand){.transposed = take_turned(work, pass->activations, DTYPE_E4M3, columns),
                            .range = keeps_range ? arena_1d(pass->activations, DTYPE_F32, RANGE_LENGTH)
                                                 : range_of(to, FP8_INPUT)};
}

struct operand work_take_value(const struct experts_work *work, const struct grouped *to, const struct pass *pass,
                               struct operand input) {
    if (!input.value.data)
        input.value = work_take(work, pass->scratch, DTYPE_E4M3, to->weight->value.shape[2]);
    return input;
}

struct operand work_take_gradient(const struct experts_work *work, const struct grouped *of, const struct pass *pass,
                                  struct tensor plain) {
    int64_t columns = of->weight->value.shape[1];
    if (!grouped_is_fp8(of, pass))
        return operand_of(plain);
    return (struct operand){.value = work_take(work, pass->scratch, DTYPE_E5M2, columns),
                            .transposed = take_turned(work, pass->scratch, DTYPE_E5M2, columns),
                            .range = range_of(of, FP8_GRADIENT)};
}

void work_gather(const struct experts_work *work, const struct grouped *grouped, const struct pass *pass,
                 enum fp8_role role, struct operand to, const struct op_gather_slots *op) {
    struct op_gather_slots gather = *op;
    gather.y = to.value;
    if (!to.range.data) {
        op_gather_slots(pass->device, &gather);
        return;
    }
    if (is_direct(grouped)) {
        op_quantize_slots(pass->device, &(struct op_quantize_slots){
                                            .y = to, .x = op->x, .sources = op->sources, .per_row = op->per_row});
        return;
    }
    size_t mark = arena_mark(pass->scratch);
    gather.y = work_take(work, pass->scratch, op->x.dtype, to.value.shape[1]);
    op_gather_slots(pass->device, &gather);
    quantize(grouped, pass, role, to, gather.y);
    arena_release(pass->scratch, mark);
}

static void activate_plain(const struct expert_stage *unit, const struct pass *pass, const struct experts_work *work,
                           struct tensor after, struct tensor before) {
    const struct choices *choices = unit->choices;
    op_expert_activation_forward(pass->device, &(struct op_expert_activation_forward){
                                                   .y = after,
                                                   .x = before,
                                                   .bias = unit->bias ? unit->bias->value : (struct tensor){0},
                                                   .weights = work->weights,
                                                   .offsets = work->offsets,
                                                   .sources = work->sources,
                                                   .activation = choices->activation,
                                                   .is_gated = choices->is_gated,
                                                   .rule = choices->glu});
}

struct operand expert_activate(const struct expert_stage *unit, const struct pass *pass,
                               const struct experts_work *work, struct tensor before) {
    const struct choices *choices = unit->choices;
    int64_t F = unit->fc2->weight->value.shape[2];
    if (!grouped_is_fp8(unit->fc2, pass)) {
        struct tensor plain = work_take(work, pass->scratch, pass->dtype, F);
        activate_plain(unit, pass, work, plain, before);
        return operand_of(plain);
    }
    struct operand after = {.value = work_take(work, pass->scratch, DTYPE_E4M3, F),
                            .range = range_of(unit->fc2, FP8_INPUT)};
    if (is_direct(unit->fc2) && !unit->bias) {
        op_quantize_expert_forward(pass->device, &(struct op_quantize_expert_forward){.y = after,
                                                                                      .x = before,
                                                                                      .weights = work->weights,
                                                                                      .offsets = work->offsets,
                                                                                      .sources = work->sources,
                                                                                      .activation = choices->activation,
                                                                                      .is_gated = choices->is_gated,
                                                                                      .rule = choices->glu});
        return after;
    }
    size_t mark = arena_mark(pass->scratch);
    struct tensor plain = work_take(work, pass->scratch, pass->dtype, F);
    activate_plain(unit, pass, work, plain, before);
    quantize(unit->fc2, pass, FP8_INPUT, after, plain);
    arena_release(pass->scratch, mark);
    return after;
}

// In place: the gradient where `before` is, the result where its gradient was.
static void activate_plain_backward(const struct expert_stage *unit, const struct pass *pass,
                                    const struct experts_work *work, struct tensor before, struct tensor dafter,
                                    struct tensor dweights) {
    const struct choices *choices = unit->choices;
    struct tensor none = {0};
    op_expert_activation_backward(pass->device,
                                  &(struct op_expert_activation_backward){.dx = before,
                                                                          .y = dafter,
                                                                          .dweights = dweights,
                                                                          .dbias = unit->bias ? unit->bias->grad : none,
                                                                          .dy = dafter,
                                                                          .x = before,
                                                                          .bias = unit->bias ? unit->bias->value : none,
                                                                          .weights = work->weights,
                                                                          .offsets = work->offsets,
                                                                          .sources = work->sources,
                                                                          .activation = choices->activation,
                                                                          .is_gated = choices->is_gated,
                                                                          .rule = choices->glu});
}

struct operand expert_activate_backward(const struct expert_stage *unit, const struct pass *pass,
                                        const struct experts_work *work, struct tensor before, struct operand *after,
                                        struct tensor dweights) {
    const struct choices *choices = unit->choices;
    struct tensor dafter = after->value;
    struct operand dbefore = work_take_gradient(work, unit->fc1, pass, before);
    if (!dbefore.range.data) {
        activate_plain_backward(unit, pass, work, before, dafter, dweights);
        return dbefore;
    }
    *after = (struct operand){.transposed = take_turned(work, pass->scratch, DTYPE_E4M3, dafter.shape[1]),
                              .range = range_of(unit->fc2, FP8_INPUT)};
    if (is_direct(unit->fc1) && !unit->bias) {
        op_quantize_expert_backward(pass->device,
                                    &(struct op_quantize_expert_backward){.dx = dbefore,
                                                                          .y = *after,
                                                                          .dweights = dweights,
                                                                          .dy = dafter,
                                                                          .x = before,
                                                                          .weights = work->weights,
                                                                          .offsets = work->offsets,
                                                                          .sources = work->sources,
                                                                          .activation = choices->activation,
                                                                          .is_gated = choices->is_gated,
                                                                          .rule = choices->glu});
        return dbefore;
    }
    activate_plain_backward(unit, pass, work, before, dafter, dweights);
    quantize(unit->fc1, pass, FP8_GRADIENT, dbefore, before);
    quantize(unit->fc2, pass, FP8_INPUT, *after, dafter);
    return dbefore;
}
