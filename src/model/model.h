// A whole model: embeddings, a decoder (GPT, Llama, OPT, Mistral), an encoder (BERT, RoBERTa) or both (T5), and heads;
// or two encoders whose outputs are compared (ICT).
// docs/internals/models.md lists the names and shapes of all parameters.
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/embedding.h"
#include "model/head.h"
#include "model/qk_clip.h"
#include "model/stack.h"

// ---- multi-token prediction ----

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

// ---- two encoders ----

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

// A model, or a pipeline stage's chunk of one: some layers of its stacks (none at an end that counts as a layer), the
// embeddings if it begins a stack, and the final norm and heads if it ends one. Depths of multi-token prediction follow
// the head and have the embeddings too.
struct model {
    enum config_form form;
    struct choices choices;
    int64_t V, P;  // vocabulary, longest sequence
    struct embedding embedding;
    struct stack encoder, decoder;  // L is 0 if there is none
    struct head head;
    struct pair_head pair_head;
    bool has_head, has_pair_head;
    struct depth *depths;  // of multi-token prediction
    int64_t depth_count;
    struct biencoder biencoder;  // for ICT, which uses none of the above
    struct fp8 fp8;              // has no layers if no matmuls are in fp8
    struct qk_clip qk_clip;      // has no layers without --qk-clip
};

// Saved activations of one micro-batch, for backward. Several may be in flight through a model, each with its own
// model_flight and its own pass->activations.
struct model_flight {
    struct embedding_flight embeddings[2];  // for the first stack, and for a decoder over an encoder
    struct stack_flight encoder, decoder;
    struct head_flight head;
    struct pair_head_flight pair_head;
    struct depth_flight *depths;
    int64_t depth_count;
    struct biencoder_flight biencoder;
    struct memory memory;
};

// Output of one chunk and input of the next, or its gradient on the way back.
struct handover {
    struct tensor x;       // (N, C); none between the encoder's last chunk and the decoder's first
    struct tensor memory;  // (B * T, C): the encoder's output, on its way through the decoder's chunks; else none
};

struct model_options {
    const struct config *config;  // validated, with padded_vocab_size set
    const struct mesh *mesh;      // which part of each layer this rank holds; NULL for all of it
    struct config_chunk chunk;    // which layers
};
// The options for chunk `number` of a pipeline, see config_pipeline.c.
struct model_options model_chunk(const struct model_options *options, int64_t number);
// Declares the parameters; those that another chunk has already added to the list are shared. The model must not be
// moved in memory afterwards.
void model_build(struct model *model, struct param_list *params, const struct model_options *options);
void model_free(struct model *model);
// The embedding of the model's first text; without tables if another chunk has them.
const struct embedding *model_embedding(const struct model *model);
void model_flight_open(struct model_flight *flight, const struct model *model);
void model_flight_close(struct model_flight *flight);
// For generation: takes memory for the caches of the decoder's attention.
void model_take_cache(const struct model *model, struct model_flight *flight, const struct cache_options *options);

// `in` is the previous chunk's result, which must stay until the backward; the result is the next chunk's `in`. The
// last chunk adds the micro-batch's losses to the targets' sums and, if the targets have weights, prepares for the
// backward.
struct handover model_forward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                              const struct device_batch *batch, struct handover in);
// Before the first pass of a step: clears the gradients of lookup tables, which no matmul overwrites and which have
// weight decay. This saves a pass over all gradients per step.
void model_clear_tables(const struct model *model, struct device *device);
// Adds to the gradients of all parameters; in the first pass of a step, matmuls overwrite theirs. dout is the gradient
// of model_forward's result; din receives the gradient of its `in`, and is none if that was none.
struct model_gradients {
    struct handover dout, din;
};
void model_backward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                    const struct device_batch *batch, const struct model_gradients *gradients);

// For generation: writes the encoder's output for the batch's tokens to `memory` (B * T, C), which decoding reads.
void model_encode(const struct model *model, const struct pass *pass, struct model_flight *flight,
                  const struct device_batch *batch, struct tensor memory);
// Logits (B, V) fp32 of the last token of each sequence. Uses and extends the flight's caches if the pass says so. A
// decoder over an encoder takes its tokens from decoder_tokens, and pass->T is their number. If the model is in chunks,
// each takes the previous one's result (x, B * T rows; none for the first), and the last one has the logits.
struct tensor model_last_logits(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                const struct device_batch *batch, struct tensor x, struct tensor logits);

#endif
