// Puts the parts of a model together, and takes micro-batches through them. See model.h.
#include "model/model.h"
#include "base/error.h"
#include "ops/device.h"

static void build_stacks(struct model *model, struct param_list *params, const struct model_options *options) {
    const struct config_piece *piece = &options->piece;
    int64_t encoder = model->encoder_layers, decoder = config_decoder_layers(options->config);
    // An end of a pipeline may have a stack without layers.
    bool is_end = piece->encoder_count + piece->decoder_count == 0;
    if (piece->encoder_count > 0 || (is_end && model->form == CONFIG_BERT))
        stack_build(&model->encoder, params,
                    &(struct stack_options){.name = "encoder",
                                            .choices = &model->choices,
                                            .first = piece->encoder_first,
                                            .L = piece->encoder_count,
                                            .begins = piece->begins,
                                            .ends = piece->ends,
                                            .layers = encoder});
    if (piece->decoder_count > 0 || (is_end && model->form == CONFIG_GPT))
        stack_build(&model->decoder, params,
                    &(struct stack_options){.name = "decoder",
                                            .choices = &model->choices,
                                            .first = piece->decoder_first,
                                            .L = piece->decoder_count,
                                            .begins = piece->begins,
                                            .ends = piece->ends,
                                            .layers = decoder,
                                            .is_causal = true,
                                            .has_cross = encoder > 0,
                                            .first_dropout_layer = encoder,
                                            .first_cross_dropout_layer = encoder + decoder});
}

static bool has_both(const struct model *model) {
    return model->form == CONFIG_T5;
}

void model_build(struct model *model, struct param_list *params, const struct model_options *options) {
    const struct mesh alone = {.size = 1, .length = {1, 1, 1, 1}};
    const struct config *config = options->config;
    *model = (struct model){.form = config_form(config),
                            .V = config->padded_vocab_size,
                            .P = config->max_position_embeddings,
                            .encoder_layers = config_encoder_layers(config)};
    choices_set(&model->choices, config, options->mesh ? options->mesh : &alone);
    fp8_set(&model->fp8, config);
    model->choices.fp8 = config->fp8_format ? &model->fp8 : NULL;
    if (options->piece.begins)
        embedding_build(&model->embedding, params, config, &model->choices);
    build_stacks(model, params, options);
    model->has_head = model->form == CONFIG_BERT ? model->encoder.ends : model->decoder.ends;
    model->has_pair_head = model->has_head && config_has_binary_head(config);
    if (model->has_head)
        head_build(&model->head, params, config, &model->choices);
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

// A stack with the embeddings before it, and what they keep of one micro-batch.
struct section {
    const struct stack *stack;
    struct stack_flight *stack_flight;
    struct embedding_flight *embedding_flight;
    struct pass pass;
    struct embedding_input input;
};

// The only stack, or the encoder under a decoder: the one that `tokens` goes through.
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

// A decoder over an encoder. Its padding is at the end, where no counted token sees it.
static struct section second_section(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                     const struct device_batch *batch) {
    struct section section = {.stack = &model->decoder,
                              .stack_flight = &flight->decoder,
                              .embedding_flight = &flight->embeddings[1],
                              .pass = *pass,
                              .input = {.tokens = batch->decoder_tokens,
                                        .positions = batch->decoder_positions,
                                        .dropout_layer = model->encoder_layers}};
    section.pass.T = batch->S;
    section.pass.row_ids = batch->decoder_row_ids;
    section.pass.positions = batch->decoder_positions;
    section.pass.memory = flight->memory;
    return section;
}

// The section whose output goes to the heads.
static struct section last_section(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                   const struct device_batch *batch) {
    return has_both(model) ? second_section(model, pass, flight, batch) : first_section(model, pass, flight, batch);
}

// From tokens, or from x if an earlier piece has the embeddings, to the input of the final norm.
static struct tensor run(const struct model *model, const struct section *section, struct tensor x) {
    if (section->stack->begins) {
        // The tables are declared before the blocks.
        if (section->stack->L > 0)
            pass_await_param(&section->pass, block_first_matrix(&section->stack->blocks[0]));
        else if (section->pass.reducer)
            reducer_settle(section->pass.reducer);
        x = embedding_forward(&model->embedding, &section->pass, section->embedding_flight, &section->input);
    }
    return stack_forward(section->stack, &section->pass, section->stack_flight, x);
}

static struct tensor normalize(const struct section *section, struct tensor x) {
    return stack_normalize(section->stack, &section->pass, section->stack_flight, x);
}

struct handover model_forward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                              const struct device_batch *batch, struct handover in) {
    flight->memory = (struct memory){.x = in.memory, .T = pass->T, .key_counts = batch->lengths};
    if (has_both(model) && model->encoder.L > 0) {
        struct section encoder = first_section(model, pass, flight, batch);
        struct tensor x = normalize(&encoder, run(model, &encoder, in.x));
        if (!model->encoder.ends)
            return (struct handover){.x = x};
        flight->memory.x = x;
        if (model->decoder.L == 0)
            return (struct handover){.memory = x};
    }
    struct section last = last_section(model, pass, flight, batch);
    struct tensor y = normalize(&last, run(model, &last, in.x));
    if (!model->has_head)
        return (struct handover){.x = y, .memory = flight->memory.x};
    if (pass->reducer)
        reducer_settle(pass->reducer);
    head_forward(&model->head, &last.pass, &flight->head, y, (struct tensor){0});
    head_loss(&model->head, &last.pass, &flight->head, &batch->targets);
    if (model->has_pair_head)
        pair_head_forward(&model->pair_head, &last.pass, &flight->pair_head, y, &batch->pair);
    return (struct handover){0};
}

void model_clear_tables(const struct model *model, struct device *device) {
    const struct param *tables[] = {model->embedding.positions, model->embedding.types};
    const struct stack *stacks[] = {&model->encoder, &model->decoder};
    for (size_t i = 0; i < 2; i++) {
        if (tables[i])
            device_zero(device, tables[i]->grad);
        for (int64_t t = 0; t < stacks[i]->tables; t++)
            device_zero(device, stacks[i]->relative[t]->grad);
    }
    if (model->embedding.tokens && model->head.weight != model->embedding.tokens)
        device_zero(device, model->embedding.tokens->grad);
}

// Memory for a gradient (N, C) of the section's stream, in scratch.
static struct tensor take_gradient(const struct model *model, const struct pass *pass) {
    return arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), model->choices.C);
}

// From dy (N, C), the gradient of a section's output, to that of its input: to din if an earlier piece waits for it,
// otherwise to the tables.
static void backward_section(const struct model *model, const struct section *section, struct tensor din,
                             struct tensor dy) {
    const struct pass *pass = &section->pass;
    struct tensor dx = din;
    if (section->stack->begins)
        dx = section->stack->has_final_norm ? take_gradient(model, pass) : dy;
    else if (!section->stack->has_final_norm)
        op_copy(pass->device, &(struct op_copy){.dst = dx, .src = dy});
    stack_backward(section->stack, pass, section->stack_flight, dx, section->stack->has_final_norm ? dy : dx);
    if (section->stack->begins) {
        struct pass at_once = *pass;
        at_once.deferred = NULL;
        embedding_backward(&model->embedding, &at_once, section->embedding_flight, &section->input, dx);
    }
}

// The last section of the model, followed by the heads if this piece has them.
static void backward_last(const struct model *model, const struct section *section, struct model_flight *flight,
                          const struct model_gradients *gradients) {
    const struct pass *pass = &section->pass;
    size_t mark = arena_mark(pass->scratch);
    struct tensor dy = gradients->dout.x;
    // The weight gradients of the heads are never deferred, because that would keep the logits.
    struct pass at_once = *pass;
    at_once.deferred = NULL;
    if (model->has_head) {
        dy = take_gradient(model, pass);
        head_backward(&model->head, &at_once, &flight->head, dy);
    }
    if (model->has_pair_head)
        pair_head_backward(&model->pair_head, &at_once, &flight->pair_head, dy);
    backward_section(model, section, gradients->din.x, dy);
    arena_release(pass->scratch, mark);
}

// Decoders add to the gradient of the memory: all decoder pieces do, from the last to the first; then the encoder uses
// it.
static void backward_both(const struct model *model, const struct pass *pass, struct model_flight *flight,
                          const struct device_batch *batch, const struct model_gradients *gradients) {
    struct section first = first_section(model, pass, flight, batch);
    struct tensor dmemory = gradients->dout.memory;
    if (model->decoder.L > 0) {
        bool is_passed_on = model->encoder.L == 0;
        flight->memory.dx = is_passed_on ? gradients->din.memory : take_gradient(model, &first.pass);
        if (dmemory.data)
            op_copy(pass->device, &(struct op_copy){.dst = flight->memory.dx, .src = dmemory});
        else
            device_zero(pass->device, flight->memory.dx);
        dmemory = flight->memory.dx;
        struct section second = second_section(model, pass, flight, batch);
        backward_last(model, &second, flight, gradients);
    }
    if (model->encoder.L > 0)
        backward_section(model, &first, gradients->din.x, model->encoder.ends ? dmemory : gradients->dout.x);
}

void model_backward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                    const struct device_batch *batch, const struct model_gradients *gradients) {
    size_t mark = arena_mark(pass->scratch);
    if (has_both(model)) {
        backward_both(model, pass, flight, batch, gradients);
    } else {
        struct section only = first_section(model, pass, flight, batch);
        backward_last(model, &only, flight, gradients);
    }
    arena_release(pass->scratch, mark);
}

void model_encode(const struct model *model, const struct pass *pass, struct model_flight *flight,
                  const struct device_batch *batch, struct tensor memory) {
    CHECK(has_both(model) && !pass->is_training);
    struct section section = first_section(model, pass, flight, batch);
    section.pass.cache = NULL;
    op_copy(pass->device,
            &(struct op_copy){.dst = memory, .src = normalize(&section, run(model, &section, (struct tensor){0}))});
    flight->memory = (struct memory){.x = memory, .T = pass->T, .key_counts = batch->lengths};
}

// Logits (1, V) of one row. Ranks that share the vocabulary each compute those of their own tokens, and then gather all
// of them. Every part but the last ones is full, so the parts one after the other are the whole, without gaps.
static void share_logits(const struct model *model, const struct pass *pass, struct head_flight *flight,
                         struct tensor x, struct tensor logits) {
    int64_t parts = pass_parts(pass), part = (model->V + parts - 1) / parts;
    if (parts == 1) {
        head_forward(&model->head, pass, flight, x, logits);
        return;
    }
    size_t mark = arena_mark(pass->scratch);
    struct tensor all = arena_1d(pass->scratch, DTYPE_F32, parts * part);
    // Separate memory, because a part of the whole need not be aligned as products on a GPU want it.
    struct tensor own = arena_1d(pass->scratch, DTYPE_F32, part);
    head_forward(&model->head, pass, flight, x,
                 tensor_reshape_2d(tensor_rows(own, 0, model->head.V), 1, model->head.V));
    if (!pass->device->ops->is_paper) {
        struct comm_request request = comm_all_gather_start(pass->mesh->group[AXIS_TENSOR], all, own, "logits");
        comm_wait(&request);
    }
    op_copy(pass->device,
            &(struct op_copy){.dst = logits, .src = tensor_reshape_2d(tensor_rows(all, 0, model->V), 1, model->V)});
    arena_release(pass->scratch, mark);
}

struct tensor model_last_logits(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                const struct device_batch *batch, struct tensor x, struct tensor logits) {
    struct section section = last_section(model, pass, flight, batch);
    x = run(model, &section, x);
    int64_t C = model->choices.C, B = section.pass.B, T = section.pass.T;
    if (pass->cache)
        pass->cache->length += T;
    if (!model->has_head)
        return x;
    // Only the last row of each sequence is needed.
    struct tensor last = arena_2d(pass->saved, pass->dtype, B, C), all = tensor_reshape_4d(x, B, T, 1, C);
    op_copy(pass->device,
            &(struct op_copy){.dst = tensor_reshape_4d(last, B, 1, 1, C), .src = tensor_slice(all, 1, T - 1, 1)});
    share_logits(model, &section.pass, &flight->head, normalize(&section, last), logits);
    return (struct tensor){0};
}
