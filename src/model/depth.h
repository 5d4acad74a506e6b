// Multi-token prediction, as Megatron-LM and DeepSeek-V3 have it: a chain of depths behind the model's final norm, each
// of which predicts one token further ahead. Depth k sees, at position t, what the depth before it gave for that
// position (the first one: what the head gets) and the embedding of token t + k, and predicts token t + k + 1:
//
//   h_k = final_layernorm(block(eh_proj [enorm(embedding(t + k)), hnorm(h_(k-1))]))
//
// Tables of embeddings and the head are the model's own, and so is the kind of the block: that of the last layer.
// Positions of attention and the borders of documents stay those of position t. Behind the last token of a sequence
// tokens, positions and labels are 0, and nothing counts.
//
// eh_proj is whole on every rank that shares layers: with sequence parallelism each of them multiplies its own rows.
#ifndef MODEL_DEPTH_H
#define MODEL_DEPTH_H

#include "model/embedding.h"
#include "model/head.h"
#include "model/stack.h"

struct depth {
    int64_t number;              // from 0 on
    bool is_last;                // its backward is the first of those that use the embedding
    struct embedding embedding;  // the model's tables, with dropout masks of its own
    struct norm enorm, hnorm;
    struct linear eh_proj;  // (C, 2C)
    struct stack stack;     // one block and the final norm
};

// What backward needs of a micro-batch.
struct depth_flight {
    struct embedding_flight embedding;
    struct tensor words, before;  // (N, C): the inputs of the two norms
    struct tensor joined;         // (N, 2C): their results, side by side
    struct norm_saved enorm, hnorm;
    struct stack_flight stack;
    struct head_flight head;
};

struct depth_options {
    const struct config *config;
    const struct choices *choices;      // must outlive the depth
    const struct embedding *embedding;  // of the model
    struct layer_choices layer;
    int64_t number;
};
void depth_build(struct depth *depth, struct param_list *params, const struct depth_options *options);
void depth_free(struct depth *depth);
void depth_flight_open(struct depth_flight *flight, const struct depth *depth);
void depth_flight_close(struct depth_flight *flight);

// Takes h (N, C), which must stay until the backward; adds the micro-batch's losses to the batch's sums; returns what
// the next depth takes.
struct tensor depth_forward(const struct depth *depth, const struct pass *pass, struct depth_flight *flight,
                            const struct head *head, struct tensor h);
// dh (N, C) is the gradient of what depth_forward returned, without that of the head; it becomes that of h. The pass
// defers nothing, and the model's own head has gone before: gradients of the head's parameters are added to.
void depth_backward(const struct depth *depth, const struct pass *pass, struct depth_flight *flight,
                    const struct head *head, struct tensor dh);

#endif
