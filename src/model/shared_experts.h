// Shared experts: the MLP beside a mixture of experts that every row goes through, with or without a gate. A gate is a
// router with one expert to choose from: the sigmoid of its logit is the weight of the MLP's result.
#ifndef MODEL_SHARED_EXPERTS_H
#define MODEL_SHARED_EXPERTS_H

#include "model/sublayer.h"

struct shared_experts {
    struct linear fc1, fc2;  // as an MLP's
    struct activation_step step;
    struct linear gate;  // weight (1, C); NULL without a gate
    const struct choices *choices;
};

struct shared_experts_saved {
    struct tensor x;                     // (n, C): this rank's rows of the input, kept by the caller
    struct activation_saved activation;  // without a gate
    // With a gate: the weight of each row, and input of the activation (N, F) or (N, 2F), which backward overwrites.
    struct tensor logits, weights;   // (N, 1) fp32
    struct tensor experts, places;   // (N, 1) i32: all 0; 0, 1, …
    struct tensor offsets, sources;  // (2) i32: 0, N; (N) i32: 0, 1, …
    struct tensor before;
};

void shared_experts_build(struct shared_experts *shared, struct param_list *params, const char *name,
                          const struct sublayer_options *options);
// out (N, C) = this rank's part of the result. x has all rows.
void shared_experts_forward(const struct shared_experts *shared, const struct pass *pass,
                            struct shared_experts_saved *saved, struct tensor out, struct tensor x);
// Recomputes a forward pass's saved activations, but not its result.
void shared_experts_again(const struct shared_experts *shared, const struct pass *pass,
                          struct shared_experts_saved *saved, struct tensor x);
// Adds to dx (N, C) this rank's part of the gradient; dy has all rows.
void shared_experts_backward(const struct shared_experts *shared, const struct pass *pass,
                             const struct shared_experts_saved *saved, struct tensor dx, struct tensor dy);

#endif
