// Multi-token prediction as in Megatron-LM and DeepSeek-V3: a chain of depths after the model's final norm, each of
// which predicts one token further ahead. At position t, depth k reads the previous depth's output for that position
// (the first depth: the head's input) and the embedding of token t + k, and predicts token t + k + 1:
//
//   h_k = final_layernorm(block(eh_proj [enorm(embedding(t + k)), hnorm(h_(k-1))]))
//
// The embedding tables and the head are the model's; the block is of the same kind as the last layer. Attention uses
// the positions and document borders of position t. After the last token of a sequence, tokens, positions and labels
// are 0, and losses do not count.
//
// eh_proj is whole on every rank that shares layers: with sequence parallelism each of them multiplies its own rows.
#ifndef MODEL_DEPTH_H
#define MODEL_DEPTH_H

#include "model/embedding.h"
#include "model/head.h"
#include "model/stack.h"

struct depth {
    int64_t number;              // from 0 on
    bool is_last;                // the first whose backward uses the embedding
    struct embedding embedding;  // the model's tables, with dropout masks of its own
    struct norm enorm, hnorm;
    struct linear eh_proj;  // (C, 2C)
    struct stack stack;     // one block and the final norm
};

// Saved activations of one micro-batch, for backward.
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

// Takes h (N, C), which must stay until the backward; adds the micro-batch's losses to the batch's sums; returns the
// next depth's h.
struct tensor depth_forward(const struct depth *depth, const struct pass *pass, struct depth_flight *flight,
                            const struct head *head, struct tensor h);
// dh (N, C): in, the gradient of depth_forward's result without the head's part; out, the gradient of h. The pass
// defers nothing, and the model's head has run its backward before: gradients of the head's parameters are added to.
void depth_backward(const struct depth *depth, const struct pass *pass, struct depth_flight *flight,
                    const struct head *head, struct tensor dh);

#endif
