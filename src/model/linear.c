// Linear layers, and the plain strategy. See linear.h.
#include "model/linear.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/deferred.h"

#include <stdlib.h>

struct shard linear_segments(int64_t columns, const int64_t segments[SHARD_MAX_SEGMENTS]) {
    int64_t rows = 0;
    int count = 0;
    while (count < SHARD_MAX_SEGMENTS && segments[count] > 0)
        rows += segments[count++];
    struct shard shard = shard_whole(2, rows, columns);
    shard.segment_count = count;
    for (int i = 0; i < count; i++)
        shard.segments[i] = segments[i];
    return shard;
}

void linear_build(struct linear *linear, struct param_list *params, const char *name,
                  const struct linear_options *options) {
    struct shard weight = options->weight;
    char *weight_name = memory_printf("%s.weight", name), *bias_name = memory_printf("%s.bias", name);
    // The bias is split like the rows of the weight; a weight split along its columns has a whole bias on every rank.
    struct shard bias = shard_whole(1, weight.global[0], 1);
    bias.segment_count = weight.segment_count;
    for (int i = 0; i < weight.segment_count; i++)
        bias.segments[i] = weight.segments[i];
    if (weight.parts > 1 && weight.dimension == 0)
        bias = shard_split(bias, 0, weight.parts, weight.part);
    linear->weight = param_add(params, weight_name, weight, INIT_NORMAL, options->standard_deviation);
    linear->bias = options->has_bias ? param_add(params, bias_name, bias, INIT_ZERO, 0) : NULL;
    linear->weight->sums_gradient = options->sums_gradient && weight.parts == 1;
    if (linear->bias)
        linear->bias->sums_gradient = options->sums_gradient && bias.parts == 1;
    linear->out = shard_local_size(&weight, 0);
    linear->in = shard_local_size(&weight, 1);
    linear->sums_output = weight.parts > 1 && weight.dimension == 1;
    linear->sums_input = weight.parts > 1 && weight.dimension == 0;
    linear->scale = options->scale != 0 ? options->scale : 1;
    CHECK(linear->scale == 1 || !linear->bias);
    linear->strategy = !options->fp8                            ? &linear_plain
                       : options->fp8->inputs == SCALING_TENSOR ? &linear_fp8
                                                                : &linear_blocks;
    linear->fp8 = options->fp8;
    linear->fp8_layer = options->fp8 ? fp8_add(options->fp8, linear->weight) : 0;
    linear->fp8_input = options->shares_input ? options->shares_input->fp8_input : linear->fp8_layer;
    free(weight_name);
    free(bias_name);
}

struct tensor linear_bias(const struct linear *linear) {
    return linear->bias ? linear->bias->value : (struct tensor){0};
}

struct tensor linear_bias_gradient(const struct linear *linear) {
    return linear->bias ? linear->bias->grad : (struct tensor){0};
}

static const struct linear_strategy *strategy_of(const struct linear *linear, const struct pass *pass) {
    return pass->is_training ? linear->strategy : &linear_plain;
}

void linear_forward(const struct linear *linear, const struct pass *pass, struct tensor y, struct operand x,
                    enum epilogue epilogue, struct tensor aux) {
    if (epilogue == EPILOGUE_BIAS && !linear->bias)
        epilogue = EPILOGUE_NONE;
    size_t mark = arena_mark(pass->scratch);
    const struct linear_strategy *strategy = strategy_of(linear, pass);
    struct operand in = strategy->input(linear, pass, x), weight = strategy->weight(linear, pass, false);
    if (linear->sums_input && in.scaling == SCALING_TENSOR)
        in.value = pass_gather(pass, pass->scratch, in.value, "layer input");
    bool sums = linear->sums_output && !pass->leaves_sums, scatters = sums && pass->splits_rows;
    struct tensor out = scatters ? arena_2d(pass->scratch, y.dtype, in.value.shape[0], linear->out) : y;
    op_matmul(pass->device,
              &(struct op_matmul){.a = in.value,
                                  .b = weight.value,
                                  .d = out,
                                  .a_range = in.range,
                                  .b_range = weight.range,
                                  .a_scaling = in.scaling,
                                  .b_scaling = weight.scaling,
                                  .transpose_b = true,
                                  .alpha = linear->scale,
                                  .epilogue = epilogue,
                                  .activation = ACTIVATION_GELU_TANH,
                                  .bias = epilogue == EPILOGUE_NONE ? (struct tensor){0} : linear->bias->value,
                                  .aux = aux});
    CHECK(!linear->sums_output || epilogue == EPILOGUE_NONE);
    if (sums)
        pass_sum(pass, y, out, "layer output");
    arena_release(pass->scratch, mark);
}

struct operand linear_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy) {
    return strategy_of(linear, pass)->gradient(linear, pass, dy, linear_bias_gradient(linear));
}

struct operand linear_output_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy) {
    if (linear->sums_output)
        dy = pass_gather(pass, pass->scratch, dy, "layer output gradient");
    return strategy_of(linear, pass)->gradient(linear, pass, dy, (struct tensor){0});
}

// d = dy W.
static struct op_matmul input_matmul(const struct linear *linear, const struct pass *pass, struct tensor d,
                                     struct operand dy) {
    struct operand weight = strategy_of(linear, pass)->weight(linear, pass, true);
    bool is_transposed = weight.transposed.data != NULL;
    return (struct op_matmul){.a = dy.value,
                              .b = is_transposed ? weight.transposed : weight.value,
                              .d = d,
                              .a_range = dy.range,
                              .b_range = operand_range(&weight, is_transposed),
                              .a_scaling = dy.scaling,
                              .b_scaling = weight.scaling,
                              .transpose_b = is_transposed,
                              .is_fast = linear->fp8 && linear->fp8->has_fast_gradients,
                              .alpha = linear->scale};
}

void linear_backward_input(const struct linear *linear, const struct pass *pass, struct tensor dx, struct operand dy,
                           struct tensor aux) {
    size_t mark = arena_mark(pass->scratch);
    bool scatters = linear->sums_input && pass->splits_rows;
    struct tensor whole = scatters ? arena_2d(pass->scratch, dx.dtype, dy.value.shape[0], linear->in) : dx;
    struct op_matmul matmul = input_matmul(linear, pass, whole, dy);
    matmul.epilogue = aux.data ? EPILOGUE_ACTIVATION_GRADIENT : EPILOGUE_NONE;
    matmul.activation = ACTIVATION_GELU_TANH;
    matmul.aux = aux;
    op_matmul(pass->device, &matmul);
    if (linear->sums_input) {
        CHECK(!aux.data);
        pass_sum(pass, dx, whole, "layer input gradient");
    }
    arena_release(pass->scratch, mark);
}

void linear_backward_input_add(const struct linear *linear, const struct pass *pass, struct tensor dx,
                               struct operand dy) {
    size_t mark = arena_mark(pass->scratch);
    if (!linear->sums_input) {
        struct op_matmul matmul = input_matmul(linear, pass, dx, dy);
        matmul.beta = 1;
        op_matmul(pass->device, &matmul);
        arena_release(pass->scratch, mark);
        return;
    }
    struct tensor own = arena_2d(pass->scratch, pass->dtype, dx.shape[0], dx.shape[1]);
    linear_backward_input(linear, pass, own, dy, (struct tensor){0});
    op_dropout_add(pass->device, &(struct op_dropout_add){.out = dx, .x = own, .residual = dx});
    arena_release(pass->scratch, mark);
}

// The matmul itself, of prepared operands, never deferred.
static void linear_weight_matmul(const struct linear *linear, const struct pass *pass, struct operand dy,
                                 struct operand x) {
    size_t mark = arena_mark(pass->scratch);
    bool is_transposed = dy.transposed.data != NULL;
    if (linear->sums_input && !is_transposed)
        x.value = pass_gather(pass, pass->scratch, x.value, "layer input");
    op_matmul(pass->device, &(struct op_matmul){.a = is_transposed ? dy.transposed : dy.value,
                                                .b = is_transposed ? x.transposed : x.value,
                                                .d = linear->weight->grad,
                                                .a_range = operand_range(&dy, is_transposed),
                                                .b_range = operand_range(&x, is_transposed),
                                                .a_scaling = dy.scaling,
                                                .b_scaling = x.scaling,
                                                .transpose_a = !is_transposed,
                                                .transpose_b = is_transposed,
                                                .alpha = linear->scale,
                                                .beta = pass->is_first ? 0 : 1});
    arena_release(pass->scratch, mark);
}

static void compute_deferred(const struct deferred_matmul *matmul, const struct pass *pass) {
    linear_weight_matmul(matmul->layer, pass, matmul->dy, matmul->x);
}

void linear_backward_weight(const struct linear *linear, const struct pass *pass, struct operand dy, struct operand x) {
    size_t mark = arena_mark(pass->scratch);
    strategy_of(linear, pass)->prepare(linear, pass, &dy, &x);
    if (pass->deferred)
        deferred_add(pass->deferred, pass,
                     &(struct deferred_matmul){.compute = compute_deferred, .layer = linear, .dy = dy, .x = x});
    else
        linear_weight_matmul(linear, pass, dy, x);
    arena_release(pass->scratch, mark);
}

static bool shares_rows(const struct linear *linear, const struct linear *other, const struct pass *pass) {
    return !pass->splits_rows || linear->sums_input == other->sums_input;
}

struct operand linear_shared_input(const struct linear *linear, const struct linear *other, const struct pass *pass,
                                   struct operand x) {
    return shares_rows(linear, other, pass) ? strategy_of(linear, pass)->input(linear, pass, x) : x;
}

struct operand linear_shared_rows(const struct linear *linear, const struct linear *other, const struct pass *pass,
                                  struct operand x) {
    struct operand dy = {0};
    if (shares_rows(linear, other, pass))
        strategy_of(linear, pass)->prepare(linear, pass, &dy, &x);
    return x;
}

struct operand linear_normalize(const struct linear *linear, const struct pass *pass, const struct norm *norm,
                                struct norm_saved *saved, struct tensor x, const struct residual *residual) {
    return strategy_of(linear, pass)->normalize(linear, pass, norm, saved, x, residual);
}

bool linear_keeps_norm(const struct linear *linear, const struct pass *pass) {
    return pass_keeps_results(pass) && strategy_of(linear, pass)->keeps_norms;
}

void linear_activate(const struct activation_step *between, const struct pass *pass, struct activation_saved *saved,
                     struct operand x) {
    strategy_of(between->to, pass)->activate(between, pass, saved, x);
}

struct operand linear_activate_backward(const struct activation_step *between, const struct pass *pass,
                                        const struct activation_saved *saved, struct operand dy,
                                        struct operand *after) {
    return strategy_of(between->to, pass)->activate_backward(between, pass, saved, dy, after);
}

// ---- the plain strategy ----

// Linears that multiply in the dtype of the pass. The tanh GELU after a linear with a bias is fused into the matmuls
// around it. Other activations are separate operations, whose backward can recompute their result, so it is not kept.

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
