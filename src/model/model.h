// A whole model: embeddings, a decoder (GPT, Llama, OPT, Mistral), an encoder (BERT, RoBERTa) or both (T5), and heads;
// or two encoders whose outputs are compared (ICT).
// docs/internals/models.md lists the names and shapes of all parameters.
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/biencoder.h"
#include "model/depth.h"
#include "model/qk_clip.h"

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
