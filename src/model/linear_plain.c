// Linears that multiply in the dtype of the pass. The tanh GELU after a linear with a bias is fused into the matmuls
// around it. Other activations are separate operations, whose backward can recompute their result, so it is not kept.
#include "model/linear.h"

static struct operand plain_weight(const struct linear *linear, const struct pass *pass, bool is_backward) {
    (void)pass, (void)is_backward;
    return operand_of(linear->weight->value);
}

static struct operand plain_input(const struct linear *linear, const struct pass *pass, struct operand x) {
    (void)linear, (void)pass;
    return x;
}

static struct operand plain_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy,
                                     struct tensor dbias) {
    (void)linear;
    if (dbias.data)
        op_column_sum(pass->device, &(struct op_column_sum){.out = dbias, .x = dy});
    return operand_of(dy);
}

static void plain_prepare(const struct linear *linear, const struct pass *pass, struct operand *dy, struct operand *x) {
    (void)linear, (void)pass, (void)dy, (void)x;
}

static struct operand plain_normalize(const struct linear *linear, const struct pass *pass, const struct norm *norm,
                                      struct norm_saved *saved, struct tensor x, const struct residual *residual) {
    int64_t rows = pass_stream_rows(pass);
    norm_take(norm, pass, saved, rows, operand_of(arena_2d(pass->scratch, pass->dtype, rows, linear->in)));
    norm_forward(norm, pass, saved, x, residual);
    return saved->y;
}

// Matmuls by blocks have no such epilogues.
static bool is_fused(const struct activation_step *between, const struct pass *pass) {
    bool is_plain = between->from->strategy == &linear_plain || !pass->is_training;
    return is_plain && between->activation == ACTIVATION_GELU_TANH && !between->is_gated && between->from->bias;
}

// Keeps the activation's input for the backward pass. Without one it may be overwritten, and a fused matmul never
// stores it.
static struct tensor take_before(const struct activation_step *between, const struct pass *pass, struct tensor after) {
    if (pass->is_training || between->is_gated)
        return arena_2d(pass->activations, pass->dtype, pass_rows(pass), between->from->out);
    return is_fused(between, pass) ? (struct tensor){0} : after;
}

// Whether the activation's result is kept: with fused matmuls, recomputing it would be a separate operation.
static bool keeps_after(const struct activation_step *between, const struct pass *pass) {
    return (is_fused(between, pass) || pass_keeps_results(pass)) && !between->is_recomputed;
}

static void plain_activate(const struct activation_step *between, const struct pass *pass,
                           struct activation_saved *saved, struct operand x) {
    struct arena *arena = keeps_after(between, pass) ? pass->activations : pass->scratch;
    struct tensor after = arena_2d(arena, pass->dtype, pass_rows(pass), between->to->in);
    saved->after = operand_of(after);
    saved->before = take_before(between, pass, after);
    if (is_fused(between, pass)) {
        linear_forward(between->from, pass, after, x, EPILOGUE_BIAS_ACTIVATION, saved->before);
        return;
    }
    linear_forward(between->from, pass, saved->before, x, EPILOGUE_BIAS, (struct tensor){0});
    if (between->is_gated)
        op_glu_forward(pass->device,
                       &(struct op_glu_forward){
                           .y = after, .x = saved->before, .activation = between->activation, .rule = between->rule});
    else
        op_activation_forward(pass->device, &(struct op_activation_forward){
                                                .y = after, .x = saved->before, .activation = between->activation});
}

// The results need no memory of their own: the recomputed result of the activation replaces its own gradient or the
// activation's input, and the gradient of the input replaces the input.
static struct operand plain_activate_backward(const struct activation_step *between, const struct pass *pass,
                                              const struct activation_saved *saved, struct operand dy,
                                              struct operand *after) {
    struct tensor before = saved->before,
                  dafter = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), between->to->in);
    bool is_kept = keeps_after(between, pass);
    linear_backward_input(between->to, pass, dafter, dy, is_fused(between, pass) ? before : (struct tensor){0});
    if (is_fused(between, pass)) {
        if (!is_kept)
            op_activation_forward(pass->device, &(struct op_activation_forward){
                                                    .y = before, .x = before, .activation = between->activation});
        *after = is_kept ? saved->after : operand_of(before);
        return linear_gradient(between->from, pass, dafter);
    }
    struct tensor again = is_kept ? (struct tensor){0} : dafter;
    if (between->is_gated)
        op_glu_backward(pass->device, &(struct op_glu_backward){.dx = before,
                                                                .y = again,
                                                                .dy = dafter,
                                                                .x = before,
                                                                .activation = between->activation,
                                                                .rule = between->rule});
    else
        op_activation_backward(
            pass->device, &(struct op_activation_backward){
                              .dx = before, .y = again, .dy = dafter, .x = before, .activation = between->activation});
    *after = is_kept ? saved->after : operand_of(dafter);
    return linear_gradient(between->from, pass, before);
}

const struct linear_strategy linear_plain = {.weight = plain_weight,
                                             .input = plain_input,
                                             .gradient = plain_gradient,
                                             .prepare = plain_prepare,
                                             .normalize = plain_normalize,
                                             .activate = plain_activate,
                                             .activate_backward = plain_activate_backward};
