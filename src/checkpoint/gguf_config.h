// What a model is, in the keys of GGUF, and whether llama.cpp can run it. Internal to this folder.
#ifndef CHECKPOINT_GGUF_CONFIG_H
#define CHECKPOINT_GGUF_CONFIG_H

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_names.h"
#include "config/config.h"

// -1 if the architecture computes something else than the model, with what that is.
int gguf_config_check(const struct gguf_architecture *architecture, const struct config *config);
// The keys of the architecture. The vocabulary has `rows` rows.
void gguf_config_write(const struct gguf_architecture *architecture, const struct config *config, int64_t rows,
                       struct gguf_pairs *pairs);
// The width of its MLPs, which an architecture with experts alone takes for that of the experts.
int64_t gguf_mlp_width(const struct gguf_architecture *architecture, const struct config *config);
// The divisor of the frequency of each rotated pair, if the architecture is told so in a tensor
// (rope_freqs.weight); 0 if it is not. `factors` has room for ROPE_MOST_PAIRS.
int64_t gguf_rope_factors(const struct config *config, float *factors);
// What the final norm's gain is multiplied by, because the architecture knows no other factor of logits.
float gguf_output_scale(const struct config *config);

#endif
