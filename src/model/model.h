// A whole model: embeddings, a decoder (GPT, Llama, OPT, Mistral), an encoder (BERT, RoBERTa) or both (T5), and heads.
// docs/internals/models.md lists the names and shapes of all parameters.
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/embedding.h"
#include "model/head.h"
#include "model/stack.h"

// A micro-batch in device memory. Of an encoder and decoder, `tokens` and what goes with them are the encoder's.
struct device_batch {
    struct tensor row_ids;          // (N) i64: see struct dropout
    struct tensor tokens;           // (N) i32
    struct tensor positions;        // (N) i32: of learned positions; places in the row where the model is rotary
    struct tensor types;            // (N) i32, or none
    struct tensor lengths;          // (B) i32, or none: tokens of each sample that are no padding
    struct tensor first_keys;       // (N) i32, or none: where the document of each token begins
    struct tensor decoder_row_ids;  // (B * S): of the decoder's tokens, as above
    struct tensor decoder_tokens, decoder_positions;  // (B * S)
    int64_t S;                                        // tokens of a decoder's sample
    struct targets targets;                           // (N) rows, with a decoder (B * S)
    struct targets pair;                              // (B) rows: of the pair head
};

// A model, or a piece of one that a stage of a pipeline has: some layers of its stacks, the embeddings where it has the
// first layer of a stack, final norms and heads where it has the last.
struct model {
    enum config_form form;
    struct choices choices;
    int64_t V, P;  // vocabulary, longest sequence
    struct embedding embedding;
    int64_t encoder_layers;         // of the whole model
    struct stack encoder, decoder;  // L is 0 where there is none
    struct head head;
    struct pair_head pair_head;
    bool has_head, has_pair_head;
    struct fp8 fp8;  // of no layers where there are no products in 8 bits
};

// A micro-batch on its way: what backward needs. Several may be on their way through a model, each with its own flight
// and its own pass->saved.
struct model_flight {
    struct embedding_flight embeddings[2];  // of the first stack, and of a decoder over an encoder
    struct stack_flight encoder, decoder;
    struct head_flight head;
    struct pair_head_flight pair_head;
    struct memory memory;
};

// What goes from one piece to the next, and its gradient on the way back.
struct handover {
    struct tensor x;  // (N, C); none between the encoder's last piece and the decoder's first
    struct tensor
        memory;  // (B * T, C): the encoder's output, on its way to and through the decoder's pieces; else none
};

struct model_options {
    const struct config *config;  // validated, its padded_vocab_size set
    const struct mesh *mesh;      // says which part of each layer this rank has; NULL: all of it
    struct config_piece piece;    // which layers
};
// Declares the parameters; those that the list has already, from another piece, are shared. The model must stay where
// it is.
void model_build(struct model *model, struct param_list *params, const struct model_options *options);
void model_free(struct model *model);
void model_flight_open(struct model_flight *flight, const struct model *model);
void model_flight_close(struct model_flight *flight);

// From what the piece before gave, which must stay until the backward, to what the next one takes. The last adds the
// micro-batch's losses to the targets' sums; with weights, everything is left ready for the backward.
struct handover model_forward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                              const struct device_batch *batch, struct handover in);
// Before the first pass of a step: clears the gradients that no product writes and that have weight decay, which are
// those of tables that are looked up. It saves one pass over all weights a step.
void model_clear_tables(const struct model *model, struct device *device);
// Adds to the gradients of all parameters; the first pass of a step writes those of the products. dout is the gradient
// of what model_forward gave, din becomes that of what it was given: none where that was.
struct model_gradients {
    struct handover dout, din;
};
void model_backward(const struct model *model, const struct pass *pass, struct model_flight *flight,
                    const struct device_batch *batch, const struct model_gradients *gradients);

// Generation. The encoder's output for the batch's tokens into `memory` (B * T, C), where decoding finds it.
void model_encode(const struct model *model, const struct pass *pass, struct model_flight *flight,
                  const struct device_batch *batch, struct tensor memory);
// Logits (B, V) fp32 of the last token of each sequence; uses and extends pass->cache where there is one. A decoder
// over an encoder is given its tokens as decoder_tokens, and pass->T is their number.
void model_last_logits(const struct model *model, const struct pass *pass, struct model_flight *flight,
                       const struct device_batch *batch, struct tensor logits);

#endif
