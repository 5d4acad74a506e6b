// Floating-point operations of a step, counted as Megatron counts them for "throughput per GPU (TFLOP/s/GPU)":
// 6 B s [L h f 2 + L (h (q + 2k) + q h) + h V] + 6 B s^2 q L, with q = heads * head size, k the same of keys, 3 for 2
// where the MLP is gated, and causal attention counted as half. Encoders and cross-attention are counted alike.
#ifndef MODEL_FLOPS_H
#define MODEL_FLOPS_H

#include "config/config.h"

double flops_per_step(const struct config *config, int64_t global_batch_size);

#endif
