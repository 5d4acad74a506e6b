// Combined meaning of the flags of rotary positions.
#include "config/config_rope.h"
#include "config/config.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool config_scales_rope(const struct config *config) {
    return config->model.use_rope_scaling &&
           !(config->model.rope_scaling_type == ROPE_SCALING_DYNAMIC && config_rotary_channels(config) == 2);
}

bool config_has_longrope(const struct config *config) {
    return config->model.use_rope_scaling && config->model.rope_scaling_type == ROPE_SCALING_LONGROPE &&
           !config->model.multi_latent_attention && config->model.position_embedding_type == POSITIONS_ROPE;
}

// Smaller ones would make frequencies infinite.
static const double LEAST_FACTOR = 1e-6;

int64_t config_rope_factors(const char *text, double *factors, int64_t room) {
    int64_t count = 0;
    while (text) {
        char *end = NULL;
        double factor = strtod(text, &end);
        if (end == text || !(factor >= LEAST_FACTOR) || !isfinite(factor) || (*end != ',' && *end != '\0'))
            return -1;
        if (count < room)
            factors[count] = factor;
        count++;
        text = *end == ',' ? end + 1 : NULL;
    }
    return count;
}

struct config_yarn config_yarn(const struct config *config) {
    struct config_yarn yarn = {.factor = 1, .fast = config->model.yarn_beta_fast, .slow = config->model.yarn_beta_slow};
    if (config->model.multi_latent_attention) {
        yarn.factor = config->model.rope_type == LATENT_ROPE_PLAIN ? 1 : config->model.rotary_scaling_factor;
        yarn.length = (double)config->model.original_max_position_embeddings;
    } else if (config->model.use_rope_scaling && config->model.rope_scaling_type == ROPE_SCALING_YARN) {
        yarn.factor = config->model.rope_scaling_factor;
        yarn.length = (double)config->model.rope_original_length;
    }
    return yarn;
}

// YaRN's growth of scores of latent attention, for one of its two settings (DeepSeek-V2).
static double latent_growth(const struct config *config, double setting) {
    double factor = config_yarn(config).factor;
    return factor > 1 ? 1 + 0.1 * setting * log(factor) : 1;
}

double config_rope_attention_factor(const struct config *config) {
    if (config->model.multi_latent_attention)
        return latent_growth(config, config->model.mscale) / latent_growth(config, config->model.mscale_all_dim);
    bool is_yarn = config->model.use_rope_scaling && config->model.rope_scaling_type == ROPE_SCALING_YARN;
    bool is_long = config_has_longrope(config);
    double length = (double)config->model.rope_original_length, factor = config->model.rope_scaling_factor;
    if (!is_yarn && !is_long)
        return 1;
    if (config->model.yarn_attention_factor > 0)
        return config->model.yarn_attention_factor;
    return is_yarn ? 1 + 0.1 * log(factor) : factor > 1 ? sqrt(1 + log(factor) / log(length)) : 1;
}

float config_softmax_scale(const struct config *config) {
    double growth = config->model.multi_latent_attention ? latent_growth(config, config->model.mscale_all_dim) : 1;
    return config->model.softmax_scale > 0 ? (float)config->model.softmax_scale
                                           : (float)(growth * growth) / sqrtf((float)config->model.kv_channels);
}

int64_t config_no_rope_freq(const struct config *config) {
    return config->model.no_rope_freq <= config->model.num_layers ? config->model.no_rope_freq : 0;
}

bool config_layer_skips_rope(const struct config *config, int64_t layer) {
    return config->model.no_rope_freq > 0 && (layer + 1) % config->model.no_rope_freq == 0;
}

int64_t config_rotary_channels(const struct config *config) {
    return config->model.multi_latent_attention
               ? config->model.qk_pos_emb_head_dim
               : (int64_t)((double)config->model.kv_channels * config->model.rotary_percent);
}
