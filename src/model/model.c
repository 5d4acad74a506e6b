// Puts the parts of a model together, and takes micro-batches through them. See model.h.
#include "model/model.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "config/config.h"

#include <stdlib.h>

// `has_experts` has one entry per layer, see config_list_expert_layers.
static struct layer_choices decoder_layer(const struct model *model, const struct config *config, int64_t layer,
                                          const bool *has_experts) {
    struct layer_choices choices = choices_layer(&model->choices, config_encoder_layers(&config->model) > 0);
    choices.window = config_layer_window(&config->model, layer);
    choices.has_local_rope = choices.window > 0 && config->model.rotary_base_local > 0;
    choices.skips_rope = config_layer_skips_rope(&config->model, layer);
    choices.head_ranks = (int)config_layer_head_ranks(config, layer);
    int64_t before = 0;
    for (int64_t i = 0; i < layer; i++)
        before += has_experts[i];
    if (has_experts[layer])
        choices_add_experts(&choices, before);
    if (config_layer_is_bf16(config, layer, config_decoder_layers(&config->model)))
        choices.fp8 = choices.expert_fp8 = NULL;
    return choices;
}

static struct layer_choices encoder_layer(const struct model *model, const struct config *config, int64_t layer) {
    struct layer_choices choices = choices_layer(&model->choices, false);
    choices.head_ranks = (int)config_layer_head_ranks(config, layer);
    if (config_layer_is_bf16(config, layer, config_encoder_layers(&config->model)))
        choices.fp8 = choices.expert_fp8 = NULL;
    return choices;
}

static void build_stack(struct model *model, struct param_list *params, const struct model_options *options,
                        bool is_decoder) {
    const struct config_chunk *chunk = &options->chunk;
    int64_t encoder = config_encoder_layers(&options->config->model),
            decoder = config_decoder_layers(&options->config->model);
    struct stack_options stack = {.name = is_decoder ? "decoder" : "encoder",
                                  .choices = &model->choices,
                                  .first = is_decoder ? chunk->decoder_first : chunk->encoder_first,
                                  .L = is_decoder ? chunk->decoder_count : chunk->encoder_count,
                                  .begins = chunk->begins,
                                  .ends = chunk->ends,
                                  .layers = is_decoder ? decoder : encoder,
                                  .is_causal = is_decoder,
                                  .first_dropout_layer = is_decoder ? encoder : 0,
                                  .first_cross_dropout_layer = encoder + decoder};
    struct layer_choices *each = memory_alloc(sizeof *each * (size_t)(stack.L + 1));
    bool *has_experts = config_list_expert_layers(&options->config->model);
    for (int64_t i = 0; i < stack.L; i++)
        each[i] = is_decoder ? decoder_layer(model, options->config, stack.first + i, has_experts)
                             : encoder_layer(model, options->config, stack.first + i);
    stack.each = each;
    stack_build(is_decoder ? &model->decoder : &model->encoder, params, &stack);
    free(each);
    free(has_experts);
}

static void build_stacks(struct model *model, struct param_list *params, const struct model_options *options) {
    const struct config_chunk *chunk = &options->chunk;
    // An end of a pipeline may have a stack without layers.
    bool is_end = chunk->encoder_count + chunk->decoder_count == 0;
    if (chunk->encoder_count > 0 || (is_end && model->form == CONFIG_BERT))
        build_stack(model, params, options, false);
    if (chunk->decoder_count > 0 || (is_end && model->form == CONFIG_GPT))
        build_stack(model, params, options, true);
}

// Each is like the last layer of the decoder, but in fp8 even if that stays in bf16, as in Megatron-LM; layers with
// experts are numbered after the decoder's.
static void build_depths(struct model *model, struct param_list *params, const struct model_options *options) {
    const struct config *config = options->config;
    model->depth_count = options->chunk.depths;
    model->depths = memory_alloc(sizeof *model->depths * (size_t)model->depth_count);
    bool *has_experts = config_list_expert_layers(&config->model);
    struct depth_options depth = {
        .config = config,
        .choices = &model->choices,
        .embedding = &model->embedding,
        .layer = decoder_layer(model, config, config_decoder_layers(&config->model) - 1, has_experts)};
    depth.layer.fp8 = model->choices.fp8;
    depth.layer.expert_fp8 = model->choices.expert_fp8;
    for (; depth.number < model->depth_count; depth.number++) {
        depth.layer.expert_layer = config_expert_layers(&config->model) + depth.number;
        depth_build(&model->depths[depth.number], params, &depth);
    }
    free(has_experts);
}

static bool has_both(const struct model *model) {
    return model->form == CONFIG_T5;
}

struct model_options model_chunk(const struct model_options *options, int64_t number) {
    return (struct model_options){
        .config = options->config, .mesh = options->mesh, .chunk = config_chunk(options->config, number)};
}

void model_build(struct model *model, struct param_list *params, const struct model_options *options) {
    struct mesh alone;
    CHECK(mesh_place(&alone, 0, 1, NULL) == 0);
    const struct config *config = options->config;
    *model = (struct model){
        .form = config->model.form, .V = config->model.padded_vocab_size, .P = config->model.max_position_embeddings};
    choices_set(&model->choices, config, options->mesh ? options->mesh : &alone);
    fp8_set(&model->fp8, config, options->mesh ? options->mesh : &alone);
    model->choices.fp8 = config->run.fp8_format || config->run.fp4_format ? &model->fp8 : NULL;
    model->choices.expert_fp8 = config->machine.has_wide_experts ? NULL : model->choices.fp8;
    qk_clip_set(&model->qk_clip, config);
    model->choices.qk_clip = config->run.qk_clip ? &model->qk_clip : NULL;
    if (model->form == CONFIG_ICT) {
        biencoder_build(&model->biencoder, params, config, &model->choices);
        return;
    }
    experts_declare_groups(params, &model->choices);
    if (options->chunk.begins || options->chunk.depths > 0)
        embedding_build(&model->embedding, params, &config->model, &model->choices);
    build_stacks(model, params, options);
    model->has_head = model->form == CONFIG_BERT ? model->encoder.ends : model->decoder.ends;
    model->has_pair_head = model->has_head && config_has_binary_head(&config->model);
    if (model->has_head)
        head_build(&model->head, params, config, &model->choices);
    if (model->has_pair_head)
        pair_head_build(&model->pair_head, params, &model->choices);
    if (options->chunk.depths > 0)
        build_depths(model, params, options);
}

void model_free(struct model *model) {
    fp8_free(&model->fp8);
    stack_free(&model->encoder);
    stack_free(&model->decoder);
    for (int64_t i = 0; i < model->depth_count; i++)
        depth_free(&model->depths[i]);
    free(model->depths);
    biencoder_free(&model->biencoder);
    *model = (struct model){0};
}

const struct embedding *model_embedding(const struct model *model) {
    return model->form == CONFIG_ICT ? &model->biencoder.towers[TEXT_QUERY].embedding : &model->embedding;
}

void model_flight_open(struct model_flight *flight, const struct model *model) {
    *flight = (struct model_flight){.depth_count = model->depth_count,
                                    .depths = memory_alloc(sizeof *flight->depths * (size_t)model->depth_count)};
    for (int64_t i = 0; i < model->depth_count; i++)
        depth_flight_open(&flight->depths[i], &model->depths[i]);
    stack_flight_open(&flight->encoder, &model->encoder);
    stack_flight_open(&flight->decoder, &model->decoder);
    biencoder_flight_open(&flight->biencoder, &model->biencoder);
}

void model_flight_close(struct model_flight *flight) {
    for (int64_t i = 0; i < flight->depth_count; i++)
        depth_flight_close(&flight->depths[i]);
    free(flight->depths);
    stack_flight_close(&flight->encoder);
    stack_flight_close(&flight->decoder);
    biencoder_flight_close(&flight->biencoder);
    *flight = (struct model_flight){0};
}

void model_take_cache(const struct model *model, struct model_flight *flight, const struct cache_options *options) {
    stack_take_cache(&model->decoder, &flight->decoder, options);
}

// A stack with the embeddings before it, and their saved activations of one micro-batch.
struct section {
    const struct stack *stack;
    struct stack_flight *stack_flight;
    struct embedding_flight *embedding_flight;
    struct pass pass;
};

// The stack that `tokens` goes through: the only one, or the encoder under a decoder.
static struct section first_section(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                    const struct device_batch *batch) {
    bool is_encoder = model->form != CONFIG_GPT;
    struct section section = {.stack = is_encoder ? &model->encoder : &model->decoder,
                              .stack_flight = is_encoder ? &flight->encoder : &flight->decoder,
                              .embedding_flight = &flight->embeddings[0],
                              .pass = *pass};
    section.pass.batch = batch;
    return section;
}

// A decoder over an encoder. Its padding is at the end, where no counted token sees it.
static struct section second_section(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                     const struct device_batch *batch) {
    struct section section = {.stack = &model->decoder,
                              .stack_flight = &flight->decoder,
                              .embedding_flight = &flight->embeddings[1],
                              .pass = *pass};
    section.pass.batch = batch;
    section.pass.is_over_encoder = true;
    section.pass.T = batch->form.S;
    section.pass.memory = flight->memory;
    return section;
}

// The section whose output goes to the heads.
static struct section last_section(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                   const struct device_batch *batch) {
    return has_both(model) ? second_section(model, pass, flight, batch) : first_section(model, pass, flight, batch);
}

// Runs a section from tokens, or from x if an earlier chunk has the embeddings, to the input of the final norm.
static struct tensor run_section(const struct model *model, const struct section *section, struct tensor x) {
    if (section->stack->begins) {
        // The tables are declared before the blocks.
        if (section->stack->L > 0)
            pass_await_param(&section->pass, block_first_matrix(&section->stack->blocks[0]));
        else if (section->pass.reducer)
            reducer_settle(section->pass.reducer);
        x = embedding_forward(&model->embedding, &section->pass, section->embedding_flight);
    }
    return stack_forward(section->stack, &section->pass, section->stack_flight, x);
}

static struct tensor normalize(const struct section *section, struct tensor x) {
    return stack_normalize(section->stack, &section->pass, section->stack_flight, x);
}

struct handover model_forward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                              const struct device_batch *batch, struct handover in) {
    if (model->form == CONFIG_ICT) {
        biencoder_forward(&model->biencoder, pass, &flight->biencoder, batch);
        return (struct handover){0};
    }
    flight->memory = (struct memory){.x = in.memory, .T = pass->T};
    if (has_both(model) && model->encoder.L > 0) {
        struct section encoder = first_section(model, pass, flight, batch);
        struct tensor x = normalize(&encoder, run_section(model, &encoder, in.x));
        if (!model->encoder.ends)
            return (struct handover){.x = x};
        flight->memory.x = x;
        if (model->decoder.L == 0)
            return (struct handover){.memory = x};
    }
    struct section last = last_section(model, pass, flight, batch);
    struct tensor y = normalize(&last, run_section(model, &last, in.x));
    if (!model->has_head)
        return (struct handover){.x = y, .memory = flight->memory.x};
    if (pass->reducer)
        reducer_settle(pass->reducer);
    head_forward(&model->head, &last.pass, &flight->head, y, (struct tensor){0});
    head_loss(&model->head, &last.pass, &flight->head,
              &(struct targets){batch->labels, batch->loss_mask, batch->loss_weights, batch->loss_sum, batch->scores});
    if (model->has_pair_head)
        pair_head_forward(&model->pair_head, &last.pass, &flight->pair_head, y,
                          &(struct targets){.labels = batch->pair_labels,
                                            .mask = batch->pair_mask,
                                            .weights = batch->pair_weights,
                                            .loss_sum = batch->pair_loss_sum});
    for (int64_t i = 0; i < model->depth_count; i++)
        y = depth_forward(&model->depths[i], &last.pass, &flight->depths[i], &model->head, y);
    return (struct handover){0};
}

static void clear_embedding(const struct embedding *embedding, const struct param *head, struct device *device) {
    const struct param *tables[] = {embedding->positions, embedding->types,
                                    embedding->tokens == head ? NULL : embedding->tokens};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (tables[i])
            device_zero(device, tables[i]->grad);
}

void model_clear_tables(const struct model *model, struct device *device) {
    const struct tower *towers = model->biencoder.towers;
    const struct stack *stacks[] = {&model->encoder, &model->decoder, &towers[0].stack, &towers[1].stack};
    for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++)
        for (int64_t t = 0; t < stacks[i]->tables; t++)
            device_zero(device, stacks[i]->relative[t]->grad);
    clear_embedding(&model->embedding, model->head.weight, device);
    for (int i = 0; i < TEXT_COUNT; i++)
        clear_embedding(&towers[i].embedding, NULL, device);
}

// Memory for a gradient (N, C) of the section's stream, in scratch.
static struct tensor take_gradient(const struct model *model, const struct pass *pass) {
    return arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), model->choices.C);
}

// Backward of a section from dy (N, C), the gradient of its output, to din if an earlier chunk waits for it, otherwise
// to the tables.
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
        at_once.is_first = pass->is_first && model->depth_count == 0;
        embedding_backward(&model->embedding, &at_once, section->embedding_flight, dx);
    }
}

// Adds to dy (N, C) the gradient that all depths contribute to the head's input.
static void backward_depths(const struct model *model, const struct pass *pass, struct model_flight *flight,
                            struct tensor dy) {
    if (model->depth_count == 0)
        return;
    size_t mark = arena_mark(pass->scratch);
    struct tensor dh = take_gradient(model, pass);
    device_zero(pass->device, dh);
    for (int64_t i = model->depth_count - 1; i >= 0; i--)
        depth_backward(&model->depths[i], pass, &flight->depths[i], &model->head, dh);
    op_dropout_add(pass->device, &(struct op_dropout_add){.out = dy, .x = dh, .residual = dy});
    arena_release(pass->scratch, mark);
}

// The last section of the model, followed by the heads if this chunk has them.
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
    backward_depths(model, &at_once, flight, dy);
    backward_section(model, section, gradients->din.x, dy);
    arena_release(pass->scratch, mark);
}

// All decoder chunks, from the last to the first, add to the gradient of the memory; then the encoder uses it.
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
    if (model->form == CONFIG_ICT) {
        biencoder_backward(&model->biencoder, pass, &flight->biencoder, batch);
    } else if (has_both(model)) {
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
    section.pass.has_cache = false;
    section.pass.cached = 0;
    op_copy(
        pass->device,
        &(struct op_copy){.dst = memory, .src = normalize(&section, run_section(model, &section, (struct tensor){0}))});
    flight->memory = (struct memory){.x = memory, .T = pass->T};
}

// Logits (1, V) of one row. Ranks that share the vocabulary each compute those of their own tokens and gather all. All
// parts but the last ones are full, so the concatenated parts have no gaps.
static void share_logits(const struct model *model, const struct pass *pass, struct head_flight *flight,
                         struct tensor x, struct tensor logits) {
    int64_t parts = pass_parts(pass), part = (model->V + parts - 1) / parts;
    if (parts == 1) {
        head_forward(&model->head, pass, flight, x, logits);
        return;
    }
    size_t mark = arena_mark(pass->scratch);
    struct tensor all = arena_1d(pass->scratch, DTYPE_F32, parts * part);
    // Separate memory, since a part of the whole may lack the alignment that matmuls on a GPU need.
    struct tensor own = arena_1d(pass->scratch, DTYPE_F32, part);
    head_forward(&model->head, pass, flight, x,
                 tensor_reshape_2d(tensor_rows(own, 0, model->head.V), 1, model->head.V));
    struct comm_request request = comm_all_gather_start(pass->mesh->group[AXIS_TENSOR], all, own, "logits");
    comm_wait(&request);
    op_copy(pass->device,
            &(struct op_copy){.dst = logits, .src = tensor_reshape_2d(tensor_rows(all, 0, model->V), 1, model->V)});
    arena_release(pass->scratch, mark);
}

struct tensor model_last_logits(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                const struct device_batch *batch, struct tensor x, struct tensor logits) {
    struct section section = last_section(model, pass, flight, batch);
    x = run_section(model, &section, x);
    int64_t C = model->choices.C, B = section.pass.B, T = section.pass.T;
    if (!model->has_head)
        return x;
    // Only the last row of each sequence is needed.
    struct tensor last = arena_2d(pass->activations, pass->dtype, B, C), all = tensor_reshape_4d(x, B, T, 1, C);
    op_copy(pass->device,
            &(struct op_copy){.dst = tensor_reshape_4d(last, B, 1, 1, C), .src = tensor_slice(all, 1, T - 1, 1)});
    share_logits(model, &section.pass, &flight->head, normalize(&section, last), logits);
    return (struct tensor){0};
}
