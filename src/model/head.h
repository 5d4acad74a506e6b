// The outputs of a model. The token head computes logits over the vocabulary, with the embedding's matrix or one of its
// own. BERT's token head first transforms the residual stream (dense, GELU, norm); and if the vocabulary's rows are
// narrower than the residual stream, a matmul narrows it. The pair head is BERT's second head: the first token of a
// sample goes through a dense layer and tanh, then to two classes.
//
// Logits are the largest tensor of many models. If they would take more than LOGITS_AT_ONCE_BYTES, or with
// --logits-at-once, they are computed for some rows at a time and never kept (head.c). Their losses and gradients
// are then computed when the backward pass begins, or if none follows, in the forward pass.
#ifndef MODEL_HEAD_H
#define MODEL_HEAD_H

#include "model/choices.h"

// Labels of a head's rows, and the sum of their losses. `mask` says which rows' losses count; `weights` scales their
// gradients, none without a backward pass.
struct targets {
    struct tensor labels;    // (rows) i32
    struct tensor mask;      // (rows) fp32
    struct tensor weights;   // (rows) fp32, or none
    struct tensor loss_sum;  // (1) fp32: the sum of mask * loss is added to it
    struct token_scores scores;
};

struct head {
    struct param *weight;  // (V, E), split along V; the embedding's if tied
    struct param *bias;    // (V), or NULL
    float scale, cap;      // of the logits; cap: 0 for none
    float z;               // coefficient of the z-loss while training
    int64_t V, C, E;       // V: size of this rank's part of the vocabulary
    int64_t vocabulary_start;
    bool is_uneven;        // the last rank holds less of the vocabulary than the others
    int64_t rows_at_once;  // of logits; 0: as many as fit
    bool has_transform;
    struct linear dense;  // (C, C)
    struct norm norm;
    enum activation activation;
    struct linear projection;  // (E, C); has no weight if E is C
    struct fp8 *fp8;           // not NULL: the vocabulary's matmul is in fp8 while training, with the next
    int fp8_layer;
};

// Saved activations of one micro-batch, for backward.
struct head_flight {
    struct tensor x, before, after;  // (N, C): the residual stream; before and after the activation of the transform
    struct norm_saved norm;
    struct tensor features;  // (N, E): operand of the vocabulary's matmul; in fp8 only this rank's rows
    struct tensor logits;    // (N, V): after the loss it holds their gradient; none if they are not kept
    struct targets targets;  // if they are not kept
};

// Adds the losses of logits (rows, classes) to the targets' sum; if there are weights, the logits become their
// gradients. `head` says which classes this rank has, and has the cap that the logits went through; with NULL they have
// none, and the rank has all classes.
void head_add_loss(const struct head *head, const struct pass *pass, struct tensor logits,
                   const struct targets *targets);

void head_build(struct head *head, struct param_list *params, const struct config *config,
                const struct choices *choices);
// Computes the logits of x (rows, C) into `logits` (rows, V), fp32 or the pass's dtype, if given; else into
// flight->logits, if they are kept.
void head_forward(const struct head *head, const struct pass *pass, struct head_flight *flight, struct tensor x,
                  struct tensor logits);
void head_loss(const struct head *head, const struct pass *pass, struct head_flight *flight,
               const struct targets *targets);
// dx (N, C) = the gradient of head_forward's x.
void head_backward(const struct head *head, const struct pass *pass, const struct head_flight *flight,
                   struct tensor dx);

// The vocabulary's matmul in fp8: logits (N, V) from this rank's rows of the features, and dfeatures (N, E), before the
// sum over ranks, with the gradients of weight and bias.
void head_forward_fp8(const struct head *head, const struct pass *pass, struct tensor logits, struct tensor features);
void head_backward_fp8(const struct head *head, const struct pass *pass, const struct head_flight *flight,
                       struct tensor dfeatures);

// Rows of logits, of `rows`, to compute at a time: all if they are kept.
int64_t head_rows_at_once(const struct head *head, const struct pass *pass, int64_t rows);

struct pair_head {
    struct linear dense;   // (C, C)
    struct linear output;  // (2, C)
};

struct pair_head_flight {
    struct tensor first;          // (B, C), rows T * C apart: the first token of each sample
    struct tensor before, after;  // (B, C): before and after tanh
    struct tensor logits;         // (B, 2)
};

void pair_head_build(struct pair_head *head, struct param_list *params, const struct choices *choices);
void pair_head_forward(const struct pair_head *head, const struct pass *pass, struct pair_head_flight *flight,
                       struct tensor x, const struct targets *targets);
// Adds to the rows of dx (N, C) that belong to first tokens.
void pair_head_backward(const struct pair_head *head, const struct pass *pass, const struct pair_head_flight *flight,
                        struct tensor dx);

#endif
