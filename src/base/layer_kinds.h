// Kinds of layers' arithmetic: flags name them, and operations compute them.
#ifndef BASE_LAYER_KINDS_H
#define BASE_LAYER_KINDS_H

enum activation {
    ACTIVATION_GELU_TANH,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    ACTIVATION_GELU,       // x times the cumulative normal distribution of x, computed with erf
    ACTIVATION_RELU,
    ACTIVATION_SQUARED_RELU,
    ACTIVATION_SILU,  // x times the logistic function of x
    ACTIVATION_TANH,
    ACTIVATION_QUICK_GELU,  // x times the logistic function of 1.702 x
    ACTIVATION_COUNT
};

enum norm_kind { NORM_LAYER, NORM_RMS };

// How a router computes scores from logits, and weights from the scores of the chosen experts.
enum router_score {
    ROUTER_SOFTMAX,        // softmax over the K chosen logits
    ROUTER_SOFTMAX_ALL,    // softmax over all E logits; the chosen ones are not normalised again
    ROUTER_SIGMOID,        // 1 / (1 + e^-x); if K > 1 the chosen ones are divided by their sum + 1e-20
    ROUTER_SQRT_SOFTPLUS,  // sqrt(log(1 + e^x)); if K > 1 the chosen ones are divided as above
    ROUTER_SCORE_COUNT
};

// Preparation of the halves of a gated unit: a limit above 0 clamps gate to at most the limit, and up to [-limit,
// limit]; clamped elements have gradient 0. Then the offset is added to up. Zeroed: no change.
struct glu_rule {
    float limit, offset;
};

#endif
