// Combined meaning of the model's flags: one function for each question that several flags answer.
#include "config/config.h"
#include "config/model_value.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool config_is_encoder(const struct config *config) {
    return config->model.form == CONFIG_BERT || config->model.form == CONFIG_ICT;
}

int64_t config_top(const struct config *config, int64_t i) {
    return strtoll(config->run.retriever_report_topk_accuracies.items[i], NULL, 10);
}

int64_t config_query_groups(const struct config *config) {
    return config->model.group_query_attention ? config->model.num_query_groups : config->model.num_attention_heads;
}

int64_t config_kv_ranks(const struct config *config) {
    int64_t groups = config_query_groups(config), ranks = config->machine.tensor_model_parallel_size;
    return groups > 0 && ranks > groups ? ranks / groups : 1;
}

// Megatron's fused kernel of bias and GELU has the tanh form; without it the exact form is used. Its BERT and T5 choose
// in the same way.
enum activation config_activation(const struct config *config) {
    if (config->model.activation != ACTIVATION_COUNT)
        return config->model.activation;
    if (config->model.swiglu)
        return ACTIVATION_SILU;
    if (config->model.squared_relu)
        return ACTIVATION_SQUARED_RELU;
    if (config->model.quick_geglu)
        return ACTIVATION_QUICK_GELU;
    bool is_exact = config->model.no_bias_gelu_fusion || config->model.disable_bias_linear;
    return is_exact ? ACTIVATION_GELU : ACTIVATION_GELU_TANH;
}

bool config_is_gated(const struct config *config) {
    return config->model.swiglu || config->model.quick_geglu || config->model.gated_linear_unit;
}

bool config_has_binary_head(const struct config *config) {
    return config->model.form == CONFIG_BERT && !config->model.bert_no_binary_head;
}

bool config_has_output_bias(const struct config *config) {
    return config->model.form == CONFIG_BERT || config->model.add_output_bias;
}

// All texts of ICT have type 0. Its towers have two types because their initial BERTs do.
int64_t config_token_types(const struct config *config) {
    bool has_two = config_has_binary_head(config) || config->model.form == CONFIG_ICT;
    return config->model.num_token_types >= 0 ? config->model.num_token_types : has_two ? 2 : 0;
}

bool config_has_qkv_bias(const struct config *config) {
    return !config->model.disable_bias_linear || config->model.add_qkv_bias || config->model.add_attention_bias;
}

bool config_has_attention_bias(const struct config *config) {
    return !config->model.disable_bias_linear || config->model.add_attention_bias;
}

bool config_has_mlp_bias(const struct config *config) {
    return !config->model.disable_bias_linear || config->model.add_mlp_bias;
}

enum activation config_head_activation(const struct config *config) {
    bool is_given = config->model.lm_head_activation != ACTIVATION_COUNT;
    return is_given ? config->model.lm_head_activation : config_activation(config);
}

bool config_has_embedding_norm(const struct config *config) {
    return config->model.embed_layernorm || (config_is_encoder(config) && config->model.norm_placement == NORMS_AFTER);
}

int64_t config_word_embedding_size(const struct config *config) {
    return config->model.word_embedding_size > 0 ? config->model.word_embedding_size : config->model.hidden_size;
}

int64_t config_encoder_layers(const struct config *config) {
    if (config->model.form == CONFIG_GPT)
        return 0;
    bool is_given = config->model.form == CONFIG_T5 && config->model.encoder_num_layers > 0;
    return is_given ? config->model.encoder_num_layers : config->model.num_layers;
}

int64_t config_decoder_layers(const struct config *config) {
    if (config_is_encoder(config))
        return 0;
    bool is_given = config->model.form == CONFIG_T5 && config->model.decoder_num_layers > 0;
    return is_given ? config->model.decoder_num_layers : config->model.num_layers;
}

double config_latent_epsilon(const struct config *config) {
    if (!config->model.multi_latent_attention)
        return 0;
    return config->model.latent_norm_epsilon > 0 ? config->model.latent_norm_epsilon : config->model.norm_epsilon;
}

int64_t config_value_channels(const struct config *config) {
    return config->model.multi_latent_attention ? config->model.v_head_dim : config->model.kv_channels;
}

// ---- rotary positions ----

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
