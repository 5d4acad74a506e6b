// Activation functions. A part of ops.h.
#ifndef OPS_ACTIVATION_H
#define OPS_ACTIVATION_H

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

// Preparation of the halves of a gated unit: a limit above 0 clamps gate to at most the limit, and up to [-limit,
// limit]; clamped elements have gradient 0. Then the offset is added to up. Zeroed: no change.
struct glu_rule {
    float limit, offset;
};

#endif
