// The polynomials of Muon's Newton-Schulz steps, by --muon-coefficient-type. Names, numbers and what follows the last
// step of a set are those of NVIDIA's emerging_optimizers, from which Megatron-LM takes them.
#ifndef OPTIM_COEFFICIENTS_H
#define OPTIM_COEFFICIENTS_H

#include <stdbool.h>
#include <stdint.h>

// A step makes a X + b (X X') X + c (X X')^2 X of X.
struct polynomial {
    float a, b, c;
};

struct coefficients {
    const char *name;
    const struct polynomial *steps;
    int64_t count;
    bool repeats_last;  // after the last step; otherwise they begin again
    bool has_pairs;     // two steps may be made at once in bf16, see newton_schulz.c
};

const struct coefficients *coefficients_find(const char *name);
struct polynomial coefficients_step(const struct coefficients *set, int64_t step);

#endif
