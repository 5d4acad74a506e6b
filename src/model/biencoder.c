// The bi-encoder, forward and backward. See model.h.
#include "model/model.h"
#include "base/memory.h"
#include "model/head.h"
#include "ops/device.h"

#include <math.h>
#include <stdlib.h>

static void build_tower(struct tower *tower, struct param_list *params, const struct config *config,
                        const struct choices *choices) {
    int64_t L = config_encoder_layers(&config->model), E = config->model.biencoder_projection_dim;
    embedding_build(&tower->embedding, params, &config->model, choices);
    struct layer_choices *each = memory_alloc(sizeof *each * (size_t)L);
    for (int64_t i = 0; i < L; i++)
        each[i] = choices_layer(choices, false);
    stack_build(&tower->stack, params,
                &(struct stack_options){.name = "encoder",
                                        .choices = choices,
                                        .L = L,
                                        .begins = true,
                                        .ends = true,
                                        .layers = L,
                                        .each = each,
                                        .first_cross_dropout_layer = L});
    free(each);
    if (E > 0)
        linear_build(&tower->projection, params, "projection_enc",
                     &(struct linear_options){.weight = shard_whole(2, E, choices->C),
                                              .has_bias = true,
                                              .standard_deviation = choices->standard_deviation});
}

void biencoder_build(struct biencoder *biencoder, struct param_list *params, const struct config *config,
                     const struct choices *choices) {
    static const char *const scopes[TEXT_COUNT] = {"query_model.", "context_model."};
    int64_t C = choices->C, E = config->model.biencoder_projection_dim;
    *biencoder = (struct biencoder){.is_shared = config->model.biencoder_shared_query_context_model,
                                    .C = C,
                                    .E = E > 0 ? E : C,
                                    .scale = config->model.retriever_score_scaling ? 1.0f / sqrtf((float)C) : 1.0f,
                                    .top_count = (int)config->run.retriever_report_topk_accuracies.count};
    for (int i = 0; i < biencoder->top_count; i++)
        biencoder->tops[i] = config_top(config, i);
    for (int i = 0; i < (biencoder->is_shared ? 1 : TEXT_COUNT); i++) {
        params->scope = biencoder->is_shared ? "shared_model." : scopes[i];
        build_tower(&biencoder->towers[i], params, config, choices);
    }
    params->scope = NULL;
}

void biencoder_free(struct biencoder *biencoder) {
    for (int i = 0; i < TEXT_COUNT; i++)
        stack_free(&biencoder->towers[i].stack);
    *biencoder = (struct biencoder){0};
}

static const struct tower *tower_of(const struct biencoder *biencoder, int text) {
    return &biencoder->towers[biencoder->is_shared ? 0 : text];
}

void biencoder_flight_open(struct biencoder_flight *flight, const struct biencoder *biencoder) {
    for (int i = 0; i < TEXT_COUNT; i++)
        stack_flight_open(&flight->towers[i].stack, &tower_of(biencoder, i)->stack);
}

void biencoder_flight_close(struct biencoder_flight *flight) {
    for (int i = 0; i < TEXT_COUNT; i++)
        stack_flight_close(&flight->towers[i].stack);
}

// The fields of a text under the names that layers read. All texts have positions 0, 1, … and tokens of type 0.
static struct device_batch text_of(const struct device_batch *batch, int text) {
    struct device_batch own = *batch;
    if (text == TEXT_CONTEXT) {
        own.row_ids = batch->context_row_ids;
        own.tokens = batch->context_tokens;
        own.lengths = batch->context_lengths;
    }
    return own;
}

// The rows of the first tokens of x (B * T, C).
static struct tensor first_tokens(const struct pass *pass, struct tensor x) {
    int64_t C = x.shape[1];
    return tensor_slice(tensor_reshape_2d(x, pass->B, pass->T * C), 1, 0, C);
}

// From tokens to `embedded` (B, E) fp32.
static void embed(const struct biencoder *biencoder, const struct pass *pass, struct biencoder_flight *flight, int text,
                  struct tensor embedded) {
    const struct tower *tower = tower_of(biencoder, text);
    struct tower_flight *own = &flight->towers[text];
    // The tables are declared before the blocks.
    pass_await_param(pass, block_first_matrix(&tower->stack.blocks[0]));
    struct tensor x = embedding_forward(&tower->embedding, pass, &own->embedding);
    x = stack_forward(&tower->stack, pass, &own->stack, x);
    x = stack_normalize(&tower->stack, pass, &own->stack, x);
    own->first = first_tokens(pass, pass_gather(pass, pass->activations, x, "tower output"));
    struct tensor out = own->first;
    if (tower->projection.weight) {
        pass_await_param(pass, tower->projection.weight);
        out = arena_2d(pass->activations, pass->dtype, pass->B, biencoder->E);
        linear_forward(&tower->projection, pass, out, operand_of(own->first), EPILOGUE_BIAS, (struct tensor){0});
    }
    op_copy(pass->device, &(struct op_copy){.dst = embedded, .src = out});
}

// This rank's rows of a tensor gathered from all data-parallel ranks.
static struct tensor own_rows(const struct pass *pass, struct tensor all) {
    return tensor_rows(all, pass->B * pass->mesh->place[AXIS_DATA], pass->B);
}

static void gather_contexts(const struct pass *pass, struct tensor all) {
    if (pass->mesh->length[AXIS_DATA] == 1)
        return;
    struct comm_request request =
        comm_all_gather_start(pass->mesh->group[AXIS_DATA], all, own_rows(pass, all), "context embeddings");
    comm_wait(&request);
}

// Sums the gradients of contexts, which each rank has from its own queries, and gives each rank those of its contexts.
static void scatter_gradients(const struct pass *pass, struct tensor all) {
    if (pass->mesh->length[AXIS_DATA] == 1)
        return;
    struct comm_request request =
        comm_reduce_scatter_start(pass->mesh->group[AXIS_DATA], own_rows(pass, all), all, "context gradients");
    comm_wait(&request);
}

void biencoder_forward(const struct biencoder *biencoder, const struct pass *pass, struct biencoder_flight *flight,
                       const struct device_batch *batch) {
    int64_t B = pass->B, N = B * pass->mesh->length[AXIS_DATA];
    flight->queries = arena_2d(pass->activations, DTYPE_F32, B, biencoder->E);
    flight->contexts = arena_2d(pass->activations, DTYPE_F32, N, biencoder->E);
    flight->scores = arena_2d(pass->activations, DTYPE_F32, B, N);
    for (int i = 0; i < TEXT_COUNT; i++) {
        struct device_batch text = text_of(batch, i);
        struct pass inner = *pass;
        inner.batch = &text;
        embed(biencoder, &inner, flight, i, i == TEXT_QUERY ? flight->queries : own_rows(pass, flight->contexts));
    }
    if (pass->reducer)
        reducer_settle(pass->reducer);
    gather_contexts(pass, flight->contexts);
    op_matmul(pass->device, &(struct op_matmul){.a = flight->queries,
                                                .b = flight->contexts,
                                                .d = flight->scores,
                                                .transpose_b = true,
                                                .alpha = biencoder->scale});
    if (biencoder->top_count > 0) {
        struct op_top_hits hits = {
            .hits = batch->top_hits, .logits = flight->scores, .labels = batch->labels, .count = biencoder->top_count};
        for (int i = 0; i < hits.count; i++)
            hits.tops[i] = biencoder->tops[i];
        op_top_hits(pass->device, &hits);
    }
    head_add_loss(NULL, pass, flight->scores,
                  &(struct targets){.labels = batch->labels,
                                    .mask = batch->loss_mask,
                                    .weights = batch->loss_weights,
                                    .loss_sum = batch->loss_sum});
}

// The gradient of a tower's output at the first tokens, into their rows of dx (B * T, C).
static void backward_first(const struct biencoder *biencoder, const struct pass *pass, const struct tower_flight *own,
                           const struct tower *tower, struct tensor dembedded, struct tensor dx) {
    struct tensor dfirst = first_tokens(pass, dx);
    if (!tower->projection.weight) {
        op_copy(pass->device, &(struct op_copy){.dst = dfirst, .src = dembedded});
        return;
    }
    struct tensor dy = arena_2d(pass->scratch, pass->dtype, pass->B, biencoder->E);
    op_copy(pass->device, &(struct op_copy){.dst = dy, .src = dembedded});
    struct operand dout = linear_gradient(&tower->projection, pass, dy);
    linear_backward_input_add(&tower->projection, pass, dfirst, dout);
    linear_backward_weight(&tower->projection, pass, dout, operand_of(own->first));
}

// From dembedded (B, E) fp32 to the gradients of a tower.
static void backward_text(const struct biencoder *biencoder, const struct pass *pass, struct biencoder_flight *flight,
                          int text, struct tensor dembedded) {
    const struct tower *tower = tower_of(biencoder, text);
    struct tower_flight *own = &flight->towers[text];
    size_t mark = arena_mark(pass->scratch);
    int64_t rows = pass_stream_rows(pass), C = biencoder->C;
    struct tensor dy = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), C);
    device_zero(pass->device, dy);
    backward_first(biencoder, pass, own, tower, dembedded, dy);
    dy = pass_own_rows(pass, dy);  // every rank that shares layers has the whole gradient
    struct tensor dx = tower->stack.has_final_norm ? arena_2d(pass->scratch, pass->dtype, rows, C) : dy;
    stack_backward(&tower->stack, pass, &own->stack, dx, dy);
    embedding_backward(&tower->embedding, pass, &own->embedding, dx);
    arena_release(pass->scratch, mark);
}

// Contexts first: gradients become final in the reverse of the order in which parameters are declared. A shared tower
// has two backward passes, and its gradients are written by the first and final after the second.
void biencoder_backward(const struct biencoder *biencoder, const struct pass *pass, struct biencoder_flight *flight,
                        const struct device_batch *batch) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor dqueries = arena_2d(pass->scratch, DTYPE_F32, pass->B, biencoder->E);
    struct tensor dcontexts = arena_2d(pass->scratch, DTYPE_F32, flight->contexts.shape[0], biencoder->E);
    op_matmul(pass->device, &(struct op_matmul){
                                .a = flight->scores, .b = flight->contexts, .d = dqueries, .alpha = biencoder->scale});
    op_matmul(
        pass->device,
        &(struct op_matmul){
            .a = flight->scores, .b = flight->queries, .d = dcontexts, .transpose_a = true, .alpha = biencoder->scale});
    scatter_gradients(pass, dcontexts);
    for (int i = TEXT_COUNT - 1; i >= 0; i--) {
        struct device_batch text = text_of(batch, i);
        struct pass inner = *pass;
        inner.batch = &text;
        inner.is_first = pass->is_first && (i == TEXT_CONTEXT || !biencoder->is_shared);
        inner.is_last = pass->is_last && (i == TEXT_QUERY || !biencoder->is_shared);
        backward_text(biencoder, &inner, flight, i, i == TEXT_QUERY ? dqueries : own_rows(pass, dcontexts));
    }
    arena_release(pass->scratch, mark);
}
