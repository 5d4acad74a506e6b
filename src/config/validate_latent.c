// Latent attention: the size of a head, and what it does not go with.
#include "base/log.h"
#include "config/validate.h"
#include <inttypes.h>
#include <string.h>

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

static void warn_of_flags(const struct config *config) {
    static const char *const flags[] = {
        "--q-lora-rank", "--kv-lora-rank",   "--qk-head-dim",           "--qk-pos-emb-head-dim",
        "--v-head-dim",  "--rope-type",      "--rotary-scaling-factor", "--original-max-position-embeddings",
        "--mscale",      "--mscale-all-dim", "--latent-norm-epsilon",   "--latent-rotary-halves"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flag_is_given(&config->given, flags[i]))
            log_warn_once("%s has no effect without --multi-latent-attention", flags[i]);
}

void validate_latent_sizes(struct config *config, struct complaints *complaints) {
    if (!config->multi_latent_attention) {
        if (is(config->rope_type, "yarn"))
            complain(complaints, "--rope-type yarn belongs to --multi-latent-attention; give --use-rope-scaling "
                                 "--rope-scaling-type yarn instead");
        else
            warn_of_flags(config);
        return;
    }
    int64_t size = config->qk_head_dim + config->qk_pos_emb_head_dim;
    if (flag_is_given(&config->given, "--kv-channels") && config->kv_channels != size)
        log_warn_once("--kv-channels %" PRId64 " has no effect with --multi-latent-attention: --qk-head-dim and "
                      "--qk-pos-emb-head-dim give %" PRId64,
                      config->kv_channels, size);
    config->kv_channels = size;
    if (config->qk_pos_emb_head_dim % 2 != 0)
        complain(complaints, "--qk-pos-emb-head-dim %" PRId64 " is odd, but rotation needs pairs; give an even number",
                 config->qk_pos_emb_head_dim);
}

void validate_latent(const struct config *config, struct complaints *complaints) {
    if (!config->multi_latent_attention)
        return;
    if (config_form(config) != CONFIG_GPT)
        complain(complaints, "--multi-latent-attention belongs to --model gpt; leave it out");
    if (!is(config->position_embedding_type, "rope"))
        complain(complaints, "--multi-latent-attention has rotary positions; give --position-embedding-type rope");
    if (config_query_groups(config) != config->num_attention_heads)
        complain(complaints, "--multi-latent-attention has keys and values for every head; leave out "
                             "--group-query-attention and --num-query-groups");
    if (is(config->rope_type, "rope") && config->rotary_scaling_factor > 1)
        log_warn_once("--rotary-scaling-factor has no effect with --rope-type rope; give --rope-type yarn");
    if (config->yarn_beta_fast < config->yarn_beta_slow)
        complain(complaints, "--yarn-beta-fast must not be below --yarn-beta-slow");
    if (config_yarn(config).factor > 1 && config->rotary_base < 2)
        complain(complaints, "--rotary-scaling-factor needs a --rotary-base of at least 2");
    const struct {
        bool is_there;
        const char *flag, *remedy;
    } others[] = {
        {config->use_rope_scaling, "--use-rope-scaling", "give --rotary-scaling-factor instead"},
        {config->yarn_attention_factor > 0, "--yarn-attention-factor", "give --mscale and --mscale-all-dim instead"},
        {config->rotary_percent < 1, "--rotary-percent", "give --qk-pos-emb-head-dim instead"},
        {config->rotary_interleaved, "--rotary-interleaved", "latent attention always rotates pairs; leave it out"},
        {config->rotary_seq_len_interpolation_factor != 1, "--rotary-seq-len-interpolation-factor", "leave it out"},
        {config->rotary_base_local > 0, "--rotary-base-local", "leave it out"},
        {config->no_rope_freq > 0, "--no-rope-freq", "leave it out"},
        {config->add_qkv_bias, "--add-qkv-bias", "leave it out"},
        {config->qk_layernorm_per_head, "--qk-layernorm-per-head", "--qk-layernorm normalizes latents"},
        {config->qk_layernorm_all_heads, "--qk-layernorm-all-heads", "--qk-layernorm normalizes latents"},
        {config->qk_layernorm_after_rope, "--qk-layernorm-after-rope", "--qk-layernorm normalizes latents"},
        {is(config->softmax_type, "learnable"), "--softmax-type learnable", "leave it out"},
        {config->parallel_residual, "--parallel-residual", "leave it out"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].is_there)
            complain(complaints, "%s does not work with --multi-latent-attention; %s", others[i].flag,
                     others[i].remedy);
}
