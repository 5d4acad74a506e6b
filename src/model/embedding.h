// The input of a model: token embeddings, plus learned positions and token types if the model has them, then dropout. A
// post-norm BERT normalises before the dropout, BLOOM before positions are added. If token embeddings are narrower than
// the residual stream, a matmul widens them.
#ifndef MODEL_EMBEDDING_H
#define MODEL_EMBEDDING_H

#include "model/choices.h"

struct embedding {
    struct param *tokens;     // (V, E), split along V
    struct param *positions;  // (P + offset, C), or NULL
    struct param *types;      // (types, C), or NULL
    int64_t C, E, position_offset;
    struct linear projection;    // (C, E); has no weight if E is C
    int64_t vocabulary_start;    // the first token that this rank holds
    bool has_norm, norms_words;  // the second: of the words alone
    struct norm norm;
    double dropout;
    // Keys of the dropout masks, see struct sublayer_options; the second is for a decoder over an encoder.
    int64_t dropout_layer, decoder_dropout_layer;
};

// Saved activations of one micro-batch, if there is a projection or a norm here.
struct embedding_flight {
    struct tensor words;  // (N, E)
    struct tensor sum;    // (N, C): input of the norm
    struct norm_saved norm;
};

// The table of token embeddings, shared by a tied output layer.
struct param *embedding_tokens(struct param_list *params, const struct config_model *model,
                               const struct choices *choices);
void embedding_build(struct embedding *embedding, struct param_list *params, const struct config_model *model,
                     const struct choices *choices);
// Returns the residual stream before the first block, (N, C).
struct tensor embedding_forward(const struct embedding *embedding, const struct pass *pass,
                                struct embedding_flight *flight);
// Adds to the gradients of all tables; dx (N, C) is overwritten.
void embedding_backward(const struct embedding *embedding, const struct pass *pass,
                        const struct embedding_flight *flight, struct tensor dx);

#endif
