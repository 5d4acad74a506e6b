// Compute-optimal model size and number of tokens for a budget of FLOPs: Hoffmann et al. 2022 ("Chinchilla"), loss = E
// + A / N^alpha + B / D^beta with 6 N D FLOPs. The constants are those that Besiroglu et al. 2024 fitted to the same
// runs, because the printed ones contradict the paper's other two methods.
#ifndef PLAN_BUDGET_H
#define PLAN_BUDGET_H

#include "config/config.h"

struct budget_law {
    double e, a, alpha, b, beta;
    const char *source;
    const char *range;  // range of the runs to which it was fitted
};
extern const struct budget_law budget_law;

// Whether the budget is far outside the compute of the runs to which the law was fitted.
bool budget_extrapolates(double flops);
// Reads "1e22", "1e22FLOP" or "10ZFLOP"; -1 after error_set.
int budget_read(const char *text, double *flops);

struct budget_size {
    double parameters, tokens, loss;
};
// The optimal size times a factor: a smaller or larger model with the same compute.
struct budget_size budget_size(double flops, double factor);

// Layers, width and heads for an approximate number of parameters, in the proportions of published models: heads of 128
// (64 below a width of 1024), a width of 64 to 128 per layer that grows with the model, numbers that ranks can share.
struct budget_shape {
    int64_t layers, hidden, heads, groups, ffn;
};
struct budget_shape budget_shape(double parameters, double vocabulary);

// Samples of an update, a power of two, about 0.2920 C^0.3271 tokens (Bi et al. 2024, "DeepSeek LLM").
int64_t budget_batch(double flops, int64_t seq_length);

#endif
