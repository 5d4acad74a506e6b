// A whole model: embeddings, a decoder (GPT, Llama, OPT, Mistral), an encoder (BERT, RoBERTa) or both (T5), and heads.
// docs/internals/models.md lists the names and shapes of all parameters.
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/embedding.h"
#include "model/head.h"
#include "model/stack.h"

// A micro-batch in device memory. For an encoder with a decoder, `tokens` and the tensors that go with it belong to the
// encoder.
struct device_batch {
    struct tensor row_ids;          // (N) i64: see struct dropout
    struct tensor tokens;           // (N) i32
    struct tensor positions;        // (N) i32: for learned positions; for rotary models, the column of each token
    struct tensor types;            // (N) i32, or none
    struct tensor lengths;          // (B) i32, or none: how many tokens of each sample are not padding
    struct tensor first_keys;       // (N) i32, or none: the column where each token's document begins
    struct tensor decoder_row_ids;  // (B * S): the same for the decoder's tokens
    struct tensor decoder_tokens, decoder_positions;  // (B * S)
    int64_t S;                                        // tokens per sample of the decoder
    struct targets targets;                           // (N) rows, or (B * S) with a decoder
    struct targets pair;                              // (B) rows, for the pair head
};

// A model, or the piece of one that a pipeline stage holds: some layers of its stacks (none at an end that counts as a
// layer), the embeddings if it begins a stack, and the final norm and heads if it ends one.
struct model {
    enum config_form form;
    struct choices choices;
    int64_t V, P;  // vocabulary, longest sequence
    struct embedding embedding;
    int64_t encoder_layers;         // of the whole model
    struct stack encoder, decoder;  // L is 0 if there is none
    struct head head;
    struct pair_head pair_head;
    bool has_head, has_pair_head;
    struct fp8 fp8;  // has no layers if no products are in 8 bits
};

// What backward needs of a micro-batch that is in flight. Several may be in flight through a model, each with its own
// model_flight and its own pass->saved.
struct model_flight {
    struct embedding_flight embeddings[2];  // of the first stack, and of a decoder over an encoder
    struct stack_flight encoder, decoder;
    struct head_flight head;
    struct pair_head_flight pair_head;
    struct memory memory;
};

// What one piece passes to the next, or its gradient on the way back.
struct handover {
    struct tensor x;       // (N, C); none between the encoder's last piece and the decoder's first
    struct tensor memory;  // (B * T, C): the encoder's output, on its way through the decoder's pieces; else none
};

struct model_options {
    const struct config *config;  // validated, with padded_vocab_size set
    const struct mesh *mesh;      // says which part of each layer this rank holds; NULL for all of it
    struct config_piece piece;    // which layers
};
// Declares the parameters; those that another piece has already added to the list are shared. The model must not be
// moved in memory afterwards.
void model_build(struct model *model, struct param_list *params, const struct model_options *options);
void model_free(struct model *model);
void model_flight_open(struct model_flight *flight, const struct model *model);
void model_flight_close(struct model_flight *flight);

// Takes what the previous piece returned, which must stay until the backward, and returns what the next one takes. The
// last piece adds the micro-batch's losses to the targets' sums; if the targets have weights, it also leaves everything
// ready for the backward.
struct handover model_forward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                              const struct device_batch *batch, struct handover in);
// Before the first pass of a step: clears those gradients that no product overwrites and that have weight decay, which
// are those of lookup tables. This saves a pass over all gradients per step.
void model_clear_tables(const struct model *model, struct device *device);
// Adds to the gradients of all parameters; in the first pass of a step, products overwrite theirs. dout is the gradient
// of what model_forward returned; din receives that of what it was given, and is none if that was none.
struct model_gradients {
    struct handover dout, din;
};
void model_backward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                    const struct device_batch *batch, const struct model_gradients *gradients);

// For generation: writes the encoder's output for the batch's tokens to `memory` (B * T, C), where decoding finds it.
void model_encode(const struct model *model, const struct pass *pass, struct model_flight *flight,
                  const struct device_batch *batch, struct tensor memory);
// Logits (B, V) fp32 of the last token of each sequence. Uses and extends pass->cache if there is one. A decoder over
// an encoder takes its tokens from decoder_tokens, and pass->T is their number. Of a model in pieces, each takes what
// the previous one returned (x, B * T rows; none for the first) and the last one has the logits.
struct tensor model_last_logits(const struct model *model, const struct pass *pass, struct model_flight *flight,
                                const struct device_batch *batch, struct tensor x, struct tensor logits);

#endif
