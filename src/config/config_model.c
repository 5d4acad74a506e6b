// Combined meaning of the model's flags: one function for each question that several flags answer.
#include "config/config.h"
#include "config/model_value.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool config_is_encoder(const struct config_model *model) {
    return model->form == CONFIG_BERT || model->form == CONFIG_ICT;
}

int64_t config_top(const struct config *config, int64_t i) {
    return strtoll(config->run.retriever_report_topk_accuracies.items[i], NULL, 10);
}

int64_t config_query_groups(const struct config_model *model) {
    return model->group_query_attention ? model->num_query_groups : model->num_attention_heads;
}

int64_t config_kv_ranks(const struct config *config) {
    int64_t groups = config_query_groups(&config->model), ranks = config->machine.tensor_model_parallel_size;
    return groups > 0 && ranks > groups ? ranks / groups : 1;
}

// Megatron's fused kernel of bias and GELU has the tanh form; without it the exact form is used. Its BERT and T5 choose
// in the same way.
enum activation config_activation(const struct config_model *model) {
    if (model->activation != ACTIVATION_COUNT)
        return model->activation;
    if (model->swiglu)
        return ACTIVATION_SILU;
    if (model->squared_relu)
        return ACTIVATION_SQUARED_RELU;
    if (model->quick_geglu)
        return ACTIVATION_QUICK_GELU;
    bool is_exact = model->no_bias_gelu_fusion || model->disable_bias_linear;
    return is_exact ? ACTIVATION_GELU : ACTIVATION_GELU_TANH;
}

bool config_is_gated(const struct config_model *model) {
    return model->swiglu || model->quick_geglu || model->gated_linear_unit;
}

bool config_has_binary_head(const struct config_model *model) {
    return model->form == CONFIG_BERT && !model->bert_no_binary_head;
}

bool config_has_output_bias(const struct config_model *model) {
    return model->form == CONFIG_BERT || model->add_output_bias;
}

// All texts of ICT have type 0. Its towers have two types because their initial BERTs do.
int64_t config_token_types(const struct config_model *model) {
    bool has_two = config_has_binary_head(model) || model->form == CONFIG_ICT;
    return model->num_token_types >= 0 ? model->num_token_types : has_two ? 2 : 0;
}

bool config_has_qkv_bias(const struct config_model *model) {
    return !model->disable_bias_linear || model->add_qkv_bias || model->add_attention_bias;
}

bool config_has_attention_bias(const struct config_model *model) {
    return !model->disable_bias_linear || model->add_attention_bias;
}

bool config_has_mlp_bias(const struct config_model *model) {
    return !model->disable_bias_linear || model->add_mlp_bias;
}

enum activation config_head_activation(const struct config_model *model) {
    bool is_given = model->lm_head_activation != ACTIVATION_COUNT;
    return is_given ? model->lm_head_activation : config_activation(model);
}

bool config_has_embedding_norm(const struct config_model *model) {
    return model->embed_layernorm || (config_is_encoder(model) && model->norm_placement == NORMS_AFTER);
}

int64_t config_word_embedding_size(const struct config_model *model) {
    return model->word_embedding_size > 0 ? model->word_embedding_size : model->hidden_size;
}

int64_t config_encoder_layers(const struct config_model *model) {
    if (model->form == CONFIG_GPT)
        return 0;
    bool is_given = model->form == CONFIG_T5 && model->encoder_num_layers > 0;
    return is_given ? model->encoder_num_layers : model->num_layers;
}

int64_t config_decoder_layers(const struct config_model *model) {
    if (config_is_encoder(model))
        return 0;
    bool is_given = model->form == CONFIG_T5 && model->decoder_num_layers > 0;
    return is_given ? model->decoder_num_layers : model->num_layers;
}

double config_latent_epsilon(const struct config_model *model) {
    if (!model->multi_latent_attention)
        return 0;
    return model->latent_norm_epsilon > 0 ? model->latent_norm_epsilon : model->norm_epsilon;
}

int64_t config_value_channels(const struct config_model *model) {
    return model->multi_latent_attention ? model->v_head_dim : model->kv_channels;
}

// ---- rotary positions ----

bool config_scales_rope(const struct config_model *model) {
    return model->use_rope_scaling &&
           !(model->rope_scaling_type == ROPE_SCALING_DYNAMIC && config_rotary_channels(model) == 2);
}

bool config_has_longrope(const struct config_model *model) {
    return model->use_rope_scaling && model->rope_scaling_type == ROPE_SCALING_LONGROPE &&
           !model->multi_latent_attention && model->position_embedding_type == POSITIONS_ROPE;
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

struct config_yarn config_yarn(const struct config_model *model) {
    struct config_yarn yarn = {.factor = 1, .fast = model->yarn_beta_fast, .slow = model->yarn_beta_slow};
    if (model->multi_latent_attention) {
        yarn.factor = model->rope_type == LATENT_ROPE_PLAIN ? 1 : model->rotary_scaling_factor;
        yarn.length = (double)model->original_max_position_embeddings;
    } else if (model->use_rope_scaling && model->rope_scaling_type == ROPE_SCALING_YARN) {
        yarn.factor = model->rope_scaling_factor;
        yarn.length = (double)model->rope_original_length;
    }
    return yarn;
}

// YaRN's growth of scores of latent attention, for one of its two settings (DeepSeek-V2).
static double latent_growth(const struct config_model *model, double setting) {
    double factor = config_yarn(model).factor;
    return factor > 1 ? 1 + 0.1 * setting * log(factor) : 1;
}

double config_rope_attention_factor(const struct config_model *model) {
    if (model->multi_latent_attention)
        return latent_growth(model, model->mscale) / latent_growth(model, model->mscale_all_dim);
    bool is_yarn = model->use_rope_scaling && model->rope_scaling_type == ROPE_SCALING_YARN;
    bool is_long = config_has_longrope(model);
    double length = (double)model->rope_original_length, factor = model->rope_scaling_factor;
    if (!is_yarn && !is_long)
        return 1;
    if (model->yarn_attention_factor > 0)
        return model->yarn_attention_factor;
    return is_yarn ? 1 + 0.1 * log(factor) : factor > 1 ? sqrt(1 + log(factor) / log(length)) : 1;
}

float config_softmax_scale(const struct config_model *model) {
    double growth = model->multi_latent_attention ? latent_growth(model, model->mscale_all_dim) : 1;
    return model->softmax_scale > 0 ? (float)model->softmax_scale
                                    : (float)(growth * growth) / sqrtf((float)model->kv_channels);
}

int64_t config_no_rope_freq(const struct config_model *model) {
    return model->no_rope_freq <= model->num_layers ? model->no_rope_freq : 0;
}

bool config_layer_skips_rope(const struct config_model *model, int64_t layer) {
    return model->no_rope_freq > 0 && (layer + 1) % model->no_rope_freq == 0;
}

int64_t config_rotary_channels(const struct config_model *model) {
    return model->multi_latent_attention ? model->qk_pos_emb_head_dim
                                         : (int64_t)((double)model->kv_channels * model->rotary_percent);
}
