// Linears that multiply in fp8: inputs and weights as E4M3, gradients as E5M2. Storing an operand is fused with the
// step before it where the device can: the norm, or the bias and activation. Results of norms are kept if the pass says
// so, results of activations never.
#include "model/linear.h"
#include "ops/device.h"

static struct tensor range_of(const struct linear *linear, enum fp8_role role) {
    return fp8_range(linear->fp8, role == FP8_INPUT ? linear->fp8_input : linear->fp8_layer, role);
}

// op_quantize to an operand of this linear. If the operand has its own range, that receives a copy of the range used.
static void quantize(const struct linear *linear, const struct pass *pass, enum fp8_role role, struct op_quantize op) {
    struct tensor own = op.y.range;
    op.y.range = range_of(linear, role);
    fp8_quantize(linear->fp8, pass->device, &op, pass->splits_rows ? pass->mesh : NULL);
    if (own.data != op.y.range.data)
        op_copy(pass->device, &(struct op_copy){.dst = own, .src = op.y.range});
}

// The range of an input that the backward pass reads. If ranges are measured just before use, and several micro-batches
// are in flight, the next one may measure before this one's backward; then the input has its own range.
static struct tensor take_range(const struct linear *linear, const struct pass *pass) {
    if (linear->fp8->keeps_ranges && !linear->fp8->is_known)
        return arena_1d(pass->activations, DTYPE_F32, RANGE_LENGTH);
    return range_of(linear, FP8_INPUT);
}

static struct operand take_gradient(const struct linear *linear, const struct pass *pass, int64_t rows) {
    return (struct operand){.value = arena_2d(pass->scratch, DTYPE_E5M2, rows, linear->out),
                            .transposed = arena_2d(pass->scratch, DTYPE_E5M2, linear->out, rows),
                            .range = range_of(linear, FP8_GRADIENT)};
}

static struct operand stored_weight(const struct linear *linear, const struct pass *pass, bool is_backward) {
    return fp8_weight(linear->fp8, linear->fp8_layer, is_backward, pass->device, pass->scratch);
}

static struct operand fp8_input(const struct linear *linear, const struct pass *pass, struct operand x) {
    if (x.range.data)
        return x;
    struct operand stored = {.value = arena_2d(pass->scratch, DTYPE_E4M3, x.value.shape[0], x.value.shape[1]),
                             .range = range_of(linear, FP8_INPUT)};
    quantize(linear, pass, FP8_INPUT, (struct op_quantize){.y = stored, .x = x.value});
    return stored;
}

static struct operand fp8_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy,
                                   struct tensor dbias) {
    struct operand stored = take_gradient(linear, pass, dy.shape[0]);
    quantize(linear, pass, FP8_GRADIENT, (struct op_quantize){.y = stored, .x = dy, .dbias = dbias});
    return stored;
}

// Gathers x and transposes it, unless that is done.
static void fp8_prepare(const struct linear *linear, const struct pass *pass, struct operand *dy, struct operand *x) {
    dy->value = (struct tensor){0};
    if (x->transposed.data)
        return;
    struct tensor value = x->value;
    if (linear->sums_input)
        value = pass_gather(pass, pass->scratch, value, "layer input");
    struct operand transposed = {.transposed = arena_2d(pass->scratch, DTYPE_E4M3, value.shape[1], value.shape[0]),
                                 .range = x->range.data ? x->range : range_of(linear, FP8_INPUT)};
    if (x->range.data)
        op_transpose(pass->device, &(struct op_transpose){.y = transposed.transposed, .x = value});
    else
        quantize(linear, pass, FP8_INPUT, (struct op_quantize){.y = transposed, .x = value});
    *x = transposed;
}

// Takes two steps if the range is not known yet, or if the device cannot store the norm's result by itself.
static struct operand fp8_normalize(const struct linear *linear, const struct pass *pass, const struct norm *norm,
                                    struct norm_saved *saved, struct tensor x, const struct residual *residual) {
    int64_t rows = pass_stream_rows(pass);
    struct arena *arena = linear_keeps_norm(linear, pass) ? pass->activations : pass->scratch;
    struct operand input = {.value = arena_2d(arena, DTYPE_E4M3, rows, linear->in), .range = take_range(linear, pass)};
    norm_take(norm, pass, saved, rows, input);
    bool is_direct = linear->fp8->is_known && pass->device->ops->fuses_quantize;
    size_t mark = arena_mark(pass->scratch);
    if (!is_direct)
        saved->y = operand_of(arena_2d(pass->scratch, pass->dtype, rows, linear->in));
    norm_forward(norm, pass, saved, x, residual);
    if (!is_direct)
        quantize(linear, pass, FP8_INPUT, (struct op_quantize){.y = input, .x = saved->y.value});
    arena_release(pass->scratch, mark);
    return input;
}

// Only the activation's input is kept, in the pass's dtype. The backward pass, which reads it anyway, recomputes the
// input of `to` and stores it in the order that it needs.
static void fp8_activate(const struct activation_step *between, const struct pass *pass, struct activation_saved *saved,
                         struct operand x) {
    saved->after = (struct operand){.value = arena_2d(pass->scratch, DTYPE_E4M3, pass_rows(pass), between->to->in),
                                    .range = take_range(between->to, pass)};
    saved->before = arena_2d(pass->activations, pass->dtype, pass_rows(pass), between->from->out);
    linear_forward(between->from, pass, saved->before, x, EPILOGUE_NONE, (struct tensor){0});
    quantize(between->to, pass, FP8_INPUT,
             (struct op_quantize){.kind = between->is_gated ? QUANTIZE_GLU : QUANTIZE_ACTIVATION,
                                  .activation = between->activation,
                                  .y = saved->after,
                                  .x = saved->before,
                                  .bias = linear_bias(between->from)});
}

static struct operand fp8_activate_backward(const struct activation_step *between, const struct pass *pass,
                                            const struct activation_saved *saved, struct operand dy,
                                            struct operand *after) {
    struct operand stored = take_gradient(between->from, pass, pass_rows(pass));
    *after = (struct operand){.transposed = arena_2d(pass->scratch, DTYPE_E4M3, between->to->in, pass_rows(pass)),
                              .range = saved->after.range};
    size_t mark = arena_mark(pass->scratch);
    struct tensor dafter = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), between->to->in);
    linear_backward_input(between->to, pass, dafter, dy, (struct tensor){0});
    quantize(between->from, pass, FP8_GRADIENT,
             (struct op_quantize){.kind = between->is_gated ? QUANTIZE_GLU_GRADIENT : QUANTIZE_ACTIVATION_GRADIENT,
                                  .activation = between->activation,
                                  .y = stored,
                                  .x = saved->before,
                                  .bias = linear_bias(between->from),
                                  .dy = dafter,
                                  .dbias = linear_bias_gradient(between->from),
                                  .result = *after});
    arena_release(pass->scratch, mark);
    return stored;
}

const struct linear_strategy linear_fp8 = {.keeps_norms = true,
                                           .weight = stored_weight,
                                           .input = fp8_input,
                                           .gradient = fp8_gradient,
                                           .prepare = fp8_prepare,
                                           .normalize = fp8_normalize,
                                           .activate = fp8_activate,
                                           .activate_backward = fp8_activate_backward};
