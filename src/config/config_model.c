// Combined meaning of the model's flags: one function for each question that several flags answer.
#include "config/config.h"
#include <stdlib.h>

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
