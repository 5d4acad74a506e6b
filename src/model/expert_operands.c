// Matmuls of experts and their operands. See experts.h.
#include "model/deferred.h"
#include "model/experts.h"

static bool grouped_is_fp8(const struct grouped *grouped, const struct pass *pass) {
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

// The matmul itself, never deferred.
static void grouped_weight_matmul(const struct grouped *grouped, const struct pass *pass, struct operand dy,
                                  struct operand x, struct tensor offsets) {
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

static bool has_blocks(const struct grouped *grouped) {
    return grouped->fp8->inputs != SCALING_TENSOR;
}

int64_t expert_rows_aligned(const struct grouped *grouped, const struct pass *pass) {
    if (!grouped_is_fp8(grouped, pass) || !has_blocks(grouped))
        return 1;
    return grouped->fp8->inputs == SCALING_VECTOR32 ? 32 : 128;
}

int64_t expert_rows_step(const struct grouped *grouped) {
    return grouped->fp8 && !has_blocks(grouped) ? 16 : 1;
}

struct tensor work_take(const struct experts_work *work, struct arena *arena, enum dtype dtype, int64_t columns) {
    return tensor_rows(arena_2d(arena, dtype, work->room, columns), 0, work->rows);
}

// (columns, R).
static struct tensor take_turned(const struct experts_work *work, struct arena *arena, enum dtype dtype,
                                 int64_t columns) {
    struct tensor memory = arena_2d(arena, dtype, columns, work->room);
    return tensor_2d(memory.data, dtype, columns, work->rows);
}

// Factors of the blocks of rows (R, columns), or of their transpose.
static struct tensor take_factors(const struct experts_work *work, struct arena *arena, enum scaling scaling,
                                  int64_t columns, bool is_turned) {
    struct scales_shape most = scales_shape(scaling, work->room, columns);
    struct scales_shape here = scales_shape(scaling, work->rows, columns);
    if (is_turned) {
        most = scales_shape(scaling, columns, work->room);
        here = scales_shape(scaling, columns, work->rows);
    }
    struct tensor memory = arena_2d(arena, most.dtype, most.rows, most.columns);
    return tensor_2d(memory.data, here.dtype, here.rows, here.columns);
}

// Adds one order of the values to an operand of rows, with the factors of its blocks if it has any.
static void add_value(struct operand *to, const struct experts_work *work, struct arena *arena, enum dtype dtype,
                      int64_t columns) {
    to->value = work_take(work, arena, dtype, columns);
    if (to->scaling != SCALING_TENSOR)
        to->range = take_factors(work, arena, to->scaling, columns, false);
}
static void add_transposed(struct operand *to, const struct experts_work *work, struct arena *arena, enum dtype dtype,
                           int64_t columns) {
    to->transposed = take_turned(work, arena, dtype, columns);
    if (to->scaling != SCALING_TENSOR)
        to->transposed_range = take_factors(work, arena, to->scaling, columns, true);
}

static struct tensor range_of(const struct grouped *grouped, enum fp8_role role) {
    return fp8_range(grouped->fp8, grouped->fp8_layer, role);
}

// An operand without values, with the layer's scaling.
static struct operand open_operand(const struct grouped *grouped, enum fp8_role role) {
    struct operand open = {.scaling = grouped->fp8->inputs};
    if (!has_blocks(grouped))
        open.range = range_of(grouped, role);
    return open;
}

// Whether an operation may store its result in fp8 directly: only if the range is known before.
static bool is_direct(const struct grouped *grouped) {
    return has_blocks(grouped) || grouped->fp8->is_known;
}

// Stores x in an operand. If the operand has its own range, that receives a copy of the range used.
static void quantize(const struct grouped *grouped, const struct pass *pass, enum fp8_role role, struct operand to,
                     struct tensor x) {
    struct op_quantize op = {.y = to, .x = x};
    if (has_blocks(grouped)) {
        op_quantize_blocks(pass->device, &(struct op_quantize_blocks){.y = to, .x = x});
        return;
    }
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
    struct operand input = open_operand(to, FP8_INPUT);
    add_transposed(&input, work, pass->activations, DTYPE_E4M3, columns);
    if (to->fp8->keeps_ranges && !is_direct(to))
        input.range = arena_1d(pass->activations, DTYPE_F32, RANGE_LENGTH);
    return input;
}

struct operand work_take_value(const struct experts_work *work, const struct grouped *to, const struct pass *pass,
                               struct operand input) {
    if (!input.value.data)
        add_value(&input, work, pass->scratch, DTYPE_E4M3, to->weight->value.shape[2]);
    return input;
}

struct operand work_take_gradient(const struct experts_work *work, const struct grouped *of, const struct pass *pass,
                                  struct tensor plain) {
    int64_t columns = of->weight->value.shape[1];
    if (!grouped_is_fp8(of, pass))
        return operand_of(plain);
    struct operand gradient = open_operand(of, FP8_GRADIENT);
    enum dtype dtype = has_blocks(of) ? of->fp8->gradients : DTYPE_E5M2;
    add_value(&gradient, work, pass->scratch, dtype, columns);
    add_transposed(&gradient, work, pass->scratch, dtype, columns);
    return gradient;
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
    struct operand after = open_operand(unit->fc2, FP8_INPUT);
    add_value(&after, work, pass->scratch, DTYPE_E4M3, F);
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

// In place: the gradient replaces `before`, the activation's result replaces its gradient.
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
    *after = open_operand(unit->fc2, FP8_INPUT);
    add_transposed(after, work, pass->scratch, DTYPE_E4M3, dafter.shape[1]);
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
