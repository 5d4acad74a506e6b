// The model's flags: missing ones, and sizes that contradict each other.
#include "config/validate.h"
#include "base/log.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The lengths of samples: T5 has two, and Megatron's scripts use either name for the first one.
static void validate_lengths(struct config *config, struct complaints *complaints) {
    if (config->seq_length == 0)
        config->seq_length = config->encoder_seq_length;
    if (config->encoder_seq_length > 0 && config->encoder_seq_length != config->seq_length)
        complain(complaints,
                 "--seq-length %" PRId64 " and --encoder-seq-length %" PRId64 " are the same thing; give one",
                 config->seq_length, config->encoder_seq_length);
    if (config->seq_length == 0 && config->max_position_embeddings == 0) {
        complain(complaints, "--seq-length is missing; give the tokens of a sample");
        return;
    }
    if (config->max_position_embeddings == 0)
        config->max_position_embeddings = config->seq_length;
    if (config->seq_length == 0)
        config->seq_length = config->max_position_embeddings;
    if (config->seq_length > config->max_position_embeddings)
        // Dynamic scaling depends on how far a text exceeds the positions, which another number of them would change.
        complain(complaints, "--seq-length %" PRId64 " is above --max-position-embeddings %" PRId64 "; %s",
                 config->seq_length, config->max_position_embeddings,
                 config->use_rope_scaling && strcmp(config->rope_scaling_type, "dynamic") == 0
                     ? "shorten it: with dynamic rotary scaling, longer texts are not supported"
                     : "shorten the one or raise the other");
    if (config->decoder_seq_length > config->max_position_embeddings)
        complain(complaints,
                 "--decoder-seq-length %" PRId64 " is above --max-position-embeddings %" PRId64
                 "; shorten the one or raise the other",
                 config->decoder_seq_length, config->max_position_embeddings);
}

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

static void validate_positions(struct config *config, struct complaints *complaints) {
    if (config->no_position_embedding && is(config->position_embedding_type, "learned_absolute")) {
        free(config->position_embedding_type);
        config->position_embedding_type = memory_string("none");
    }
    int64_t buckets = config->relative_attention_num_buckets;
    validate_rope(config, complaints);
    if (is(config->position_embedding_type, "relative") &&
        (buckets % 2 != 0 || config->relative_attention_max_distance <= buckets / 2))
        complain(complaints,
                 "--relative-attention-num-buckets must be even and --relative-attention-max-distance above "
                 "half of it");
}

static void validate_tops(const struct config *config, struct complaints *complaints) {
    const struct string_list *tops = &config->retriever_report_topk_accuracies;
    if (tops->count > CONFIG_MOST_TOPS)
        complain(complaints, "--retriever-report-topk-accuracies takes at most %d numbers, not %" PRId64,
                 CONFIG_MOST_TOPS, tops->count);
    for (int64_t i = 0; i < tops->count; i++) {
        size_t digits = strspn(tops->items[i], "0123456789");
        if (digits == 0 || digits > 9 || tops->items[i][digits] || config_top(config, i) == 0)
            complain(complaints, "--retriever-report-topk-accuracies takes numbers from 1 to 999999999, not \"%s\"",
                     tops->items[i]);
    }
}

// Lengths and types of a BERT, a T5 and ICT.
static void validate_form(struct config *config, struct complaints *complaints) {
    enum config_form form = config_form(config);
    if (!config_is_encoder(config) && config->num_token_types > 0)
        complain(complaints, "--num-token-types belongs to --model bert; leave it out");
    if (form == CONFIG_BERT && config->num_token_types == 0 && config_has_binary_head(config))
        complain(complaints, "BERT's binary head needs token types; give --num-token-types 2 or --bert-no-binary-head");
    if (form == CONFIG_T5 && config->decoder_seq_length == 0)
        config->decoder_seq_length = config->seq_length;
    if (form == CONFIG_ICT && config->seq_length < 5)
        complain(complaints, "--seq-length %" PRId64 " leaves no room for a title and a sentence; give 5 or more",
                 config->seq_length);
    if (form == CONFIG_ICT)
        validate_tops(config, complaints);
    if (config->seq_length > 0 && config->mtp_num_layers >= config->seq_length)
        complain(complaints,
                 "--mtp-num-layers %" PRId64 " leaves no token to predict in sequences of --seq-length %" PRId64
                 "; give fewer",
                 config->mtp_num_layers, config->seq_length);
}

// If there are more ranks than heads of keys and values, equally many ranks share each head and split its channels.
static bool validate_kv_ranks(const struct config *config, struct complaints *complaints) {
    int64_t tensor = config->tensor_model_parallel_size, groups = config_query_groups(config);
    if (groups == 0 || groups % tensor == 0 || tensor % groups != 0)
        return groups % tensor == 0;
    int64_t ranks = config_kv_ranks(config), channels = config->kv_channels;
    if (channels % ranks != 0)
        complain(complaints,
                 "--kv-channels %" PRId64 " cannot be shared by the %" PRId64
                 " ranks (--tensor-model-parallel-size %" PRId64 " / --num-query-groups %" PRId64
                 ") that share a key/value head; nearest: --tensor-model-parallel-size %" PRId64,
                 channels, ranks, tensor, groups, groups * nearest_divisor(channels, ranks));
    return true;
}

// Ranks that share each layer take whole heads and even parts of the MLP; the vocabulary may end unevenly.
static void validate_shares(const struct config *config, struct complaints *complaints) {
    int64_t tensor = config->tensor_model_parallel_size, slices = config_expert_slices(config);
    const char *flag = "--tensor-model-parallel-size";
    const struct {
        const char *name;
        int64_t value, parts;
        const char *flag;
    } shared[] = {{"--num-attention-heads", config->num_attention_heads, tensor, flag},
                  {"--num-query-groups", config_query_groups(config), tensor, flag},
                  {"--ffn-hidden-size", config->ffn_hidden_size, tensor, flag},
                  {"--moe-ffn-hidden-size", config->moe_ffn_hidden_size, slices,
                   slices == tensor ? flag : "--expert-tensor-parallel-size"},
                  {"--moe-shared-expert-intermediate-size", config->moe_shared_expert_intermediate_size, tensor, flag}};
    char text[256];
    bool shares_keys = validate_kv_ranks(config, complaints);
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        bool has_keys = i == 1;
        if (has_keys ? !shares_keys : shared[i].value % shared[i].parts != 0)
            complain(complaints,
                     "%s %" PRId64 " cannot be shared by %s %" PRId64
                     " ranks; sizes that work are %s%s; nearest: %s %" PRId64 " or %s %" PRId64,
                     shared[i].name, shared[i].value, shared[i].flag, shared[i].parts,
                     divisors(shared[i].value, text, sizeof text), has_keys ? ", and multiples of the last" : "",
                     shared[i].flag, nearest_divisor(shared[i].value, shared[i].parts), shared[i].name,
                     nearest_multiple(shared[i].value, shared[i].parts));
    }
}

static int64_t next_multiple(int64_t value, int64_t unit) {
    return (value / unit + 1) * unit;
}

// The next larger length that --context-parallel-size and --sequence-parallel both divide.
static int64_t next_length(const struct config *config, int64_t tokens) {
    int64_t ranks = config->context_parallel_size, unit = ranks > 1 ? 2 * ranks : 1;
    do
        tokens = next_multiple(tokens, unit);
    while (config->micro_batch_size * tokens / ranks % config->tensor_model_parallel_size != 0);
    return tokens;
}

// Context-parallel ranks take two of 2 × ranks equal strips of each sequence; sequence-parallel ranks divide the rows
// of one rank's strips.
static void validate_strips(const struct config *config, struct complaints *complaints) {
    int64_t parts = config->tensor_model_parallel_size, ranks = config->context_parallel_size, strips = 2 * ranks;
    const struct {
        const char *name;
        int64_t tokens;
    } lengths[] = {{"--seq-length", config->seq_length}, {"--decoder-seq-length", config->decoder_seq_length}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const char *name = lengths[i].name;
        int64_t tokens = lengths[i].tokens, below = tokens / strips * strips;
        if (ranks > 1 && below != tokens && below > 0)
            complain(complaints,
                     "%s %" PRId64 " cannot be cut into 2 × --context-parallel-size %" PRId64 " equal strips; %" PRId64
                     " and %" PRId64 " tokens can",
                     name, tokens, ranks, below, below + strips);
        else if (ranks > 1 && below != tokens)
            complain(complaints,
                     "%s %" PRId64 " cannot be cut into 2 × --context-parallel-size %" PRId64 " equal strips; %" PRId64
                     " tokens can",
                     name, tokens, ranks, strips);
        else if (config->sequence_parallel && config->micro_batch_size * tokens / ranks % parts != 0)
            complain(complaints,
                     "--sequence-parallel cannot split the tokens of a micro-batch, %" PRId64 " × %" PRId64
                     ", among %" PRId64 " ranks; %s %" PRId64 " works, or --micro-batch-size %" PRId64,
                     config->micro_batch_size, tokens / ranks, parts, name, next_length(config, tokens),
                     next_multiple(config->micro_batch_size, parts));
    }
}

// Megatron keeps moments in fp16 with a scale for each tensor; here 16 bits are bf16.
static void use_bf16(char **dtype, const char *flag) {
    if (is(*dtype, "fp16")) {
        log_warn_once("%s %s: moments of 16 bits are in bf16 here", flag, *dtype);
        free(*dtype);
        *dtype = memory_string("bf16");
    }
}

static void validate_optimizer(struct config *config, struct complaints *complaints) {
    use_bf16(&config->exp_avg_dtype, "--exp-avg-dtype");
    use_bf16(&config->exp_avg_sq_dtype, "--exp-avg-sq-dtype");
    bool is_muon = is(config->optimizer, "muon") || is(config->optimizer, "adaptive_muon");
    // Its first polynomial turns 1 into -0.585, roughly the result of the four steps for singular values.
    if (is_muon && is(config->muon_coefficient_type, "aol") && config->muon_num_ns_steps > 4)
        complain(complaints, "--muon-coefficient-type aol has 4 steps; more would begin again with the first, which "
                             "reverses every update; give --muon-num-ns-steps 4");
    if (config->qk_clip && config->qk_layernorm && !config->multi_latent_attention)
        complain(complaints, "--qk-clip does nothing behind --qk-layernorm, which sets the size of queries and keys; "
                             "leave one of them out");
    if (config->qk_clip && config_has_qkv_bias(config))
        log_warn_once("--qk-clip scales weights of queries and keys, not their biases; give --disable-bias-linear");
    if (config->ema_decay > 0 && config->save && config->no_save_optim)
        log_warn_once("--no-save-optim leaves the moving average of --ema-decay out of checkpoints; leave it out");
}

// Megatron's older models, chosen by --use-legacy-models since core 0.8, let --openai-gelu and --onnx-safe choose the
// GELU, fused or not. Megatron core's models read neither: fused with the bias it is the tanh form, else the exact one.
// A flag whose name promises something that the model does not do deserves a warning.
static void validate_gelu(struct config *config) {
    if (!config->openai_gelu && !config->onnx_safe)
        return;
    const char *flag = config->openai_gelu ? "--openai-gelu" : "--onnx-safe";
    const char *form = config->openai_gelu ? "gelu_tanh" : "gelu", *has = config_activation(config);
    bool is_gelu = is(has, "gelu") || is(has, "gelu_tanh");
    if (is_gelu && config->use_legacy_models && !config->activation)
        config->activation = memory_string(form);
    else if (is_gelu && !is(has, form))
        log_warn_once("%s has no effect, as in Megatron core: the MLP computes %s; give --activation %s for %s, or "
                      "--use-legacy-models for Megatron's older models",
                      flag, config->openai_gelu ? "the exact (erf) GELU" : "the tanh form of GELU", form,
                      config->openai_gelu ? "the tanh form" : "the exact (erf) GELU");
    else
        log_info("note: %s changes nothing here: the activation is %s", flag, has);
}

static void validate_mlp(struct config *config, struct complaints *complaints) {
    bool has_rule = config->glu_linear_offset != 0 || config->activation_func_clamp_value > 0;
    if (has_rule && config->fp8_format && config_has_dense_mlps(config) && !config->has_wide_experts)
        complain(complaints, "%s works with --fp8-format only if all MLPs are routed experts; leave one out",
                 config->glu_linear_offset != 0 ? "--glu-linear-offset" : "--activation-func-clamp-value");
    validate_gelu(config);
    // Megatron's default for SwiGLU keeps the count of parameters, in multiples of 64.
    int64_t h = config->hidden_size;
    if (config->ffn_hidden_size == 0)
        config->ffn_hidden_size = config->swiglu ? (int64_t)((double)(4 * h * 2) / 3 / 64) * 64 : 4 * h;
    if (config->ffn_hidden_size == 0 && h > 0)
        complain(complaints,
                 "--hidden-size %" PRId64 " is too small for the default width of SwiGLU; give "
                 "--ffn-hidden-size",
                 h);
}

static void warn_of_groups(const struct config *config) {
    int64_t groups = config->num_query_groups, heads = config->num_attention_heads;
    bool is_given = flag_source(&config->given, "--num-query-groups") == FLAG_FROM_COMMAND || groups != 1;
    if (is_given && !config->group_query_attention && groups != heads)
        log_warn_once("--num-query-groups %" PRId64
                      " has no effect without --group-query-attention: each of the %" PRId64
                      " heads has keys and values of its own",
                      groups, heads);
}

// As in Megatron-LM: another part of selective recompute.
static void resolve_expert_recompute(struct config *config) {
    struct string_list *modules = &config->recompute_modules;
    if (!config->recompute_granularity)
        config->recompute_granularity = memory_string("selective");
    if (modules->count == 0)
        string_list_add(modules, "core_attn");
    for (int64_t i = 0; i < modules->count; i++)
        if (strcmp(modules->items[i], "moe") == 0)
            return;
    string_list_add(modules, "moe");
}

static void validate_recompute(struct config *config, struct complaints *complaints) {
    if (config->moe_layer_recompute)
        resolve_expert_recompute(config);
    static const char *const modules[] = {"core_attn", "mlp_act",        "mlp",        "moe_act", "moe",
                                          "layernorm", "shared_experts", "mla_up_proj"};
    for (int64_t i = 0; i < config->recompute_modules.count; i++) {
        const char *name = config->recompute_modules.items[i];
        bool is_known = false;
        for (size_t k = 0; k < sizeof modules / sizeof modules[0]; k++)
            is_known |= strcmp(name, modules[k]) == 0;
        if (!is_known)
            complain(complaints,
                     "--recompute-modules %s cannot be recomputed alone; core_attn, mlp_act, mlp, moe_act, moe, "
                     "shared_experts, mla_up_proj and layernorm can, and --recompute-granularity full recomputes whole "
                     "layers",
                     name);
    }
    bool is_full = is(config->recompute_granularity, "full");
    if (is_full && !config->recompute_method)
        config->recompute_method = memory_string("uniform");
    if (is_full && config->recompute_num_layers == 0)
        config->recompute_num_layers = 1;
}

// Latent attention: the size of a head.
static void validate_latent(struct config *config, struct complaints *complaints) {
    int64_t size = config->qk_head_dim + config->qk_pos_emb_head_dim;
    if (flag_is_given(&config->given, "--kv-channels") && config->kv_channels != size)
        log_warn_once("--kv-channels %" PRId64 " has no effect with --multi-latent-attention: --qk-head-dim and "
                      "--qk-pos-emb-head-dim give %" PRId64,
                      config->kv_channels, size);
    config->kv_channels = size;
    if (config->qk_pos_emb_head_dim % 2 != 0)
        complain(complaints, "--qk-pos-emb-head-dim %" PRId64 " is odd, but rotation needs pairs; give an even number",
                 config->qk_pos_emb_head_dim);
    if (config_query_groups(config) != config->num_attention_heads)
        complain(complaints, "--multi-latent-attention has keys and values for every head; leave out "
                             "--group-query-attention and --num-query-groups");
    if (config->yarn_beta_fast < config->yarn_beta_slow)
        complain(complaints, "--yarn-beta-fast must not be below --yarn-beta-slow");
    if (config_yarn(config).factor > 1 && config->rotary_base < 2)
        complain(complaints, "--rotary-scaling-factor needs a --rotary-base of at least 2");
}

void validate_model(struct config *config, struct complaints *complaints) {
    if (config->num_layers == 0)
        config->num_layers = config->encoder_num_layers;
    const struct {
        const char *flag;
        int64_t value;
    } needed[] = {{"--num-layers", config->num_layers},
                  {"--hidden-size", config->hidden_size},
                  {"--num-attention-heads", config->num_attention_heads}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i].value == 0)
            complain(complaints, "%s is missing; give it, a --preset, or --load with --use-checkpoint-args",
                     needed[i].flag);
    if (config->multi_latent_attention)
        validate_latent(config, complaints);
    int64_t h = config->hidden_size, heads = config->num_attention_heads, groups = config_query_groups(config);
    if (config->kv_channels == 0 && heads > 0 && h % heads != 0)
        complain(complaints,
                 "--hidden-size %" PRId64 " is not a multiple of --num-attention-heads %" PRId64
                 "; nearest: --num-attention-heads %" PRId64 " or --hidden-size %" PRId64 "; or give --kv-channels",
                 h, heads, nearest_divisor(h, heads), nearest_multiple(h, heads));
    if (config->kv_channels == 0 && heads > 0)
        config->kv_channels = h / heads;
    if (config->embedding_multiplier == 0)
        config->embedding_multiplier = h > 0 ? sqrt((double)h) : 1;
    if (groups > 0 && heads % groups != 0)
        complain(complaints,
                 "--num-attention-heads %" PRId64 " is not a multiple of --num-query-groups %" PRId64
                 "; nearest: --num-query-groups %" PRId64,
                 heads, groups, nearest_divisor(heads, groups));
    warn_of_groups(config);
    if (config->word_embedding_size == h)
        config->word_embedding_size = 0;
    validate_mlp(config, complaints);
    validate_shares(config, complaints);
    validate_optimizer(config, complaints);
    validate_lengths(config, complaints);
    validate_positions(config, complaints);
    validate_form(config, complaints);
    validate_attention(config, complaints);
    validate_strips(config, complaints);
    validate_recompute(config, complaints);
}
