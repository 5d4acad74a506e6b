// The model's flags: which are missing, which contradict each other, which belong to another form of model.
#include "config/validate.h"
#include "base/log.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The lengths of samples: T5 has two, and Megatron's scripts call the first one by either name.
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
        // Dynamic scaling is by how far a text exceeds the positions, which another number of them would change.
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
    if (config->relative_attention_per_layer && !is(config->position_embedding_type, "relative"))
        complain(complaints, "--relative-attention-per-layer needs --position-embedding-type relative; give it, or "
                             "leave out --relative-attention-per-layer");
    if (is(config->position_embedding_type, "alibi") && config_form(config) != CONFIG_GPT)
        complain(complaints, "--position-embedding-type alibi belongs to decoders (--model gpt or llama); give "
                             "learned_absolute or rope, or relative for T5");
    if (config->scale_alibi && !is(config->position_embedding_type, "alibi"))
        complain(complaints,
                 "--scale-alibi needs --position-embedding-type alibi; give it, or leave out --scale-alibi");
    if (is(config->position_embedding_type, "relative") &&
        (buckets % 2 != 0 || config->relative_attention_max_distance <= buckets / 2))
        complain(complaints,
                 "--relative-attention-num-buckets must be even and --relative-attention-max-distance above "
                 "half of it");
}

// Flags that only one form of model has.
static void validate_form(struct config *config, struct complaints *complaints) {
    enum config_form form = config_form(config);
    if (form != CONFIG_GPT && (config->reset_attention_mask || config->reset_position_ids || config->eod_mask_loss))
        complain(complaints, "--reset-attention-mask, --reset-position-ids and --eod-mask-loss belong to --model gpt; "
                             "leave them out");
    if (form == CONFIG_T5 && is(config->norm_placement, "post"))
        complain(complaints, "--norm-placement post belongs to --model bert or gpt; leave it out");
    if (form != CONFIG_GPT && config_word_embedding_size(config) != config->hidden_size)
        complain(complaints, "--word-embedding-size belongs to --model gpt; leave it out");
    if (form != CONFIG_BERT && config->lm_head_activation)
        complain(complaints, "--lm-head-activation belongs to --model bert; leave it out");
    if (!config_is_encoder(config) && config->num_token_types > 0)
        complain(complaints, "--num-token-types belongs to --model bert; leave it out");
    if (form == CONFIG_BERT && config->num_token_types == 0 && config_has_binary_head(config))
        complain(complaints, "BERT's binary head needs token types; give --num-token-types 2 or --bert-no-binary-head");
    if (form == CONFIG_BERT && config->untie_embeddings_and_output_weights)
        complain(complaints,
                 "BERT's output layer shares the embedding's matrix; leave out --untie-embeddings-and-output-weights");
    if (form == CONFIG_T5 && config->decoder_seq_length == 0)
        config->decoder_seq_length = config->seq_length;
    if (config->scale_tied_output && config->untie_embeddings_and_output_weights)
        complain(complaints, "--scale-tied-output needs tied embeddings; leave it or "
                             "--untie-embeddings-and-output-weights out");
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

// The next length above one that --context-parallel-size and --sequence-parallel both divide.
static int64_t next_length(const struct config *config, int64_t tokens) {
    int64_t ranks = config->context_parallel_size, unit = ranks > 1 ? 2 * ranks : 1;
    do
        tokens = next_multiple(tokens, unit);
    while (config->micro_batch_size * tokens / ranks % config->tensor_model_parallel_size != 0);
    return tokens;
}

// Ranks that share sequences take two of 2 × ranks equal strips of each; those that divide the residual stream divide
// the rows of the strips that a rank has.
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

static void validate_qk_clip(const struct config *config, bool is_muon, struct complaints *complaints) {
    static const char *const flags[] = {"--qk-clip-alpha", "--qk-clip-threshold"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && !config->qk_clip; i++)
        if (flag_source(&config->given, flags[i]) == FLAG_FROM_COMMAND)
            log_warn_once("%s has no effect without --qk-clip", flags[i]);
    if (!config->qk_clip)
        return;
    if (!is_muon)
        complain(complaints, "--qk-clip needs an optimizer that updates whole matrices; give --optimizer muon or "
                             "adaptive_muon");
    if (config->qk_layernorm && !config->multi_latent_attention)
        complain(complaints, "--qk-clip does nothing behind --qk-layernorm, which sets the size of queries and keys; "
                             "leave one of them out");
    if (config_has_qkv_bias(config))
        log_warn_once("--qk-clip scales weights of queries and keys, not their biases; give --disable-bias-linear");
}

// Sets that go astray with more steps than they have.
static void validate_newton_schulz(const struct config *config, struct complaints *complaints) {
    if (is(config->muon_coefficient_type, "cubic5") && config->muon_num_ns_steps != 5)
        complain(complaints, "--muon-coefficient-type cubic5 has 5 steps; give --muon-num-ns-steps 5");
    // Its first polynomial makes -0.585 of 1, which is about what the four steps made of singular values.
    if (is(config->muon_coefficient_type, "aol") && config->muon_num_ns_steps > 4)
        complain(complaints, "--muon-coefficient-type aol has 4 steps; more would begin again with the first, which "
                             "reverses every update; give --muon-num-ns-steps 4");
}

static void validate_optimizer_division(struct config *config, struct complaints *complaints) {
    use_bf16(&config->exp_avg_dtype, "--exp-avg-dtype");
    use_bf16(&config->exp_avg_sq_dtype, "--exp-avg-sq-dtype");
    bool is_muon = is(config->optimizer, "muon") || is(config->optimizer, "adaptive_muon");
    if (is_muon && config->fp16)
        complain(complaints, "--optimizer %s does not work with --fp16; give --bf16, or train in fp32",
                 config->optimizer);
    if (is_muon)
        validate_newton_schulz(config, complaints);
    if ((is(config->optimizer, "lion") || is(config->optimizer, "sgd")) &&
        !(is(config->exp_avg_dtype, "fp32") && is(config->exp_avg_sq_dtype, "fp32")))
        log_warn_once("--exp-avg-dtype and --exp-avg-sq-dtype apply to Adam only; they do nothing with --optimizer %s",
                      config->optimizer);
    validate_qk_clip(config, is_muon, complaints);
    if (!config->optimizer_cpu_offload && config->optimizer_offload_fraction < 1)
        complain(complaints, "--optimizer-offload-fraction does nothing without --optimizer-cpu-offload; give both");
    if (config->eval_with_ema && config->ema_decay == 0)
        complain(complaints, "--eval-with-ema needs a moving average; give --ema-decay, e.g. 0.999");
    if (config->ema_decay > 0 && config->save && config->no_save_optim)
        log_warn_once("--no-save-optim leaves the moving average of --ema-decay out of checkpoints; leave it out");
    if (config->overlap_param_gather && !(config->use_distributed_optimizer && config->overlap_grad_reduce))
        complain(complaints,
                 "--overlap-param-gather needs --use-distributed-optimizer and --overlap-grad-reduce; give them too");
}

// Megatron's older models, chosen by --use-legacy-models since core 0.8, let --openai-gelu and --onnx-safe choose the
// GELU, whatever is fused. Megatron core's models read neither: fused with the bias it is the tanh form, else the exact
// one. What a flag's name promises and the model does not do is worth a warning.
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
    if (config->swiglu && config->activation && !is(config->activation, "silu"))
        complain(complaints, "--swiglu has the activation silu, not %s; leave one out", config->activation);
    if (config->squared_relu && config->swiglu)
        complain(complaints, "--squared-relu and --swiglu are two activations; leave one out");
    else if (config->squared_relu && config->activation && !is(config->activation, "squared_relu"))
        complain(complaints, "--squared-relu is not the activation %s; leave one out", config->activation);
    if (config->quick_geglu && (config->swiglu || config->squared_relu))
        complain(complaints, "--quick-geglu and %s are two activations; leave one out",
                 config->swiglu ? "--swiglu" : "--squared-relu");
    else if (config->quick_geglu && config->activation && !is(config->activation, "quick_gelu"))
        complain(complaints, "--quick-geglu has the activation quick_gelu, not %s; leave one out", config->activation);
    bool has_rule = config->glu_linear_offset != 0 || config->activation_func_clamp_value > 0;
    if (has_rule && !config_is_gated(config))
        complain(complaints,
                 "%s is about gated MLPs; give --quick-geglu, --swiglu or --gated-linear-unit, or leave it out",
                 config->glu_linear_offset != 0 ? "--glu-linear-offset" : "--activation-func-clamp-value");
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

// As in Megatron-LM: one more part of selective recompute.
static void resolve_expert_recompute(struct config *config, struct complaints *complaints) {
    struct string_list *modules = &config->recompute_modules;
    if (is(config->recompute_granularity, "full")) {
        complain(complaints, "--moe-layer-recompute does not work with --recompute-granularity full, which recomputes "
                             "experts as well; leave out one of them");
        return;
    }
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
        resolve_expert_recompute(config, complaints);
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
        if (is(name, "mla_up_proj") && !config->multi_latent_attention)
            log_warn_once("--recompute-modules mla_up_proj has no effect without --multi-latent-attention");
        if (config->fp8_format && strcmp(name, "mlp") == 0)
            complain(complaints, "--recompute-modules mlp does not work with --fp8-format; give mlp_act");
        bool is_of_experts = strncmp(name, "moe", 3) == 0 || strcmp(name, "shared_experts") == 0;
        if (is_known && is_of_experts && config->num_experts == 0)
            log_warn_once("--recompute-modules %s has no effect without --num-experts", name);
    }
    bool is_full = is(config->recompute_granularity, "full");
    if (config->cpu_offloading && !is_full)
        log_warn_once("--cpu-offloading has no effect without --recompute-granularity full");
    if (config->cpu_offloading_num_layers > 0 && !config->cpu_offloading)
        log_warn_once("--cpu-offloading-num-layers has no effect without --cpu-offloading");
    if (config->cpu_offloading && is_full && config->pipeline_model_parallel_size > 1)
        complain(complaints,
                 "--cpu-offloading does not work with --pipeline-model-parallel-size %" PRId64
                 "; leave it out, or use --context-parallel-size for long sequences",
                 config->pipeline_model_parallel_size);
    if (config->cpu_offloading && is_full && config->distribute_saved_activations)
        complain(complaints, "--cpu-offloading does not work with --distribute-saved-activations; leave one out");
    if (config->recompute_keep_attention && !is(config->recompute_granularity, "full"))
        log_warn_once("--recompute-keep-attention has no effect without --recompute-granularity full");
    if (is(config->recompute_granularity, "full") && !config->recompute_method)
        config->recompute_method = memory_string("uniform");
    if (is(config->recompute_granularity, "full") && config->recompute_num_layers == 0)
        config->recompute_num_layers = 1;
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
    validate_latent_sizes(config, complaints);
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
    validate_optimizer_division(config, complaints);
    validate_lengths(config, complaints);
    validate_positions(config, complaints);
    validate_form(config, complaints);
    validate_attention(config, complaints);
    validate_latent(config, complaints);
    validate_blocks(config, complaints);
    validate_strips(config, complaints);
    validate_recompute(config, complaints);
}
