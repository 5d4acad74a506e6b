// What the flags of a model mean together: each question that several flags answer is asked here, so that the model,
// the count of its parameters and the count of its FLOPs agree.
#include "config/config.h"
#include <math.h>
#include <string.h>

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

enum config_form config_form(const struct config *config) {
    return is(config->model, "bert") ? CONFIG_BERT : is(config->model, "t5") ? CONFIG_T5 : CONFIG_GPT;
}

int64_t config_query_groups(const struct config *config) {
    return config->group_query_attention ? config->num_query_groups : config->num_attention_heads;
}

// Megatron's kernel of bias and GELU has the tanh form, and the exact one is what remains if it is not used. Its
// BERT and T5 say so in the same way.
const char *config_activation(const struct config *config) {
    if (config->activation)
        return config->activation;
    if (config->swiglu)
        return "silu";
    if (config->squared_relu)
        return "squared_relu";
    return config->no_bias_gelu_fusion || config->disable_bias_linear ? "gelu" : "gelu_tanh";
}

bool config_is_gated(const struct config *config) {
    return config->swiglu || config->gated_linear_unit;
}

bool config_has_binary_head(const struct config *config) {
    return config_form(config) == CONFIG_BERT && !config->bert_no_binary_head;
}

bool config_has_output_bias(const struct config *config) {
    return config_form(config) == CONFIG_BERT || config->add_output_bias;
}

int64_t config_token_types(const struct config *config) {
    return config->num_token_types >= 0 ? config->num_token_types : config_has_binary_head(config) ? 2 : 0;
}

bool config_has_qkv_bias(const struct config *config) {
    return !config->disable_bias_linear || config->add_qkv_bias || config->add_attention_bias;
}

bool config_has_attention_bias(const struct config *config) {
    return !config->disable_bias_linear || config->add_attention_bias;
}

bool config_has_mlp_bias(const struct config *config) {
    return !config->disable_bias_linear || config->add_mlp_bias;
}

const char *config_head_activation(const struct config *config) {
    return config->lm_head_activation ? config->lm_head_activation : config_activation(config);
}

bool config_has_embedding_norm(const struct config *config) {
    return config_form(config) == CONFIG_BERT && is(config->norm_placement, "post");
}

int64_t config_word_embedding_size(const struct config *config) {
    return config->word_embedding_size > 0 ? config->word_embedding_size : config->hidden_size;
}

double config_rope_attention_factor(const struct config *config) {
    if (!config->use_rope_scaling || !is(config->rope_scaling_type, "yarn"))
        return 1;
    return config->yarn_attention_factor > 0 ? config->yarn_attention_factor
                                             : 1 + 0.1 * log(config->rope_scaling_factor);
}

int64_t config_encoder_layers(const struct config *config) {
    if (config_form(config) == CONFIG_GPT)
        return 0;
    bool is_given = config_form(config) == CONFIG_T5 && config->encoder_num_layers > 0;
    return is_given ? config->encoder_num_layers : config->num_layers;
}

int64_t config_decoder_layers(const struct config *config) {
    if (config_form(config) == CONFIG_BERT)
        return 0;
    bool is_given = config_form(config) == CONFIG_T5 && config->decoder_num_layers > 0;
    return is_given ? config->decoder_num_layers : config->num_layers;
}

int64_t config_rotary_channels(const struct config *config) {
    return (int64_t)((double)config->kv_channels * config->rotary_percent);
}

// Weight and bias of a linear layer.
static int64_t linear(int64_t in, int64_t out, bool has_bias) {
    return in * out + (has_bias ? out : 0);
}

static int64_t norm_of(const struct config *config, int64_t width) {
    return is(config->normalization, "RMSNorm") ? width : 2 * width;
}

static int64_t norm(const struct config *config) {
    return norm_of(config, config->hidden_size);
}

static int64_t stack_parameters(const struct config *config, int64_t layers, bool has_cross) {
    int64_t h = config->hidden_size, f = config->ffn_hidden_size, q = config->num_attention_heads * config->kv_channels;
    int64_t k = config_query_groups(config) * config->kv_channels;
    bool has_qkv = config_has_qkv_bias(config), has_out = config_has_attention_bias(config);
    bool has_mlp = config_has_mlp_bias(config), is_post = is(config->norm_placement, "post");
    int64_t heads = config->qk_layernorm ? 2 * norm_of(config, config->kv_channels) : 0;
    int64_t attention = linear(h, q + 2 * k, has_qkv) + linear(q, h, has_out) + norm(config) + heads;
    int64_t cross = linear(h, q, has_qkv) + linear(h, 2 * k, has_qkv) + linear(q, h, has_out) + norm(config);
    int64_t mlp = linear(h, config_is_gated(config) ? 2 * f : f, has_mlp) + linear(f, h, has_mlp) + norm(config);
    int64_t bias = is(config->position_embedding_type, "relative")
                       ? config->relative_attention_num_buckets * config->num_attention_heads *
                             (config->relative_attention_per_layer ? layers : 1)
                       : 0;
    return layers * (attention + (has_cross ? cross : 0) + mlp) + (is_post ? 0 : norm(config)) + bias;
}

int64_t config_parameter_count(const struct config *config) {
    int64_t h = config->hidden_size, V = config->padded_vocab_size, e = config_word_embedding_size(config);
    int64_t count = V * e + config_token_types(config) * h;
    bool has_cross = config_form(config) == CONFIG_T5;
    if (is(config->position_embedding_type, "learned_absolute"))
        count += (config->max_position_embeddings + config->position_offset) * h;
    if (e != h)
        count += 2 * e * h;
    if (config_has_embedding_norm(config))
        count += norm(config);
    if (config_encoder_layers(config) > 0)
        count += stack_parameters(config, config_encoder_layers(config), false);
    if (config_decoder_layers(config) > 0)
        count += stack_parameters(config, config_decoder_layers(config), has_cross);
    if (config->untie_embeddings_and_output_weights)
        count += V * e;
    if (config_has_output_bias(config))
        count += V;
    if (config_form(config) == CONFIG_BERT)
        count += linear(h, h, true) + norm(config);
    if (config_has_binary_head(config))
        count += linear(h, h, true) + linear(h, 2, true);
    return count;
}
