// The ways out of a model. The token head gives logits over the vocabulary, with the embedding's matrix or one of its
// own; BERT's first transforms the stream (dense, GELU, norm), and where the vocabulary's rows are narrower than the
// stream, a product narrows it. The pair head is BERT's second one: the first token of a
// sample through a dense layer and tanh, then two classes.
#ifndef MODEL_HEAD_H
#define MODEL_HEAD_H

#include "model/choices.h"

// What a head's rows are compared with, and where their losses are added up. Losses of rows count as `mask` says; their
// gradients are scaled by `weights`, none where nothing is learnt.
struct targets {
    struct tensor labels;    // (rows) i32
    struct tensor mask;      // (rows) fp32
    struct tensor weights;   // (rows) fp32, or none
    struct tensor loss_sum;  // (1) fp32: sum of mask * loss is added
};

struct head {
    struct param *weight;  // (V, E), split along V: the embedding's where tied
    struct param *bias;    // (V), or NULL
    float scale;           // of the logits
    int64_t V, C, E;       // vocabulary of this rank
    int64_t vocabulary_start;
    bool has_transform;
    struct linear dense;  // (C, C)
    struct norm norm;
    enum activation activation;
    struct linear projection;  // (E, C); without a weight where E is C
};

// Of a micro-batch on its way: what backward needs.
struct head_flight {
    struct tensor x, before, after;  // (N, C): the stream; around the activation of the transform
    struct norm_saved norm;
    struct tensor features;  // (N, E): what the product with the vocabulary is given
    struct tensor logits;    // (N, V): holds their gradient after the loss
};

void head_build(struct head *head, struct param_list *params, const struct config *config,
                const struct choices *choices);
// Logits of x (rows, C) into flight->logits, or into `logits`, (rows, V) fp32 or the pass's dtype, where that is given.
void head_forward(const struct head *head, const struct pass *pass, struct head_flight *flight, struct tensor x,
                  struct tensor logits);
void head_loss(const struct head *head, const struct pass *pass, struct head_flight *flight,
               const struct targets *targets);
// dx (N, C) = the gradient of head_forward's x.
void head_backward(const struct head *head, const struct pass *pass, const struct head_flight *flight,
                   struct tensor dx);

struct pair_head {
    struct linear dense;   // (C, C)
    struct linear output;  // (2, C)
};

struct pair_head_flight {
    struct tensor first;          // (B, C), rows T * C apart: the first tokens
    struct tensor before, after;  // (B, C): around tanh
    struct tensor logits;         // (B, 2)
};

void pair_head_build(struct pair_head *head, struct param_list *params, const struct choices *choices);
void pair_head_forward(const struct pair_head *head, const struct pass *pass, struct pair_head_flight *flight,
                       struct tensor x, const struct targets *targets);
// Adds to the rows of dx (N, C) that belong to first tokens.
void pair_head_backward(const struct pair_head *head, const struct pass *pass, const struct pair_head_flight *flight,
                        struct tensor dx);

#endif
