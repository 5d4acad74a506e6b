// The floating-point operations of a step, counted as Megatron counts them for "throughput per GPU (TFLOP/s/GPU)": 6 B
// s [L h f 2 + L (h (q + 2k) + q h) + h V] + 6 B s^2 q L, with q = heads * head size and k the same for key/value
// heads. The factor 2 is 3 if the MLP is gated, and causal attention counts half. Encoders and cross-attention are
// counted the same way.
#ifndef MODEL_FLOPS_H
#define MODEL_FLOPS_H

#include "config/config.h"

double flops_per_step(const struct config *config, int64_t global_batch_size);

#endif
