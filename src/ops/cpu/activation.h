// The activations of activation.c as functions over pieces of rows. Private to ops/cpu.
#ifndef OPS_CPU_ACTIVATION_H
#define OPS_CPU_ACTIVATION_H

#include "ops/activation.h"
#include <stdbool.h>
#include <stdint.h>

// y may be x.
struct cpu_activation {
    void (*value)(float *y, const float *x, int64_t count);
    void (*gradient)(float *y, const float *x, int64_t count);
};
extern const struct cpu_activation cpu_activations[ACTIVATION_COUNT];

// Apply a gated unit's rule: prepare its halves in place, and zero gradients where the original halves were clamped.
bool cpu_glu_has_rule(struct glu_rule rule);
void cpu_glu_prepare(float *gate, float *up, struct glu_rule rule, int64_t count);
void cpu_glu_mask(float *dgate, float *dup, const float *gate, const float *up, float limit, int64_t count);

#endif
