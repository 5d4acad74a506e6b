// The size of a model and the number of tokens that make the best of a budget of compute: Hoffmann et al. 2022
// ("Chinchilla"), loss = E + A / N^alpha + B / D^beta with 6 N D FLOPs, and the constants that Besiroglu et al. 2024
// found in the same runs, because those that the paper prints contradict its other two methods.
#ifndef PLAN_BUDGET_H
#define PLAN_BUDGET_H

#include "config/config.h"

struct budget_law {
    double e, a, alpha, b, beta;
    const char *source;
    const char *range;  // of the runs that it was fitted to
};
extern const struct budget_law budget_law;

// Whether the runs that the law was fitted to had much less or much more compute.
bool budget_extrapolates(double flops);
// Reads "1e22", "1e22FLOP" or "10ZFLOP"; -1 after error_set.
int budget_read(const char *text, double *flops);

struct budget_size {
    double parameters, tokens, loss;
};
// The best size, times a factor: the smaller or larger model of the same compute.
struct budget_size budget_size(double flops, double factor);

// Layers, width and heads for about a number of parameters, as published models have them: heads of 128 (64 below a
// width of 1024), a width of 64 to 128 per layer that grows with the model, numbers that ranks can share.
struct budget_shape {
    int64_t layers, hidden, heads, groups, ffn;
};
struct budget_shape budget_shape(double parameters, double vocabulary);

// Samples of an update, a power of two, about 0.2920 C^0.3271 tokens (Bi et al. 2024, "DeepSeek LLM").
int64_t budget_batch(double flops, int64_t seq_length);

#endif
