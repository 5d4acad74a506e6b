// One depth of multi-token prediction, forward and backward. See model.h.
#include "model/model.h"
#include "base/memory.h"
#include "ops/device.h"

#include <stdlib.h>

static void build_stack(struct depth *depth, struct param_list *params, const struct depth_options *options,
                        const char *name) {
    int64_t layers = config_decoder_layers(&options->config->model);
    stack_build(&depth->stack, params,
                &(struct stack_options){.name = name,
                                        .block = "transformer_layer",
                                        .choices = options->choices,
                                        .L = 1,
                                        .layers = layers,
                                        .ends = true,
                                        .each = &options->layer,
                                        .is_causal = true,
                                        .first_dropout_layer = layers + options->number});
}

// With --embedding-multiplier the residual stream is kept divided by it, see choices.c: eh_proj enters the stream, and
// the input of hnorm has left it.
void depth_build(struct depth *depth, struct param_list *params, const struct depth_options *options) {
    const struct choices *choices = options->choices;
    *depth = (struct depth){.number = options->number,
                            .is_last = options->number == options->config->model.mtp_num_layers - 1,
                            .embedding = *options->embedding};
    depth->embedding.dropout_layer = config_decoder_layers(&options->config->model) + options->number;
    char *name = memory_printf("mtp.layers.%lld", (long long)options->number);
    char *enorm = memory_printf("%s.enorm", name), *hnorm = memory_printf("%s.hnorm", name);
    char *eh_proj = memory_printf("%s.eh_proj", name);
    struct norm_options of_h = choices->norm;
    of_h.epsilon = choices->epsilon;
    norm_build(&depth->enorm, params, enorm, &choices->norm);
    norm_build(&depth->hnorm, params, hnorm, &of_h);
    linear_build(&depth->eh_proj, params, eh_proj,
                 &(struct linear_options){.weight = shard_whole(2, choices->C, 2 * choices->C),
                                          .standard_deviation = choices->standard_deviation,
                                          .sums_gradient = choices->splits_rows,
                                          .scale = (float)(1 / options->config->model.embedding_multiplier)});
    build_stack(depth, params, options, name);
    free(name);
    free(enorm);
    free(hnorm);
    free(eh_proj);
}

void depth_free(struct depth *depth) {
    stack_free(&depth->stack);
}

void depth_flight_open(struct depth_flight *flight, const struct depth *depth) {
    stack_flight_open(&flight->stack, &depth->stack);
}

void depth_flight_close(struct depth_flight *flight) {
    stack_flight_close(&flight->stack);
}

// This depth's part of a field with one part per depth.
static struct tensor own_part(const struct depth *depth, const struct device_batch *batch, struct tensor all) {
    int64_t rows = batch->form.B * batch->form.T;
    return all.data ? tensor_rows(all, depth->number * rows, rows) : all;
}

// The batch as the embedding sees it: later tokens and their positions.
static struct device_batch shifted(const struct depth *depth, const struct device_batch *batch) {
    struct device_batch later = *batch;
    later.tokens = own_part(depth, batch, batch->depth_tokens);
    later.positions = own_part(depth, batch, batch->depth_positions);
    return later;
}

static void add_losses(const struct depth *depth, const struct pass *pass, struct depth_flight *flight,
                       const struct head *head) {
    const struct device_batch *batch = pass->batch;
    struct targets targets = {.labels = own_part(depth, batch, batch->depth_labels),
                              .mask = own_part(depth, batch, batch->depth_mask),
                              .weights = own_part(depth, batch, batch->depth_weights),
                              .loss_sum = tensor_rows(batch->depth_losses, depth->number, 1)};
    head_loss(head, pass, &flight->head, &targets);
    // The mask is 0 or 1, so this counts.
    op_dot(pass->device, &(struct op_dot){.out = tensor_rows(batch->depth_counts, depth->number, 1),
                                          .a = targets.mask,
                                          .b = targets.mask});
}

// Normalizes x (N, C) into columns [first, first + C) of `joined` (N, 2C).
static void join(const struct norm *norm, const struct pass *pass, struct norm_saved *saved, struct tensor x,
                 struct tensor joined, int64_t first) {
    size_t mark = arena_mark(pass->scratch);
    int64_t N = x.shape[0], C = x.shape[1];
    norm_take(norm, pass, saved, N, operand_of(arena_2d(pass->scratch, pass->dtype, N, C)));
    norm_forward(norm, pass, saved, x, &(struct residual){0});
    op_copy(pass->device, &(struct op_copy){.dst = tensor_slice(joined, 1, first, C), .src = saved->y.value});
    arena_release(pass->scratch, mark);
}

struct tensor depth_forward(const struct depth *depth, const struct pass *pass, struct depth_flight *flight,
                            const struct head *head, struct tensor h) {
    int64_t N = h.shape[0], C = h.shape[1];
    struct device_batch later = shifted(depth, pass->batch);
    struct pass ahead = *pass;
    ahead.batch = &later;
    flight->words = embedding_forward(&depth->embedding, &ahead, &flight->embedding);
    flight->before = h;
    flight->joined = arena_2d(pass->activations, pass->dtype, N, 2 * C);
    join(&depth->enorm, pass, &flight->enorm, flight->words, flight->joined, 0);
    join(&depth->hnorm, pass, &flight->hnorm, h, flight->joined, C);
    struct tensor x = arena_2d(pass->activations, pass->dtype, N, C);
    linear_forward(&depth->eh_proj, pass, x, operand_of(flight->joined), EPILOGUE_NONE, (struct tensor){0});
    x = stack_forward(&depth->stack, pass, &flight->stack, x);
    struct tensor y = stack_normalize(&depth->stack, pass, &flight->stack, x);
    head_forward(head, pass, &flight->head, y, (struct tensor){0});
    add_losses(depth, pass, flight, head);
    return y;
}

// dx (N, C) = the gradient of a norm's input, from columns [first, first + C) of the gradient of `joined`.
static void backward_join(const struct norm *norm, const struct pass *pass, const struct norm_saved *saved,
                          const struct norm_gradient *gradient, struct tensor djoined, int64_t first) {
    int64_t C = gradient->dx.shape[1];
    op_copy(pass->device, &(struct op_copy){.dst = gradient->dy, .src = tensor_slice(djoined, 1, first, C)});
    norm_backward(norm, pass, saved, gradient);
}

// Backward of the inputs: from dx (N, C), the gradient of the block's input, to the embedding and to dh.
static void backward_inputs(const struct depth *depth, const struct pass *pass, struct depth_flight *flight,
                            struct tensor dx, struct tensor dh) {
    int64_t N = dh.shape[0], C = dh.shape[1];
    size_t mark = arena_mark(pass->scratch);
    struct tensor djoined = arena_2d(pass->scratch, pass->dtype, N, 2 * C);
    struct tensor dwords = arena_2d(pass->scratch, pass->dtype, N, C);
    struct operand dy = linear_gradient(&depth->eh_proj, pass, dx);
    linear_backward_input(&depth->eh_proj, pass, djoined, dy, (struct tensor){0});
    linear_backward_weight(&depth->eh_proj, pass, dy, operand_of(flight->joined));
    // dx is no longer needed; its memory is reused.
    backward_join(&depth->enorm, pass, &flight->enorm,
                  &(struct norm_gradient){.dx = dwords, .dy = dx, .x = flight->words}, djoined, 0);
    backward_join(&depth->hnorm, pass, &flight->hnorm, &(struct norm_gradient){.dx = dh, .dy = dx, .x = flight->before},
                  djoined, C);
    struct device_batch later = shifted(depth, pass->batch);
    struct pass ahead = *pass;
    ahead.batch = &later;
    ahead.is_first = pass->is_first && depth->is_last;
    embedding_backward(&depth->embedding, &ahead, &flight->embedding, dwords);
    arena_release(pass->scratch, mark);
}

void depth_backward(const struct depth *depth, const struct pass *pass, struct depth_flight *flight,
                    const struct head *head, struct tensor dh) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor dy = arena_2d(pass->scratch, pass->dtype, dh.shape[0], dh.shape[1]);
    struct tensor dx = arena_2d(pass->scratch, pass->dtype, dh.shape[0], dh.shape[1]);
    struct pass adds = *pass;
    adds.is_first = false;
    head_backward(head, &adds, &flight->head, dy);
    op_dropout_add(pass->device, &(struct op_dropout_add){.out = dy, .x = dh, .residual = dy});
    stack_backward(&depth->stack, pass, &flight->stack, dx, dy);
    backward_inputs(depth, pass, flight, dx, dh);
    arena_release(pass->scratch, mark);
}
