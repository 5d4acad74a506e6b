// The model that `bench step` and `bench matmul` time: train's flags, with defaults of its own.
#ifndef CLI_BENCH_MODEL_H
#define CLI_BENCH_MODEL_H

#include "config/config.h"
#include "ops/device.h"

// Train's flags for a config at `base` of the options; the short --help shows those of the model and the machine.
struct flag_table bench_model_flags(size_t base);
// To be called after the flags were parsed: applies the preset and the other defaults, and validates. Without flags it
// is GPT-2 124M, 4 sequences of 256 tokens, without dropout.
int bench_model_complete(struct config *config);
// The device requested by the flags. Fields without a flag are empty: no file of algorithms.
struct device_options bench_device_options(const struct config *config);

// One of the matmuls of a training step: d (m, n) = op(a) op(b), summed over k.
enum matmul_pass { PASS_FORWARD, PASS_INPUT_GRADIENT, PASS_WEIGHT_GRADIENT, PASS_COUNT };
struct model_matmul {
    const char *layer;  // "qkv", "fc1", …
    enum matmul_pass pass;
    int64_t m, n, k;
    int64_t times;  // count per step
};
const char *matmul_pass_name(enum matmul_pass pass);
// Layout in memory: x (N, in) W^T (out, in) forward, dy W for the input, dy^T x for the weight.
static inline bool matmul_transposes_a(enum matmul_pass pass) {
    return pass == PASS_WEIGHT_GRADIENT;
}
static inline bool matmul_transposes_b(enum matmul_pass pass) {
    return pass == PASS_FORWARD;
}
// The matmuls of the linear layers of one micro-batch, three for each layer; attention is not included. Returns their
// number, at most MOST_MATMULS.
enum { MOST_MATMULS = 64 };
int bench_model_matmuls(const struct config *config, struct model_matmul *list);

#endif
