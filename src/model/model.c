// How the parts of a model are put together, and the way of a micro-batch through them. See model.h.
#include "model/model.h"
#include "base/error.h"
#include "ops/device.h"

void model_build(struct model *model, struct param_list *params, const struct config *config, const struct mesh *mesh) {
    const struct mesh alone = {.size = 1, .length = {1, 1, 1, 1}};
    *model = (struct model){.form = config_form(config),
                            .V = config->padded_vocab_size,
                            .P = config->max_position_embeddings,
                            .has_pair_head = config_has_binary_head(config)};
    choices_set(&model->choices, config, mesh ? mesh : &alone);
    fp8_set(&model->fp8, config);
    model->choices.fp8 = config->fp8_format ? &model->fp8 : NULL;
    embedding_build(&model->embedding, params, config, &model->choices);
    int64_t encoder = config_encoder_layers(config), decoder = config_decoder_layers(config);
    if (encoder > 0)
        stack_build(&model->encoder, params,
                    &(struct stack_options){.name = "encoder", .choices = &model->choices, .L = encoder});
    if (decoder > 0)
        stack_build(&model->decoder, params,
                    &(struct stack_options){.name = "decoder",
                                            .choices = &model->choices,
                                            .L = decoder,
                                            .is_causal = true,
                                            .has_cross = encoder > 0,
                                            .first_dropout_layer = encoder,
                                            .first_cross_dropout_layer = encoder + decoder});
    head_build(&model->head, params, config, &model->choices, model->embedding.tokens);
    if (model->has_pair_head)
        pair_head_build(&model->pair_head, params, &model->choices);
}

void model_free(struct model *model) {
    fp8_free(&model->fp8);
    stack_free(&model->encoder);
    stack_free(&model->decoder);
    *model = (struct model){0};
}

// The pass of the tokens that `tokens` holds: the only stack's, or the encoder's.
static struct pass first_pass(const struct pass *pass, const struct device_batch *batch) {
    struct pass own = *pass;
    own.row_ids = batch->row_ids;
    own.positions = batch->positions;
    own.key_counts = batch->lengths;
    own.first_keys = batch->first_keys;
    return own;
}

// The pass of a decoder over an encoder. Its padding stands at the end, where no counted token sees it.
static struct pass second_pass(const struct model *model, const struct pass *pass, const struct device_batch *batch) {
    struct pass own = *pass;
    own.T = batch->S;
    own.row_ids = batch->decoder_row_ids;
    own.positions = batch->decoder_positions;
    own.memory = model->memory;
    return own;
}

static struct embedding_input first_input(const struct device_batch *batch) {
    return (struct embedding_input){.tokens = batch->tokens, .positions = batch->positions, .types = batch->types};
}

static struct embedding_input second_input(const struct model *model, const struct device_batch *batch) {
    return (struct embedding_input){
        .tokens = batch->decoder_tokens, .positions = batch->decoder_positions, .dropout_layer = model->encoder.L};
}

static bool has_both(const struct model *model) {
    return model->form == CONFIG_T5;
}

// The stack whose output the heads are given.
static struct stack *last_stack(struct model *model) {
    return model->form == CONFIG_BERT ? &model->encoder : &model->decoder;
}

static struct tensor run_stack(struct model *model, struct stack *stack, const struct pass *pass,
                               const struct embedding_input *input) {
    return stack_forward(stack, pass, embedding_forward(&model->embedding, pass, input));
}

void model_forward(struct model *model, const struct pass *pass, const struct device_batch *batch) {
    struct pass own = first_pass(pass, batch);
    struct embedding_input input = first_input(batch);
    if (has_both(model)) {
        struct tensor x = run_stack(model, &model->encoder, &own, &input);
        model->memory =
            (struct memory){.x = stack_normalize(&model->encoder, &own, x), .T = own.T, .key_counts = batch->lengths};
        own = second_pass(model, pass, batch);
        input = second_input(model, batch);
    }
    struct stack *stack = last_stack(model);
    struct tensor y = stack_normalize(stack, &own, run_stack(model, stack, &own, &input));
    head_forward(&model->head, &own, y, (struct tensor){0});
    head_loss(&model->head, &own, &batch->targets);
    if (model->has_pair_head)
        pair_head_forward(&model->pair_head, &own, y, &batch->pair);
}

void model_clear_gradients(const struct model *model, struct device *device, const struct param_list *params,
                           struct tensor grads) {
    const struct param *tables[] = {model->embedding.positions, model->embedding.types, model->encoder.relative,
                                    model->decoder.relative};
    device_zero(device, tensor_rows(grads, params->decayed, params->total - params->decayed));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (tables[i])
            device_zero(device, tables[i]->grad);
    if (model->head.weight != model->embedding.tokens)
        device_zero(device, model->embedding.tokens->grad);
}

// From the heads to the stream before a stack's first block: dx (N, C).
static void backward_last_stack(struct model *model, const struct pass *pass, struct tensor dx) {
    struct stack *stack = last_stack(model);
    size_t mark = arena_mark(pass->scratch);
    struct tensor dy = dx;
    if (stack->has_final_norm)
        dy = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), model->choices.C);
    head_backward(&model->head, pass, dy);
    if (model->has_pair_head)
        pair_head_backward(&model->pair_head, pass, dy);
    stack_backward(stack, pass, dx, dy);
    arena_release(pass->scratch, mark);
}

static void backward_both(struct model *model, const struct pass *pass, const struct device_batch *batch) {
    int64_t C = model->choices.C;
    size_t mark = arena_mark(pass->scratch);
    struct pass encoder = first_pass(pass, batch);
    model->memory.dx = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(&encoder), C);
    device_zero(pass->device, model->memory.dx);
    struct pass decoder = second_pass(model, pass, batch);
    struct embedding_input first = first_input(batch), second = second_input(model, batch);
    size_t inner = arena_mark(pass->scratch);
    struct tensor dx = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(&decoder), C);
    backward_last_stack(model, &decoder, dx);
    embedding_backward(&model->embedding, &decoder, &second, dx);
    arena_release(pass->scratch, inner);
    dx = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(&encoder), C);
    stack_backward(&model->encoder, &encoder, dx, model->memory.dx);
    embedding_backward(&model->embedding, &encoder, &first, dx);
    arena_release(pass->scratch, mark);
}

void model_backward(struct model *model, const struct pass *pass, const struct device_batch *batch) {
    if (has_both(model)) {
        backward_both(model, pass, batch);
        return;
    }
    struct pass own = first_pass(pass, batch);
    struct embedding_input input = first_input(batch);
    size_t mark = arena_mark(pass->scratch);
    struct tensor dx = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(&own), model->choices.C);
    backward_last_stack(model, &own, dx);
    embedding_backward(&model->embedding, &own, &input, dx);
    arena_release(pass->scratch, mark);
}

void model_encode(struct model *model, const struct pass *pass, const struct device_batch *batch,
                  struct tensor memory) {
    CHECK(has_both(model) && !pass->is_training);
    struct pass own = first_pass(pass, batch);
    own.cache = NULL;
    struct embedding_input input = first_input(batch);
    struct tensor x = run_stack(model, &model->encoder, &own, &input);
    op_copy(pass->device, &(struct op_copy){.dst = memory, .src = stack_normalize(&model->encoder, &own, x)});
    model->memory = (struct memory){.x = memory, .T = own.T, .key_counts = batch->lengths};
}

void model_last_logits(struct model *model, const struct pass *pass, const struct device_batch *batch,
                       struct tensor logits) {
    struct pass own = has_both(model) ? second_pass(model, pass, batch) : first_pass(pass, batch);
    struct embedding_input input = has_both(model) ? second_input(model, batch) : first_input(batch);
    struct stack *stack = last_stack(model);
    struct tensor x = run_stack(model, stack, &own, &input);
    // Only the last row of each sequence is wanted.
    int64_t C = model->choices.C;
    struct tensor last = arena_2d(pass->saved, pass->dtype, own.B, C), all = tensor_reshape_4d(x, own.B, own.T, 1, C);
    op_copy(pass->device, &(struct op_copy){.dst = tensor_reshape_4d(last, own.B, 1, 1, C),
                                            .src = tensor_slice(all, 1, own.T - 1, 1)});
    head_forward(&model->head, &own, stack_normalize(stack, &own, last), logits);
    if (own.cache)
        own.cache->length += own.T;
}
