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

void model_flight_open(struct model_flight *flight, const struct model *model) {
    *flight = (struct model_flight){0};
    stack_flight_open(&flight->encoder, &model->encoder);
    stack_flight_open(&flight->decoder, &model->decoder);
}

void model_flight_close(struct model_flight *flight) {
    stack_flight_close(&flight->encoder);
    stack_flight_close(&flight->decoder);
    *flight = (struct model_flight){0};
}

static bool has_both(const struct model *model) {
    return model->form == CONFIG_T5;
}

// A stack with the embeddings before it, and one micro-batch's way through them.
struct section {
    const struct stack *stack;
    struct stack_flight *stack_flight;
    struct embedding_flight *embedding_flight;
    struct pass pass;
    struct embedding_input input;
};

// The only stack, or the encoder under a decoder: the way of what `tokens` holds.
static struct section first_section(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                    const struct device_batch *batch) {
    bool is_encoder = model->form != CONFIG_GPT;
    struct section section = {.stack = is_encoder ? &model->encoder : &model->decoder,
                              .stack_flight = is_encoder ? &flight->encoder : &flight->decoder,
                              .embedding_flight = &flight->embeddings[0],
                              .pass = *pass,
                              .input = {.tokens = batch->tokens, .positions = batch->positions, .types = batch->types}};
    section.pass.row_ids = batch->row_ids;
    section.pass.positions = batch->positions;
    section.pass.key_counts = batch->lengths;
    section.pass.first_keys = batch->first_keys;
    return section;
}

// A decoder over an encoder. Its padding stands at the end, where no counted token sees it.
static struct section second_section(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                     const struct device_batch *batch) {
    struct section section = {.stack = &model->decoder,
                              .stack_flight = &flight->decoder,
                              .embedding_flight = &flight->embeddings[1],
                              .pass = *pass,
                              .input = {.tokens = batch->decoder_tokens,
                                        .positions = batch->decoder_positions,
                                        .dropout_layer = model->encoder.L}};
    section.pass.T = batch->S;
    section.pass.row_ids = batch->decoder_row_ids;
    section.pass.positions = batch->decoder_positions;
    section.pass.memory = flight->memory;
    return section;
}

// The one whose output the heads are given.
static struct section last_section(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                   const struct device_batch *batch) {
    return has_both(model) ? second_section(model, pass, flight, batch) : first_section(model, pass, flight, batch);
}

// From tokens to what the final norm takes.
static struct tensor run(const struct model *model, const struct section *section) {
    struct tensor x = embedding_forward(&model->embedding, &section->pass, section->embedding_flight, &section->input);
    return stack_forward(section->stack, &section->pass, section->stack_flight, x);
}

static struct tensor normalize(const struct section *section, struct tensor x) {
    return stack_normalize(section->stack, &section->pass, section->stack_flight, x);
}

void model_forward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                   const struct device_batch *batch) {
    if (has_both(model)) {
        struct section encoder = first_section(model, pass, flight, batch);
        struct tensor x = normalize(&encoder, run(model, &encoder));
        flight->memory = (struct memory){.x = x, .T = pass->T, .key_counts = batch->lengths};
    }
    struct section last = last_section(model, pass, flight, batch);
    struct tensor y = normalize(&last, run(model, &last));
    head_forward(&model->head, &last.pass, &flight->head, y, (struct tensor){0});
    head_loss(&model->head, &last.pass, &flight->head, &batch->targets);
    if (model->has_pair_head)
        pair_head_forward(&model->pair_head, &last.pass, &flight->pair_head, y, &batch->pair);
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

// From the gradient dy (N, C) of a section's output, where dx (N, C) is not the same, to the tables' gradients.
static void backward_section(const struct model *model, struct section *section, struct tensor dx, struct tensor dy) {
    stack_backward(section->stack, &section->pass, section->stack_flight, dx, dy);
    embedding_backward(&model->embedding, &section->pass, section->embedding_flight, &section->input, dx);
}

// The last section with the heads behind it.
static void backward_last(const struct model *model, struct section *section, struct model_flight *flight) {
    const struct pass *pass = &section->pass;
    size_t mark = arena_mark(pass->scratch);
    struct tensor dx = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), model->choices.C), dy = dx;
    if (section->stack->has_final_norm)
        dy = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), model->choices.C);
    head_backward(&model->head, pass, &flight->head, dy);
    if (model->has_pair_head)
        pair_head_backward(&model->pair_head, pass, &flight->pair_head, dy);
    backward_section(model, section, dx, dy);
    arena_release(pass->scratch, mark);
}

void model_backward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                    const struct device_batch *batch) {
    struct section first = first_section(model, pass, flight, batch);
    if (!has_both(model)) {
        backward_last(model, &first, flight);
        return;
    }
    size_t mark = arena_mark(pass->scratch);
    flight->memory.dx = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(&first.pass), model->choices.C);
    device_zero(pass->device, flight->memory.dx);
    struct section second = second_section(model, pass, flight, batch);
    backward_last(model, &second, flight);
    struct tensor dx = flight->memory.dx;
    if (first.stack->has_final_norm)
        dx = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(&first.pass), model->choices.C);
    backward_section(model, &first, dx, flight->memory.dx);
    arena_release(pass->scratch, mark);
}

void model_encode(const struct model *model, const struct pass *pass, struct model_flight *flight,
                  const struct device_batch *batch, struct tensor memory) {
    CHECK(has_both(model) && !pass->is_training);
    struct section section = first_section(model, pass, flight, batch);
    section.pass.cache = NULL;
    op_copy(pass->device, &(struct op_copy){.dst = memory, .src = normalize(&section, run(model, &section))});
    flight->memory = (struct memory){.x = memory, .T = pass->T, .key_counts = batch->lengths};
}

void model_last_logits(const struct model *model, const struct pass *pass, struct model_flight *flight,
                       const struct device_batch *batch, struct tensor logits) {
    struct section section = last_section(model, pass, flight, batch);
    struct tensor x = run(model, &section);
    // Only the last row of each sequence is wanted.
    int64_t C = model->choices.C, B = section.pass.B, T = section.pass.T;
    struct tensor last = arena_2d(pass->saved, pass->dtype, B, C), all = tensor_reshape_4d(x, B, T, 1, C);
    op_copy(pass->device,
            &(struct op_copy){.dst = tensor_reshape_4d(last, B, 1, 1, C), .src = tensor_slice(all, 1, T - 1, 1)});
    head_forward(&model->head, &section.pass, &flight->head, normalize(&section, last), logits);
    if (pass->cache)
        pass->cache->length += T;
}
