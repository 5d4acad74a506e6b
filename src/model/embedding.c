// Embeddings, forward and backward. See embedding.h.
#include "model/embedding.h"
#include "base/error.h"

#include <string.h>

// Of the initial values of the tables.
static double deviation_of(const struct config_model *model, const struct choices *choices) {
    return model->embedding_init_method_std > 0 ? model->embedding_init_method_std : choices->standard_deviation;
}

struct param *embedding_tokens(struct param_list *params, const struct config_model *model,
                               const struct choices *choices) {
    struct shard whole = shard_whole(2, model->padded_vocab_size, config_word_embedding_size(model));
    struct param *tokens = param_obtain(params, "embedding.word_embeddings.weight", choices_split(choices, whole, 0),
                                        INIT_NORMAL, deviation_of(model, choices));
    tokens->is_vocabulary = true;
    return tokens;
}

void embedding_build(struct embedding *embedding, struct param_list *params, const struct config_model *model,
                     const struct choices *choices) {
    int64_t V = model->padded_vocab_size, C = choices->C, types = config_token_types(model);
    int64_t E = config_word_embedding_size(model);
    double deviation = deviation_of(model, choices);
    CHECK(V > 0);
    *embedding = (struct embedding){.C = C,
                                    .E = E,
                                    .position_offset = model->position_offset,
                                    .has_norm = config_has_embedding_norm(model),
                                    .norms_words = model->embed_layernorm,
                                    .dropout = choices->hidden_dropout,
                                    .decoder_dropout_layer = config_encoder_layers(model)};
    embedding->tokens = embedding_tokens(params, model, choices);
    embedding->vocabulary_start = shard_local_start(&embedding->tokens->shard);
    if (E != C)
        linear_build(&embedding->projection, params, "embedding.projection",
                     &(struct linear_options){.weight = shard_whole(2, C, E),
                                              .standard_deviation = choices->standard_deviation,
                                              .sums_gradient = choices->splits_rows});
    if (model->position_embedding_type == POSITIONS_LEARNED)
        embedding->positions = param_obtain(params, "embedding.position_embeddings.weight",
                                            shard_whole(2, model->max_position_embeddings + model->position_offset, C),
                                            INIT_NORMAL, deviation);
    if (types > 0)
        embedding->types = param_add(params, "embedding.tokentype_embeddings.weight", shard_whole(2, types, C),
                                     INIT_NORMAL, deviation);
    struct param *tables[] = {embedding->positions, embedding->types};
    for (int i = 0; i < 2; i++)
        if (tables[i]) {
            tables[i]->is_table = true;
            tables[i]->sums_gradient = choices->splits_rows;
        }
    if (embedding->has_norm)
        norm_build(&embedding->norm, params, "embedding.layernorm", &choices->norm);
}

// The rows of the position table from position 0 on.
static struct tensor position_rows(const struct embedding *embedding, struct tensor table) {
    int64_t offset = embedding->position_offset;
    return tensor_rows(table, offset, table.shape[0] - offset);
}

// Whether the sum of tokens and positions is followed only by dropout, as in a GPT: then a single operation does all.
static bool is_plain(const struct embedding *embedding) {
    return !embedding->types && !embedding->has_norm && !embedding->projection.weight;
}

static struct dropout dropout_of(const struct embedding *embedding, const struct pass *pass) {
    int64_t layer = pass->is_over_encoder ? embedding->decoder_dropout_layer : embedding->dropout_layer;
    return pass_dropout(pass, embedding->dropout, layer, DROPOUT_EMBEDDING);
}

// out += the rows of a table.
static void add_rows(const struct embedding *embedding, const struct pass *pass, struct tensor which,
                     struct tensor table, struct tensor out) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor rows = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), embedding->C);
    op_embedding_forward(pass->device, &(struct op_embedding_forward){
                                           .out = rows, .tokens = pass_own_rows(pass, which), .table = table});
    op_dropout_add(pass->device, &(struct op_dropout_add){.out = out, .x = rows, .residual = out});
    arena_release(pass->scratch, mark);
}

// Ranks that share the vocabulary each look up the tokens they hold. Other tokens give 0, so the sum is complete.
static void look_up_words(const struct embedding *embedding, const struct pass *pass, struct tensor out) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor whole = pass->splits_rows ? arena_2d(pass->scratch, pass->dtype, pass_rows(pass), embedding->E) : out;
    op_embedding_forward(pass->device, &(struct op_embedding_forward){.out = whole,
                                                                      .tokens = pass_input(pass, BATCH_TOKENS),
                                                                      .table = embedding->tokens->value,
                                                                      .vocabulary_start = embedding->vocabulary_start});
    pass_sum(pass, out, whole, "embedding");
    arena_release(pass->scratch, mark);
}

static void add_positions(const struct embedding *embedding, const struct pass *pass, struct tensor out) {
    add_rows(embedding, pass, pass_input(pass, BATCH_POSITIONS), position_rows(embedding, embedding->positions->value),
             out);
}

// In separate operations: words, the matmul that widens them, positions and dropout.
static void look_up_in_steps(const struct embedding *embedding, const struct pass *pass,
                             struct embedding_flight *flight, struct tensor out) {
    if (embedding->projection.weight) {
        flight->words = arena_2d(pass->activations, pass->dtype, pass_stream_rows(pass), embedding->E);
        look_up_words(embedding, pass, flight->words);
        linear_forward(&embedding->projection, pass, out, operand_of(flight->words), EPILOGUE_NONE, (struct tensor){0});
    } else {
        look_up_words(embedding, pass, out);
    }
    if (embedding->positions && !embedding->norms_words)
        add_positions(embedding, pass, out);
    struct dropout dropout = dropout_of(embedding, pass);
    if (is_plain(embedding) && dropout.rate != 0)
        op_dropout_add(pass->device, &(struct op_dropout_add){.out = out, .x = out, .dropout = dropout});
}

static void look_up(const struct embedding *embedding, const struct pass *pass, struct embedding_flight *flight,
                    struct tensor out) {
    if (pass_parts(pass) > 1 || embedding->projection.weight) {
        look_up_in_steps(embedding, pass, flight, out);
        return;
    }
    struct op_embedding_forward op = {
        .out = out, .tokens = pass_input(pass, BATCH_TOKENS), .table = embedding->tokens->value};
    if (embedding->positions && !embedding->norms_words) {
        op.positions = pass_input(pass, BATCH_POSITIONS);
        op.position_table = position_rows(embedding, embedding->positions->value);
    }
    if (is_plain(embedding))
        op.dropout = dropout_of(embedding, pass);
    op_embedding_forward(pass->device, &op);
}

struct tensor embedding_forward(const struct embedding *embedding, const struct pass *pass,
                                struct embedding_flight *flight) {
    int64_t N = pass_stream_rows(pass);
    struct tensor x = arena_2d(pass->activations, pass->dtype, N, embedding->C);
    look_up(embedding, pass, flight, x);
    if (is_plain(embedding))
        return x;
    if (embedding->types)
        add_rows(embedding, pass, pass_input(pass, BATCH_TOKEN_TYPES), embedding->types->value, x);
    if (embedding->has_norm) {
        flight->sum = x;
        norm_take(&embedding->norm, pass, &flight->norm, N, (struct operand){0});
        norm_forward(&embedding->norm, pass, &flight->norm, x, &(struct residual){0});
        x = flight->norm.y.value;
    }
    if (embedding->positions && embedding->norms_words)
        add_positions(embedding, pass, x);
    struct dropout dropout = dropout_of(embedding, pass);
    if (dropout.rate != 0)
        op_dropout_add(pass->device, &(struct op_dropout_add){.out = x, .x = x, .dropout = dropout});
    return x;
}

static void backward_dropout(const struct embedding *embedding, const struct pass *pass, struct tensor dx) {
    struct dropout dropout = dropout_of(embedding, pass);
    if (dropout.rate != 0)
        op_dropout_backward(pass->device, &(struct op_dropout_backward){.dx = dx, .dy = dx, .dropout = dropout});
}

// The gradient of the norm's input, from dx, the gradient of its result; dx itself if there is no norm.
static struct tensor backward_norm(const struct embedding *embedding, const struct pass *pass,
                                   const struct embedding_flight *flight, struct tensor dx) {
    if (!embedding->has_norm)
        return dx;
    struct tensor dsum = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), embedding->C);
    norm_backward(&embedding->norm, pass, &flight->norm,
                  &(struct norm_gradient){.dx = dsum, .dy = dx, .x = flight->sum});
    return dsum;
}

// Gradient of a table whose rows were added to the residual stream; of this rank's rows if the stream is split.
static void backward_rows(const struct pass *pass, struct tensor which, struct tensor dtable, struct tensor dout) {
    op_embedding_backward(pass->device, &(struct op_embedding_backward){
                                            .dtable = dtable, .dout = dout, .tokens = pass_own_rows(pass, which)});
}

// The gradient of the words themselves, from that of the residual stream.
static struct tensor backward_projection(const struct embedding *embedding, const struct pass *pass,
                                         const struct embedding_flight *flight, struct tensor dx) {
    if (!embedding->projection.weight)
        return dx;
    struct tensor dwords = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), embedding->E);
    linear_backward_input(&embedding->projection, pass, dwords, operand_of(dx), (struct tensor){0});
    linear_backward_weight(&embedding->projection, pass, operand_of(dx), operand_of(flight->words));
    return dwords;
}

void embedding_backward(const struct embedding *embedding, const struct pass *pass,
                        const struct embedding_flight *flight, struct tensor dx) {
    size_t mark = arena_mark(pass->scratch);
    struct op_embedding_backward op = {.dtable = embedding->tokens->grad,
                                       .dout = dx,
                                       .tokens = pass_input(pass, BATCH_TOKENS),
                                       .vocabulary_start = embedding->vocabulary_start};
    bool is_one = is_plain(embedding) && !pass->splits_rows;
    struct tensor dpositions = dx;  // not changed by a norm of words
    if (is_one) {
        op.dropout = dropout_of(embedding, pass);
    } else {
        backward_dropout(embedding, pass, dx);
        dx = backward_norm(embedding, pass, flight, dx);
        dpositions = embedding->norms_words ? dpositions : dx;
    }
    if (embedding->positions && is_one) {
        op.positions = pass_input(pass, BATCH_POSITIONS);
        op.dposition_table = position_rows(embedding, embedding->positions->grad);
    } else if (embedding->positions) {
        backward_rows(pass, pass_input(pass, BATCH_POSITIONS), position_rows(embedding, embedding->positions->grad),
                      dpositions);
    }
    op.dout = pass_gather(pass, pass->scratch, backward_projection(embedding, pass, flight, dx), "embedding gradient");
    op_embedding_backward(pass->device, &op);
    if (embedding->types)
        backward_rows(pass, pass_input(pass, BATCH_TOKEN_TYPES), embedding->types->grad, dx);
    arena_release(pass->scratch, mark);
}
