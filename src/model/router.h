// The router of a mixture of experts: it scores all E experts for each row, and each row goes to its K best. Beside it
// stand the losses that keep experts evenly used; they are never part of the model's loss, only of its gradient.
//
// If ranks share layers and split the residual stream, each of them routes its own rows. If they do not split it, each
// routes all rows alike, and has only a part of the gradient of the weights, which is that of its part of the experts;
// the losses' gradient is added by the first of them. In both cases all gradients of the router are parts and are
// summed over those ranks.
//
// The loss over the global batch is E / (K T^2) * sum over experts of (tokens that chose it * sum of its shares), over
// all T tokens of a step. The numbers of tokens are known only when the step's last micro-batch has been routed, so its
// gradient has those of the step before: an expert's load in it is what the mean of its shares is multiplied by. So it
// is the same on every layout. In the first step it has no gradient.
#ifndef MODEL_ROUTER_H
#define MODEL_ROUTER_H

#include "model/sublayer.h"

struct router {
    struct linear linear;  // weight (E, C), bias (E)
    const struct expert_choices *choices;
    int64_t number;         // of its layer, counting those with experts
    int64_t dropout_layer;  // a number that keys the noise of its input
};

// What backward needs of a micro-batch.
struct router_saved {
    struct tensor logits;   // (N, E) fp32
    struct tensor experts;  // (N, K) i32
    struct tensor weights;  // (N, K) fp32
    // Of the losses over the micro-batch and over each sequence: sums of shares and the slopes of the loss, both (1, E)
    // or (B, E) fp32; none without that loss.
    struct tensor sums[BALANCE_COUNT], slopes[BALANCE_COUNT];
};

void router_build(struct router *router, struct param_list *params, const char *name,
                  const struct sublayer_options *options);
// x (N, C): this rank's rows of the stream. In training, adds to the step's counts of the rows that each expert gets.
void router_forward(const struct router *router, const struct pass *pass, struct router_saved *saved, struct tensor x);
// Adds to dx (N, C) the gradient of x, and to the gradient of the bias. Returns that of the logits (N, E), in scratch
// and in the dtype of the pass. Adds the losses to the micro-batch's sums.
struct first_gradients router_backward(const struct router *router, const struct pass *pass,
                                       const struct router_saved *saved, struct tensor dx, struct tensor dweights);

#endif
