// The activations of activation.c as functions over pieces of rows. Private to ops/cpu.
#ifndef OPS_CPU_ACTIVATION_H
#define OPS_CPU_ACTIVATION_H

#include "ops/activation.h"
#include <stdint.h>

// y may be x.
struct cpu_activation {
    void (*value)(float *y, const float *x, int64_t count);
    void (*gradient)(float *y, const float *x, int64_t count);
};
extern const struct cpu_activation cpu_activations[ACTIVATION_COUNT];

#endif
