// The bi-encoder of the inverse cloze task (ICT). Two towers, each a BERT without heads, embed texts: one the queries,
// the other the contexts; or one tower embeds both. The embedding of a text is the last layer's output at its first
// token, taken through a projection if there is one. A query's score with a context is their inner product. The loss of
// a query is the cross entropy of its scores with the contexts of the micro-batch, those of all data-parallel ranks,
// against its own. docs/ict.md has the definition.
//
// Each rank computes the rows of its own queries. The contexts are therefore gathered before the loss, and their
// gradients, which every rank contributes to, are summed and scattered after it.
//
// A tower's parameters are named as BERT's, prefixed with "query_model.", "context_model." or "shared_model.".
#ifndef MODEL_BIENCODER_H
#define MODEL_BIENCODER_H

#include "model/embedding.h"
#include "model/stack.h"

enum { TEXT_QUERY, TEXT_CONTEXT, TEXT_COUNT };

struct tower {
    struct embedding embedding;
    struct stack stack;
    struct linear projection;  // (E, C); has no weight if E is C and nothing is projected
};

struct biencoder {
    struct tower towers[TEXT_COUNT];  // if shared, only the first is used
    bool is_shared;
    int64_t C, E;  // width of the residual stream, and of the embeddings
    float scale;   // of the scores
    int64_t tops[OPS_MOST_TOPS];
    int top_count;
};

// Saved activations of one text, for backward.
struct tower_flight {
    struct embedding_flight embedding;
    struct stack_flight stack;
    struct tensor first;  // (B, C), rows T * C apart: the first token of each text
};

struct biencoder_flight {
    struct tower_flight towers[TEXT_COUNT];
    struct tensor queries;   // (B, E) fp32
    struct tensor contexts;  // (B * dp, E) fp32: of all data-parallel ranks, in rank order
    struct tensor scores;    // (B, B * dp) fp32: after the loss they hold their gradient
};

void biencoder_build(struct biencoder *biencoder, struct param_list *params, const struct config *config,
                     const struct choices *choices);
void biencoder_free(struct biencoder *biencoder);  // safe on a zeroed one, as is biencoder_flight_close
void biencoder_flight_open(struct biencoder_flight *flight, const struct biencoder *biencoder);
void biencoder_flight_close(struct biencoder_flight *flight);

// Adds the micro-batch's losses and hits to the batch's sums; if the batch has weights, also leaves everything ready
// for the backward.
void biencoder_forward(const struct biencoder *biencoder, const struct pass *pass, struct biencoder_flight *flight,
                       const struct device_batch *batch);
void biencoder_backward(const struct biencoder *biencoder, const struct pass *pass, struct biencoder_flight *flight,
                        const struct device_batch *batch);

#endif
