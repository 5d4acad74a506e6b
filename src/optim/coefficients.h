// The polynomials of Muon's Newton-Schulz steps, by --muon-coefficient-type. Names, numbers and the continuation after
// a set's last step are those of NVIDIA's emerging_optimizers, which Megatron-LM uses.
#ifndef OPTIM_COEFFICIENTS_H
#define OPTIM_COEFFICIENTS_H

#include <stdbool.h>
#include <stdint.h>

// A step replaces X by a X + b (X X') X + c (X X')^2 X.
struct polynomial {
    float a, b, c;
};

struct coefficients {
    const char *name;
    const struct polynomial *steps;
    int64_t count;
    bool repeats_last;  // further steps repeat the last one; otherwise they start from the first
    bool has_pairs;     // two steps may be combined in bf16, see newton_schulz.c
};

const struct coefficients *coefficients_find(const char *name);
struct polynomial coefficients_step(const struct coefficients *set, int64_t step);

#endif
