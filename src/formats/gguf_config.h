// A model's configuration as GGUF keys, and whether llama.cpp can run it. Internal to this folder.
#ifndef FORMATS_GGUF_CONFIG_H
#define FORMATS_GGUF_CONFIG_H

#include "config/config.h"
#include "formats/gguf.h"
#include "formats/gguf_names.h"

// -1, with the difference as message, if the architecture computes something other than the model.
int gguf_config_check(const struct gguf_architecture *architecture, const struct config *config);
// Writes the architecture's keys. The vocabulary has `rows` rows.
void gguf_config_write(const struct gguf_architecture *architecture, const struct config *config, int64_t rows,
                       struct gguf_pairs *pairs);
// The divisors of the frequencies of rotated pairs, if the architecture reads them from a tensor (rope_freqs.weight);
// returns their number, else 0. `factors` has room for ROPE_MOST_PAIRS.
int64_t gguf_rope_factors(const struct config *config, float *factors);
// Factor folded into the final norm's gain, because the architecture has no other factor for logits.
float gguf_output_scale(const struct config *config);

#endif
