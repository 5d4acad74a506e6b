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
    if (config->run.seq_length == 0)
        config->run.seq_length = config->run.encoder_seq_length;
    if (config->run.encoder_seq_length > 0 && config->run.encoder_seq_length != config->run.seq_length)
        complain(complaints,
                 "--seq-length %" PRId64 " and --encoder-seq-length %" PRId64 " are the same thing; give one",
                 config->run.seq_length, config->run.encoder_seq_length);
    if (config->run.seq_length == 0 && config->model.max_position_embeddings == 0) {
        complain(complaints, "--seq-length is missing; give the tokens of a sample");
        return;
    }
    if (config->model.max_position_embeddings == 0)
        config->model.max_position_embeddings = config->run.seq_length;
    if (config->run.seq_length == 0)
        config->run.seq_length = config->model.max_position_embeddings;
    if (config->run.seq_length > config->model.max_position_embeddings)
        // Dynamic scaling depends on how far a text exceeds the positions, which another number of them would change.
        complain(complaints, "--seq-length %" PRId64 " is above --max-position-embeddings %" PRId64 "; %s",
                 config->run.seq_length, config->model.max_position_embeddings,
                 config->model.use_rope_scaling && config->model.rope_scaling_type == ROPE_SCALING_DYNAMIC
                     ? "shorten it: with dynamic rotary scaling, longer texts are not supported"
                     : "shorten the one or raise the other");
    if (config->run.decoder_seq_length > config->model.max_position_embeddings)
        complain(complaints,
                 "--decoder-seq-length %" PRId64 " is above --max-position-embeddings %" PRId64
                 "; shorten the one or raise the other",
                 config->run.decoder_seq_length, config->model.max_position_embeddings);
}

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

static void validate_positions(struct config *config, struct complaints *complaints) {
    if (config->model.no_position_embedding && config->model.position_embedding_type == POSITIONS_LEARNED)
        config->model.position_embedding_type = POSITIONS_NONE;
    int64_t buckets = config->model.relative_attention_num_buckets;
    validate_rope(config, complaints);
    if (config->model.position_embedding_type == POSITIONS_RELATIVE &&
        (buckets % 2 != 0 || config->model.relative_attention_max_distance <= buckets / 2))
        complain(complaints,
                 "--relative-attention-num-buckets must be even and --relative-attention-max-distance above "
                 "half of it");
}

static void validate_tops(const struct config *config, struct complaints *complaints) {
    const struct string_list *tops = &config->run.retriever_report_topk_accuracies;
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
    enum config_form form = config->model.form;
    if (!config_is_encoder(&config->model) && config->model.num_token_types > 0)
        complain(complaints, "--num-token-types belongs to --model bert; leave it out");
    if (form == CONFIG_BERT && config->model.num_token_types == 0 && config_has_binary_head(&config->model))
        complain(complaints, "BERT's binary head needs token types; give --num-token-types 2 or --bert-no-binary-head");
    if (form == CONFIG_T5 && config->run.decoder_seq_length == 0)
        config->run.decoder_seq_length = config->run.seq_length;
    if (form == CONFIG_ICT && config->run.seq_length < 5)
        complain(complaints, "--seq-length %" PRId64 " leaves no room for a title and a sentence; give 5 or more",
                 config->run.seq_length);
    if (form == CONFIG_ICT)
        validate_tops(config, complaints);
    if (config->run.seq_length > 0 && config->model.mtp_num_layers >= config->run.seq_length)
        complain(complaints,
                 "--mtp-num-layers %" PRId64 " leaves no token to predict in sequences of --seq-length %" PRId64
                 "; give fewer",
                 config->model.mtp_num_layers, config->run.seq_length);
}

// If there are more ranks than heads of keys and values, equally many ranks share each head and split its channels.
static bool validate_kv_ranks(const struct config *config, struct complaints *complaints) {
    int64_t tensor = config->machine.tensor_model_parallel_size, groups = config_query_groups(&config->model);
    if (groups == 0 || groups % tensor == 0 || tensor % groups != 0)
        return groups % tensor == 0;
    int64_t ranks = config_kv_ranks(config), channels = config->model.kv_channels;
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
    int64_t tensor = config->machine.tensor_model_parallel_size, slices = config_expert_slices(config);
    const char *flag = "--tensor-model-parallel-size";
    const struct {
        const char *name;
        int64_t value, parts;
        const char *flag;
    } shared[] = {
        {"--num-attention-heads", config->model.num_attention_heads, tensor, flag},
        {"--num-query-groups", config_query_groups(&config->model), tensor, flag},
        {"--ffn-hidden-size", config->model.ffn_hidden_size, tensor, flag},
        {"--moe-ffn-hidden-size", config->model.moe_ffn_hidden_size, slices,
         slices == tensor ? flag : "--expert-tensor-parallel-size"},
        {"--moe-shared-expert-intermediate-size", config->model.moe_shared_expert_intermediate_size, tensor, flag}};
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
    int64_t ranks = config->machine.context_parallel_size, unit = ranks > 1 ? 2 * ranks : 1;
    do
        tokens = next_multiple(tokens, unit);
    while (config->run.micro_batch_size * tokens / ranks % config->machine.tensor_model_parallel_size != 0);
    return tokens;
}

// Context-parallel ranks take two of 2 × ranks equal strips of each sequence; sequence-parallel ranks divide the rows
// of one rank's strips.
static void validate_strips(const struct config *config, struct complaints *complaints) {
    int64_t parts = config->machine.tensor_model_parallel_size, ranks = config->machine.context_parallel_size,
            strips = 2 * ranks;
    const struct {
        const char *name;
        int64_t tokens;
    } lengths[] = {{"--seq-length", config->run.seq_length}, {"--decoder-seq-length", config->run.decoder_seq_length}};
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
        else if (config->machine.sequence_parallel && config->run.micro_batch_size * tokens / ranks % parts != 0)
            complain(complaints,
                     "--sequence-parallel cannot split the tokens of a micro-batch, %" PRId64 " × %" PRId64
                     ", among %" PRId64 " ranks; %s %" PRId64 " works, or --micro-batch-size %" PRId64,
                     config->run.micro_batch_size, tokens / ranks, parts, name, next_length(config, tokens),
                     next_multiple(config->run.micro_batch_size, parts));
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
    use_bf16(&config->run.exp_avg_dtype, "--exp-avg-dtype");
    use_bf16(&config->run.exp_avg_sq_dtype, "--exp-avg-sq-dtype");
    bool is_muon = is(config->run.optimizer, "muon") || is(config->run.optimizer, "adaptive_muon");
    // Its first polynomial turns 1 into -0.585, roughly the result of the four steps for singular values.
    if (is_muon && is(config->run.muon_coefficient_type, "aol") && config->run.muon_num_ns_steps > 4)
        complain(complaints, "--muon-coefficient-type aol has 4 steps; more would begin again with the first, which "
                             "reverses every update; give --muon-num-ns-steps 4");
    if (config->run.qk_clip && config->model.qk_layernorm && !config->model.multi_latent_attention)
        complain(complaints, "--qk-clip does nothing behind --qk-layernorm, which sets the size of queries and keys; "
                             "leave one of them out");
    if (config->run.qk_clip && config_has_qkv_bias(&config->model))
        log_warn_once("--qk-clip scales weights of queries and keys, not their biases; give --disable-bias-linear");
    if (config->run.ema_decay > 0 && config->run.save && config->run.no_save_optim)
        log_warn_once("--no-save-optim leaves the moving average of --ema-decay out of checkpoints; leave it out");
}

// Megatron's older models, chosen by --use-legacy-models since core 0.8, let --openai-gelu and --onnx-safe choose the
// GELU, fused or not. Megatron core's models read neither: fused with the bias it is the tanh form, else the exact one.
// A flag whose name promises something that the model does not do deserves a warning.
static void validate_gelu(struct config *config) {
    if (!config->model.openai_gelu && !config->model.onnx_safe)
        return;
    const char *flag = config->model.openai_gelu ? "--openai-gelu" : "--onnx-safe";
    enum activation form = config->model.openai_gelu ? ACTIVATION_GELU_TANH : ACTIVATION_GELU;
    enum activation has = config_activation(&config->model);
    bool is_gelu = has == ACTIVATION_GELU || has == ACTIVATION_GELU_TANH;
    if (is_gelu && config->model.use_legacy_models && config->model.activation == ACTIVATION_COUNT)
        config->model.activation = form;
    else if (is_gelu && has != form)
        log_warn_once("%s has no effect, as in Megatron core: the MLP computes %s; give --activation %s for %s, or "
                      "--use-legacy-models for Megatron's older models",
                      flag, config->model.openai_gelu ? "the exact (erf) GELU" : "the tanh form of GELU",
                      CONFIG_NAME(model.activation, form),
                      config->model.openai_gelu ? "the tanh form" : "the exact (erf) GELU");
    else
        log_info("note: %s changes nothing here: the activation is %s", flag, CONFIG_NAME(model.activation, has));
}

static void validate_mlp(struct config *config, struct complaints *complaints) {
    bool has_rule = config->model.glu_linear_offset != 0 || config->model.activation_func_clamp_value > 0;
    if (has_rule && config->run.fp8_format && config_has_dense_mlps(&config->model) &&
        !config->machine.has_wide_experts)
        complain(complaints, "%s works with --fp8-format only if all MLPs are routed experts; leave one out",
                 config->model.glu_linear_offset != 0 ? "--glu-linear-offset" : "--activation-func-clamp-value");
    validate_gelu(config);
    // Megatron's default for SwiGLU keeps the count of parameters, in multiples of 64.
    int64_t h = config->model.hidden_size;
    if (config->model.ffn_hidden_size == 0)
        config->model.ffn_hidden_size = config->model.swiglu ? (int64_t)((double)(4 * h * 2) / 3 / 64) * 64 : 4 * h;
    if (config->model.ffn_hidden_size == 0 && h > 0)
        complain(complaints,
                 "--hidden-size %" PRId64 " is too small for the default width of SwiGLU; give "
                 "--ffn-hidden-size",
                 h);
}

static void warn_of_groups(const struct config *config) {
    int64_t groups = config->model.num_query_groups, heads = config->model.num_attention_heads;
    bool is_given = flag_source(&config->given, "--num-query-groups") == FLAG_FROM_COMMAND || groups != 1;
    if (is_given && !config->model.group_query_attention && groups != heads)
        log_warn_once("--num-query-groups %" PRId64
                      " has no effect without --group-query-attention: each of the %" PRId64
                      " heads has keys and values of its own",
                      groups, heads);
}

// As in Megatron-LM: another part of selective recompute.
static void resolve_expert_recompute(struct config *config) {
    struct string_list *modules = &config->machine.recompute_modules;
    if (!config->machine.recompute_granularity)
        config->machine.recompute_granularity = memory_string("selective");
    if (modules->count == 0)
        string_list_add(modules, "core_attn");
    for (int64_t i = 0; i < modules->count; i++)
        if (strcmp(modules->items[i], "moe") == 0)
            return;
    string_list_add(modules, "moe");
}

static void validate_recompute(struct config *config, struct complaints *complaints) {
    if (config->machine.moe_layer_recompute)
        resolve_expert_recompute(config);
    static const char *const modules[] = {"core_attn", "mlp_act",        "mlp",        "moe_act", "moe",
                                          "layernorm", "shared_experts", "mla_up_proj"};
    for (int64_t i = 0; i < config->machine.recompute_modules.count; i++) {
        const char *name = config->machine.recompute_modules.items[i];
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
    bool is_full = is(config->machine.recompute_granularity, "full");
    if (is_full && !config->machine.recompute_method)
        config->machine.recompute_method = memory_string("uniform");
    if (is_full && config->machine.recompute_num_layers == 0)
        config->machine.recompute_num_layers = 1;
}

// Latent attention: the size of a head.
static void validate_latent(struct config *config, struct complaints *complaints) {
    int64_t size = config->model.qk_head_dim + config->model.qk_pos_emb_head_dim;
    if (flag_is_given(&config->given, "--kv-channels") && config->model.kv_channels != size)
        log_warn_once("--kv-channels %" PRId64 " has no effect with --multi-latent-attention: --qk-head-dim and "
                      "--qk-pos-emb-head-dim give %" PRId64,
                      config->model.kv_channels, size);
    config->model.kv_channels = size;
    if (config->model.qk_pos_emb_head_dim % 2 != 0)
        complain(complaints, "--qk-pos-emb-head-dim %" PRId64 " is odd, but rotation needs pairs; give an even number",
                 config->model.qk_pos_emb_head_dim);
    if (config_query_groups(&config->model) != config->model.num_attention_heads)
        complain(complaints, "--multi-latent-attention has keys and values for every head; leave out "
                             "--group-query-attention and --num-query-groups");
    if (config->model.yarn_beta_fast < config->model.yarn_beta_slow)
        complain(complaints, "--yarn-beta-fast must not be below --yarn-beta-slow");
    if (config_yarn(&config->model).factor > 1 && config->model.rotary_base < 2)
        complain(complaints, "--rotary-scaling-factor needs a --rotary-base of at least 2");
}

void validate_model(struct config *config, struct complaints *complaints) {
    if (config->model.num_layers == 0)
        config->model.num_layers = config->model.encoder_num_layers;
    const struct {
        const char *flag;
        int64_t value;
    } needed[] = {{"--num-layers", config->model.num_layers},
                  {"--hidden-size", config->model.hidden_size},
                  {"--num-attention-heads", config->model.num_attention_heads}};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i].value == 0)
            complain(complaints, "%s is missing; give it, a --preset, or --load with --use-checkpoint-args",
                     needed[i].flag);
    if (config->model.multi_latent_attention)
        validate_latent(config, complaints);
    int64_t h = config->model.hidden_size, heads = config->model.num_attention_heads,
            groups = config_query_groups(&config->model);
    if (config->model.kv_channels == 0 && heads > 0 && h % heads != 0)
        complain(complaints,
                 "--hidden-size %" PRId64 " is not a multiple of --num-attention-heads %" PRId64
                 "; nearest: --num-attention-heads %" PRId64 " or --hidden-size %" PRId64 "; or give --kv-channels",
                 h, heads, nearest_divisor(h, heads), nearest_multiple(h, heads));
    if (config->model.kv_channels == 0 && heads > 0)
        config->model.kv_channels = h / heads;
    if (config->model.embedding_multiplier == 0)
        config->model.embedding_multiplier = h > 0 ? sqrt((double)h) : 1;
    if (groups > 0 && heads % groups != 0)
        complain(complaints,
                 "--num-attention-heads %" PRId64 " is not a multiple of --num-query-groups %" PRId64
                 "; nearest: --num-query-groups %" PRId64,
                 heads, groups, nearest_divisor(heads, groups));
    warn_of_groups(config);
    if (config->model.word_embedding_size == h)
        config->model.word_embedding_size = 0;
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
