// Combined meaning of the flags of rotary positions. A part of config.h, which includes it.
#ifndef CONFIG_CONFIG_ROPE_H
#define CONFIG_CONFIG_ROPE_H

#include <stdbool.h>
#include <stdint.h>

struct config;

// YaRN: the factor (1 for none), the context length before it, and the turns of the pairs at the ends of its ramp.
struct config_yarn {
    double factor, length, fast, slow;
};
struct config_yarn config_yarn(const struct config *config);
// Whether --use-rope-scaling changes anything. The dynamic kind changes the base, which two channels do not have: their
// one frequency is the base to the power of 0.
bool config_scales_rope(const struct config *config);
// LongRoPE: sequences of at most rope_original_length tokens have the frequencies of the short factors, longer ones
// those of the long factors.
bool config_has_longrope(const struct config *config);
// Reads numbers of at least 1e-6, separated by commas (NULL: none), the first `room` of them into `factors`. Returns
// their count, -1 if the text is not such a list.
int64_t config_rope_factors(const char *text, double *factors, int64_t room);
// Rotary scaling's factor for the rotated channels of queries and keys; 1 for none.
double config_rope_attention_factor(const struct config *config);
// --no-rope-freq, 0 if it is beyond the last layer; and whether it disables a layer's rotary positions.
int64_t config_no_rope_freq(const struct config *config);
bool config_layer_skips_rope(const struct config *config, int64_t layer);
// The number of rotated channels of a head: int(kv_channels × rotary_percent), or those of latent attention.
int64_t config_rotary_channels(const struct config *config);

#endif
