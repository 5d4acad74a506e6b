// The router of a mixture of experts: it scores all E experts for each row, and each row goes to its K best. It also
// has the losses that balance experts; they are part of the model's gradient, never of its loss.
//
// If ranks share layers and split the residual stream, each routes its own rows. If they do not split it, each routes
// all rows alike and has only its experts' part of the gradient of the weights; the first adds the gradient of the
// losses. In both cases all gradients of the router are partial and are summed over those ranks.
//
// The loss over the global batch is E / (K T^2) * sum over experts of (tokens that chose it * sum of its shares), over
// all T tokens of a step. The numbers of tokens are known only after the step's last micro-batch is routed, so its
// gradient uses the previous step's: the mean of an expert's shares is multiplied by its load in that step. The loss is
// therefore the same on every layout. It has no gradient in the first step.
#ifndef MODEL_ROUTER_H
#define MODEL_ROUTER_H

#include "model/sublayer.h"

struct router {
    struct linear linear;  // weight (E, C), bias (E)
    const struct expert_choices *choices;
    int64_t number;         // of its layer among those with experts
    int64_t dropout_layer;  // a number that keys the noise of its input
};

// Saved activations of one micro-batch, for backward.
struct router_saved {
    struct tensor logits;   // (N, E) fp32
    struct tensor experts;  // (N, K) i32
    struct tensor weights;  // (N, K) fp32
    // For the losses over the micro-batch and over each sequence: sums of shares and slopes of the loss, both (1, E) or
    // (B, E) fp32; none without that loss.
    struct tensor sums[BALANCE_COUNT], slopes[BALANCE_COUNT];
};

void router_build(struct router *router, struct param_list *params, const char *name,
                  const struct sublayer_options *options);
// x (N, C): this rank's rows of the stream. In training, adds to the step's counts of the rows that each expert gets.
void router_forward(const struct router *router, const struct pass *pass, struct router_saved *saved, struct tensor x);
// Adds to dx (N, C) the gradient of x, and adds to the gradient of the bias. Returns the gradient of the logits (N, E),
// in scratch and in the pass's dtype. Adds the losses to the micro-batch's sums.
struct first_gradients router_backward(const struct router *router, const struct pass *pass,
                                       const struct router_saved *saved, struct tensor dx, struct tensor dweights);

#endif
