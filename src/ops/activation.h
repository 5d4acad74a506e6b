// Activations of gated units. A part of ops.h.
#ifndef OPS_ACTIVATION_H
#define OPS_ACTIVATION_H

#include "base/layer_kinds.h"

// Preparation of the halves of a gated unit: a limit above 0 clamps gate to at most the limit, and up to [-limit,
// limit]; clamped elements have gradient 0. Then the offset is added to up. Zeroed: no change.
struct glu_rule {
    float limit, offset;
};

#endif
