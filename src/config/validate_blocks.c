// How blocks are arranged: parallel residuals, multipliers, layers without positions.
#include "base/log.h"
#include "config/validate.h"

#include <inttypes.h>
#include <string.h>

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

static void validate_multipliers(const struct config *config, struct complaints *complaints) {
    bool scales_words = config->embedding_multiplier != 1;
    const char *flag = scales_words ? "--embedding-multiplier" : "--residual-multiplier";
    if (!scales_words && config->residual_multiplier == 1)
        return;
    if (config_form(config) != CONFIG_GPT)
        complain(complaints, "%s belongs to decoders (--model gpt or llama); leave it out", flag);
    bool is_pre = is(config->norm_placement, "pre");
    if (is_pre && (config_has_attention_bias(config) || config_has_mlp_bias(config)))
        complain(complaints,
                 "%s needs --disable-bias-linear, without --add-attention-bias and --add-mlp-bias: biases of what is "
                 "added to the residual stream would have to be multiplied too",
                 flag);
    if (is(config->norm_placement, "post"))
        complain(complaints, "%s does not work with --norm-placement post; give another", flag);
    if (scales_words && is(config->position_embedding_type, "learned_absolute"))
        complain(complaints, "--embedding-multiplier needs positions that are not added to words: "
                             "--position-embedding-type rope, relative, alibi or none");
}

// The norm of words is on the first stage alone, and its result is what the residual stream begins with.
static void validate_embedding_norm(const struct config *config, struct complaints *complaints) {
    if (!config->embed_layernorm)
        return;
    if (config_form(config) != CONFIG_GPT)
        complain(complaints, "--embed-layernorm belongs to decoders (--model gpt or llama); leave it out (a BERT with "
                             "--norm-placement post has a norm of embeddings anyway)");
    if (config->embedding_multiplier != 1)
        complain(complaints, "--embedding-multiplier does nothing before --embed-layernorm, which sets the size of "
                             "embeddings; leave one of them out");
    if (config_word_embedding_size(config) != config->hidden_size)
        complain(complaints, "--embed-layernorm does not work with --word-embedding-size; leave one of them out");
    if (config->mtp_num_layers > 0)
        complain(complaints, "--embed-layernorm does not work with --mtp-num-layers; leave one of them out");
}

// Megatron-LM has only pre-norm GPTs, whose final norm a depth has too.
static void validate_depths(const struct config *config, struct complaints *complaints) {
    if (config->mtp_num_layers == 0) {
        if (flag_source(&config->given, "--mtp-loss-scaling-factor") == FLAG_FROM_COMMAND)
            log_warn_once("--mtp-loss-scaling-factor has no effect without --mtp-num-layers");
        return;
    }
    if (config_form(config) != CONFIG_GPT)
        complain(complaints, "--mtp-num-layers belongs to decoders (--model gpt or llama); leave it out");
    if (is(config->norm_placement, "post"))
        complain(complaints, "--mtp-num-layers does not work with --norm-placement post; give another");
    if (is(config->position_embedding_type, "relative"))
        complain(complaints, "--mtp-num-layers does not work with --position-embedding-type relative; give rope, "
                             "learned_absolute or none");
    if (config->seq_length > 0 && config->mtp_num_layers >= config->seq_length)
        complain(complaints,
                 "--mtp-num-layers %" PRId64 " leaves no token to predict in sequences of --seq-length %" PRId64
                 "; give fewer",
                 config->mtp_num_layers, config->seq_length);
}

void validate_blocks(const struct config *config, struct complaints *complaints) {
    validate_embedding_norm(config, complaints);
    if (config->qk_layernorm && config_form(config) != CONFIG_GPT)
        complain(complaints, "--qk-layernorm belongs to decoders (--model gpt or llama); leave it out");
    if (config->qk_layernorm_all_heads && !config->qk_layernorm)
        complain(complaints, "--qk-layernorm-all-heads needs --qk-layernorm; give it too");
    if (config->qk_layernorm_per_head && (!config->qk_layernorm || config->qk_layernorm_all_heads))
        complain(complaints, "--qk-layernorm-per-head needs --qk-layernorm without --qk-layernorm-all-heads");
    if (config->qk_layernorm_after_rope && (!config->qk_layernorm || config->qk_layernorm_all_heads))
        complain(complaints, "--qk-layernorm-after-rope needs --qk-layernorm without --qk-layernorm-all-heads");
    const char *placement = config->norm_placement;
    if ((is(placement, "output") || is(placement, "both")) && config_form(config) != CONFIG_GPT)
        complain(complaints, "--norm-placement %s belongs to decoders (--model gpt or llama); give pre or post",
                 placement);
    if (config->parallel_residual && config_form(config) != CONFIG_GPT)
        complain(complaints, "--parallel-residual belongs to decoders (--model gpt or llama); leave it out");
    if (config->parallel_residual && !is(config->norm_placement, "pre"))
        complain(complaints, "--parallel-residual needs --norm-placement pre");
    if (config->parallel_residual_one_norm && !config->parallel_residual)
        complain(complaints, "--parallel-residual-one-norm needs --parallel-residual; give it too");
    if (config->parallel_residual_one_norm && config->fp8_format)
        complain(complaints, "--parallel-residual-one-norm does not work with --fp8-format; leave one out");
    if (config->logits_scaling != 1 && config_form(config) != CONFIG_GPT)
        complain(complaints, "--logits-scaling belongs to decoders (--model gpt or llama); leave it out");
    if (config->no_rope_freq > 0 && (config_form(config) != CONFIG_GPT || !is(config->position_embedding_type, "rope")))
        complain(complaints, "--no-rope-freq needs --position-embedding-type rope in a decoder; leave it out");
    if (config->num_experts > 0 && config->parallel_residual)
        complain(complaints, "--parallel-residual does not work with --num-experts; leave one out");
    if (config->no_norm_bias && (config_form(config) != CONFIG_GPT || is(config->normalization, "RMSNorm")))
        complain(complaints, "--no-norm-bias is about LayerNorms of decoders%s; leave it out",
                 is(config->normalization, "RMSNorm") ? ", and an RMSNorm has no bias anyway" : "");
    validate_multipliers(config, complaints);
    validate_depths(config, complaints);
}
