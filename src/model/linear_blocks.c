// Linears that multiply in fp8 by blocks (--fp8-recipe blockwise, mxfp8), or in NVFP4. Every matmul quantizes its
// operands itself, so saved activations and everything between matmuls are as in the plain strategy. Blocks lie along
// the dimension that is summed over: those of x^T and dy^T span rows of the whole micro-batch, so rows are gathered
// first.
#include "model/linear.h"
#include "ops/device.h"

static struct operand stored_blocks(const struct linear *linear, const struct pass *pass, bool is_backward) {
    return fp8_weight(linear->fp8, linear->fp8_layer, is_backward, pass->device, pass->scratch);
}

static struct tensor all_rows(const struct linear *linear, const struct pass *pass, struct tensor x) {
    return linear->sums_input ? pass_gather(pass, pass->scratch, x, "layer input") : x;
}

static struct operand blocks_input(const struct linear *linear, const struct pass *pass, struct operand x) {
    if (x.range.data)
        return x;
    struct tensor all = all_rows(linear, pass, x.value);
    struct operand stored = fp8_take(linear->fp8->inputs, linear->fp8->values, all, FP8_VALUE, pass->scratch);
    op_quantize_blocks(pass->device, &(struct op_quantize_blocks){.y = stored, .x = all});
    return stored;
}

// Stochastic rounding of NVFP4 gradients, keyed by layer and element.
static struct stochastic rounding_of(const struct linear *linear, const struct pass *pass) {
    if (linear->fp8->values != DTYPE_E2M1X2)
        return (struct stochastic){0};
    const struct shard *shard = &linear->weight->shard;
    bool is_split = shard->parts > 1 && shard->dimension == 0;
    return (struct stochastic){.row_ids = pass_input(pass, BATCH_ROW_IDS),
                               .seed = pass->seed,
                               .site = (uint32_t)linear->fp8_layer,
                               .first_column = is_split ? shard->part * linear->out : 0};
}

static bool mixes(const struct linear *linear) {
    return linear->fp8->values == DTYPE_E2M1X2;
}

static struct operand blocks_gradient(const struct linear *linear, const struct pass *pass, struct tensor dy,
                                      struct tensor dbias) {
    struct operand stored =
        fp8_take(linear->fp8->inputs, linear->fp8->gradients, dy, FP8_VALUE | FP8_TRANSPOSED, pass->scratch);
    if (dbias.data)
        op_column_sum(pass->device, &(struct op_column_sum){.out = dbias, .x = dy});
    op_quantize_blocks(pass->device,
                       &(struct op_quantize_blocks){
                           .y = stored, .x = dy, .rounding = rounding_of(linear, pass), .mixes = mixes(linear)});
    return stored;
}

static void blocks_prepare(const struct linear *linear, const struct pass *pass, struct operand *dy,
                           struct operand *x) {
    dy->value = dy->range = (struct tensor){0};
    if (x->transposed.data)
        return;
    struct tensor all = all_rows(linear, pass, x->value);
    struct operand stored = fp8_take(linear->fp8->inputs, linear->fp8->values, all, FP8_TRANSPOSED, pass->scratch);
    op_quantize_blocks(pass->device, &(struct op_quantize_blocks){.y = stored, .x = all, .mixes = mixes(linear)});
    *x = stored;
}

static struct operand blocks_normalize(const struct linear *linear, const struct pass *pass, const struct norm *norm,
                                       struct norm_saved *saved, struct tensor x, const struct residual *residual) {
    return linear_plain.normalize(linear, pass, norm, saved, x, residual);
}

static void blocks_activate(const struct activation_step *between, const struct pass *pass,
                            struct activation_saved *saved, struct operand x) {
    linear_plain.activate(between, pass, saved, x);
}

static struct operand blocks_activate_backward(const struct activation_step *between, const struct pass *pass,
                                               const struct activation_saved *saved, struct operand dy,
                                               struct operand *after) {
    return linear_plain.activate_backward(between, pass, saved, dy, after);
}

const struct linear_strategy linear_blocks = {.weight = stored_blocks,
                                              .input = blocks_input,
                                              .gradient = blocks_gradient,
                                              .prepare = blocks_prepare,
                                              .normalize = blocks_normalize,
                                              .activate = blocks_activate,
                                              .activate_backward = blocks_activate_backward};
