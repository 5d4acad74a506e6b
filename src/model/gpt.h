// GPT as Megatron has it: token and learned position embeddings, dropout, L pre-norm blocks, a final norm, and logits
// with the token embedding's matrix. Parameter names are Megatron's.
#ifndef MODEL_GPT_H
#define MODEL_GPT_H

#include "config/config.h"
#include "model/block.h"

struct embedding {
    struct param *tokens;     // (V, C)
    struct param *positions;  // (P, C)
    double dropout;
};

// A micro-batch in device memory.
struct device_batch {
    struct tensor tokens;     // (N) i32
    struct tensor positions;  // (N) i32
    struct tensor labels;     // (N) i32; none where nothing is to be learnt
    struct tensor mask;       // (N) fp32: 1 where the token counts, else 0
    struct tensor weights;    // (N) fp32: derivative of the loss by each token's loss; none for evaluation
    // What the pass adds to, (1) fp32 each:
    struct tensor loss_sum;  // sum of mask * loss
};

struct gpt {
    int64_t L, C, H, D, F, V, P;
    struct embedding embedding;
    struct block *blocks;  // L of them
    struct norm final_norm;

    // The micro-batch on its way: what backward needs.
    struct block_saved *saved;  // L of them
    struct tensor x;            // (N, C): input of the final norm
    struct norm_saved final_saved;
    struct tensor logits;  // (N, V): holds their gradient after the loss
};

// Declares the parameters; config must be validated and its padded_vocab_size set.
void gpt_build(struct gpt *gpt, struct param_list *params, const struct config *config);
void gpt_free(struct gpt *gpt);

// Adds the micro-batch's losses to batch->loss_sum. With weights, leaves everything ready for the backward.
void gpt_forward(struct gpt *gpt, const struct pass *pass, const struct device_batch *batch);
// Before the first pass of a step: clears the gradients that no product writes, which are those of the positions and of
// everything without weight decay. grads is the flat buffer of params. It saves one pass over all weights a step.
void gpt_clear_gradients(const struct gpt *gpt, struct device *device, const struct param_list *params,
                         struct tensor grads);
// Adds to the gradients of all parameters; the first pass of a step writes those of the products.
void gpt_backward(struct gpt *gpt, const struct pass *pass, const struct device_batch *batch);
// Logits (B, V) fp32 of the last token of each sequence, for generation; uses and extends pass->cache where there is
// one.
void gpt_last_logits(struct gpt *gpt, const struct pass *pass, const struct device_batch *batch, struct tensor logits);

#endif
