// Flags to keys of GGUF. See gguf_model.h.
#include "formats/gguf_model.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include "model/model.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_LAYERS = 512, RELATIVE_DISTANCE = 128 };  // constants of llama.cpp

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

static bool is_scaled(const struct config *config, enum rope_scaling type) {
    return config->model.use_rope_scaling && config->model.rope_scaling_type == type;
}

static int check_activation(const struct gguf_architecture *architecture, const struct config *config) {
    OWNED char *wanted = memory_printf("%s%s", CONFIG_NAME(model.activation, config_activation(&config->model)),
                                       config_is_gated(&config->model) ? " gated" : "");
    int result = -1;
    for (const char *const *known = architecture->activations; *known && result < 0; known++)
        result = is(*known, wanted) ? 0 : -1;
    if (result < 0)
        error_set("llama.cpp's %s has no activation %s; export with --to huggingface instead", architecture->name,
                  wanted);
    else if (is(wanted, "gelu"))
        log_info(
            "note: llama.cpp computes the exact GELU with the tanh approximation, which differs in the fourth digit");
    return result;
}

// llama.cpp has YaRN with its default bounds; other frequencies are written pair by pair.
static bool needs_factors(const struct config *config) {
    bool is_usual = config->model.yarn_beta_fast == 32 && config->model.yarn_beta_slow == 1;
    return is_scaled(config, ROPE_SCALING_LLAMA3) ||
           (is_scaled(config, ROPE_SCALING_YARN) &&
            (!is_usual || config->model.rotary_seq_len_interpolation_factor != 1));
}

static bool has_windows_in_turns(const struct config *config) {
    for (int64_t i = 0; i < config->model.num_layers; i++)
        if ((config_layer_window(&config->model, i) > 0) != (i % 2 == 0))
            return false;
    return true;
}

// ggml rounds YaRN's correction range to whole channels.
static void tell_yarn(const struct config *config) {
    if (is_scaled(config, ROPE_SCALING_YARN) && config->model.no_yarn_correction_range_round_to_int &&
        !needs_factors(config))
        log_info("note: llama.cpp rounds the channels between which YaRN sets in, and this model does not "
                 "(--no-yarn-correction-range-round-to-int), so its logits will differ slightly");
}

// What an architecture cannot compute: one with all abilities of `has` and none of `lacks`.
struct limit {
    unsigned has, lacks;
    bool is_there;  // in the model
    const char *what;
};

static int check_limits(const struct gguf_architecture *architecture, const struct config *config) {
    const struct config_model *m = &config->model;
    struct config_yarn yarn = config_yarn(&config->model);
    bool is_usual_yarn = yarn.fast == 32 && yarn.slow == 1 && m->mscale == m->mscale_all_dim && m->mscale > 0;
    // DeepSeek-V2-Lite and its like, whose queries have no latents, are recognized by their number of layers.
    bool is_lite =
        m->num_layers == 26 || m->num_layers == 27 || (m->num_layers == 48 && m->padded_vocab_size == 128256);
    bool has_groups = config_query_groups(&config->model) != m->num_attention_heads;
    const struct limit rows[] = {
        // Each chooses and weights experts in its own way. The family already excludes layers, scores and shared
        // experts that those like DeepSeek lack.
        {GGUF_EXPERTS | GGUF_ROUTED, 0, m->moe_router_num_groups > 1 && config_group_best(&config->model) != 2,
         "groups of experts that are judged otherwise than by their two best (--moe-router-group-best)"},
        {GGUF_EXPERTS | GGUF_SHARED, GGUF_ROUTED, !m->moe_shared_expert_gate,
         "shared experts without a gate (--moe-shared-expert-gate)"},
        {GGUF_EXPERTS, GGUF_ROUTED, m->num_experts > 0 && config_expert_layers(&config->model) != m->num_layers,
         "layers without experts (--moe-layer-freq)"},
        {GGUF_EXPERTS | GGUF_SUMS_TO_ONE, GGUF_ROUTED, m->moe_router_pre_softmax,
         "weights of experts that do not add up to 1 (--moe-router-pre-softmax)"},
        {GGUF_EXPERTS, GGUF_ROUTED | GGUF_SUMS_TO_ONE, !m->moe_router_pre_softmax,
         "weights of experts that add up to 1 (without --moe-router-pre-softmax)"},
        {GGUF_ROPE, GGUF_PARTIAL_ROPE, config_rotary_channels(&config->model) != m->kv_channels,
         "partial rotary embeddings (--rotary-percent)"},
        {GGUF_ROPE, 0, config_has_longrope(&config->model),
         "choice of LongRoPE's factors by the length of a text, as transformers has it"},
        {GGUF_ROPE, GGUF_ROPE_FACTORS, is_scaled(config, ROPE_SCALING_LLAMA3), "--rope-scaling-type llama3"},
        {GGUF_ROPE, GGUF_ROPE_FACTORS, needs_factors(config), "YaRN with values other than the defaults"},
        {GGUF_BIASES, 0, m->disable_bias_linear, "layers without biases (--disable-bias-linear)"},
        // gpt-oss: llama.cpp hardcodes these constants.
        {GGUF_WINDOWS, 0, m->activation_func_clamp_value != 7 || m->glu_linear_offset != 1,
         "--activation-func-clamp-value other than 7 or --glu-linear-offset other than 1"},
        {GGUF_WINDOWS, 0, !has_windows_in_turns(config),
         "windows in other layers than the first of every two (--window-attn-skip-freq 2)"},
        {GGUF_LATENTS, 0, m->latent_rotary_halves, "--latent-rotary-halves"},
        {GGUF_LATENTS, 0, config_latent_epsilon(&config->model) != m->norm_epsilon,
         "--latent-norm-epsilon beside another --norm-epsilon"},
        {GGUF_LATENTS, 0, is_lite && m->q_lora_rank > 0,
         "--q-lora-rank in a model of 26, 27 or (with 128256 tokens) 48 layers"},
        // Scores are scaled by YaRN as in DeepSeek's models.
        {GGUF_LATENTS, 0, yarn.factor > 1 && !is_usual_yarn,
         "YaRN whose --mscale is not --mscale-all-dim, or with other bounds than 32 and 1"},
        {0, GGUF_WIDE_HEADS, m->kv_channels * m->num_attention_heads != m->hidden_size,
         "heads whose total width is not --hidden-size (--kv-channels)"},
        {0, GGUF_LATENTS | GGUF_GROUPS, has_groups, "--num-query-groups"},
        {GGUF_KEY_HEADS, GGUF_LATENTS, has_groups, "--num-query-groups"},
        {0, GGUF_OUTPUT_BIAS, m->disable_bias_linear && m->add_attention_bias,
         "bias in the attention output (--add-attention-bias)"},
        {0, 0,
         m->position_embedding_type == POSITIONS_RELATIVE && m->relative_attention_max_distance != RELATIVE_DISTANCE,
         "--relative-attention-max-distance other than 128"},
        {0, 0, m->form == CONFIG_T5 && config_decoder_layers(&config->model) > config_encoder_layers(&config->model),
         "decoder that is deeper than its encoder"},
        {0, 0,
         config_encoder_layers(&config->model) > MOST_LAYERS || config_decoder_layers(&config->model) > MOST_LAYERS,
         "more than 512 layers"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if ((architecture->abilities & rows[i].has) == rows[i].has && !(architecture->abilities & rows[i].lacks) &&
            rows[i].is_there)
            return error_set("llama.cpp's %s has no %s; export with --to huggingface instead", architecture->name,
                             rows[i].what);
    return 0;
}

int gguf_config_check(const struct gguf_architecture *architecture, const struct config *config) {
    TRY(check_activation(architecture, config));
    TRY(check_limits(architecture, config));
    tell_yarn(config);
    return 0;
}

// llama.cpp would compute texts longer than the window without one, so the file does not offer them.
static int64_t context_length(const struct gguf_architecture *architecture, const struct config *config) {
    int64_t length = config->model.max_position_embeddings, window = config->model.sliding_window;
    if (gguf_has(architecture, GGUF_WINDOWS) || window == 0 || window >= length)
        return length;
    log_warn("llama.cpp has no sliding window for this model: the file's context length is the window, %" PRId64
             " tokens, instead of %" PRId64,
             window, length);
    return window;
}

// An architecture that only has experts takes it as the experts' width.
static int64_t mlp_width(const struct gguf_architecture *architecture, const struct config *config) {
    bool is_of_experts = gguf_has(architecture, GGUF_EXPERTS) && !gguf_has(architecture, GGUF_DENSE_WIDTH);
    return is_of_experts ? config_expert_width(&config->model) : config->model.ffn_hidden_size;
}

// Keys begin with the name of the architecture.
struct keys {
    struct gguf_pairs *pairs;
    const char *architecture;
};

static void add_number(const struct keys *keys, const char *name, int64_t value) {
    OWNED char *key = memory_printf("%s.%s", keys->architecture, name);
    gguf_add_u32(keys->pairs, key, (uint32_t)value);
}

static void add_real(const struct keys *keys, const char *name, double value) {
    OWNED char *key = memory_printf("%s.%s", keys->architecture, name);
    gguf_add_f32(keys->pairs, key, (float)value);
}

static void add_text(const struct keys *keys, const char *name, const char *value) {
    OWNED char *key = memory_printf("%s.%s", keys->architecture, name);
    gguf_add_string(keys->pairs, key, value, strlen(value));
}

static void add_rope(const struct keys *keys, const struct config *config) {
    add_number(keys, "rope.dimension_count", config_rotary_channels(&config->model));
    add_real(keys, "rope.freq_base", (double)config->model.rotary_base);
    double attention = config_rope_attention_factor(&config->model);
    if (needs_factors(config)) {
        if (attention != 1)
            add_real(keys, "rope.scaling.attn_factor", attention);
    } else if (is_scaled(config, ROPE_SCALING_YARN)) {
        double factor = config->model.rope_scaling_factor, usual = 1 + 0.1 * log(factor);
        add_text(keys, "rope.scaling.type", "yarn");
        add_real(keys, "rope.scaling.factor", factor);
        add_number(keys, "rope.scaling.original_context_length", config->model.rope_original_length);
        // llama.cpp multiplies its default by this factor.
        if (fabs(attention / usual - 1) > 1e-9)
            add_real(keys, "rope.scaling.attn_factor", attention / usual);
    } else if (config->model.rotary_seq_len_interpolation_factor != 1) {
        add_text(keys, "rope.scaling.type", "linear");
        add_real(keys, "rope.scaling.factor", config->model.rotary_seq_len_interpolation_factor);
    }
}

// The cache holds latents and shared key channels, as if of one head; the heads' two sizes have keys of their own.
static void add_latents(const struct keys *keys, const struct config *config) {
    int64_t latent = config->model.kv_lora_rank, shared = config->model.qk_pos_emb_head_dim;
    add_number(keys, "attention.head_count_kv", 1);
    add_number(keys, "attention.q_lora_rank", config->model.q_lora_rank);
    add_number(keys, "attention.kv_lora_rank", latent);
    add_number(keys, "attention.key_length", latent + shared);
    add_number(keys, "attention.value_length", latent);
    add_number(keys, "attention.key_length_mla", config->model.qk_head_dim + shared);
    add_number(keys, "attention.value_length_mla", config->model.v_head_dim);
    struct config_yarn yarn = config_yarn(&config->model);
    if (yarn.factor > 1) {
        add_text(keys, "rope.scaling.type", "yarn");
        add_real(keys, "rope.scaling.factor", yarn.factor);
        add_number(keys, "rope.scaling.original_context_length", (int64_t)yarn.length);
        add_real(keys, "rope.scaling.yarn_log_multiplier", 0.1 * config->model.mscale_all_dim);
    }
}

static void add_routed(const struct keys *keys, const struct config *config) {
    bool is_sigmoid = config->model.moe_router_score_function == ROUTER_SIGMOID;
    add_number(keys, "leading_dense_block_count", hf_dense_layers(config));
    add_number(keys, "expert_shared_count",
               config->model.moe_shared_expert_intermediate_size / config_expert_width(&config->model));
    add_number(keys, "expert_gating_func", is_sigmoid ? 2 : 1);
    add_real(keys, "expert_weights_scale", config_router_factor(&config->model));
    OWNED char *key = memory_printf("%s.expert_weights_norm", keys->architecture);
    gguf_add_bool(keys->pairs, key,
                  is_sigmoid ? config->model.moe_router_topk > 1 : !config->model.moe_router_pre_softmax);
    if (config->model.moe_router_num_groups > 1) {
        add_number(keys, "expert_group_count", config->model.moe_router_num_groups);
        add_number(keys, "expert_group_used_count", config->model.moe_router_group_topk);
    }
}

static void add_encoder(const struct keys *keys, const struct config *config) {
    OWNED char *key = memory_printf("%s.attention.causal", keys->architecture);
    gguf_add_bool(keys->pairs, key, false);
    int64_t types = config_token_types(&config->model);
    gguf_add_u32(keys->pairs, "tokenizer.ggml.token_type_count", (uint32_t)(types > 0 ? types : 1));
}

void gguf_config_write(const struct gguf_architecture *architecture, const struct config *config, int64_t rows,
                       struct gguf_pairs *pairs) {
    const struct keys keys = {pairs, architecture->name};
    bool is_t5 = config->model.form == CONFIG_T5, is_bert = config->model.form == CONFIG_BERT;
    int64_t layers = is_t5 || is_bert ? config_encoder_layers(&config->model) : config_decoder_layers(&config->model);
    gguf_add_string(pairs, "general.architecture", architecture->name, strlen(architecture->name));
    gguf_add_string(pairs, "general.type", "model", 5);
    add_number(&keys, "context_length", context_length(architecture, config));
    add_number(&keys, "embedding_length", config->model.hidden_size);
    add_number(&keys, "block_count", layers);
    add_number(&keys, "feed_forward_length", mlp_width(architecture, config));
    add_number(&keys, "attention.head_count", config->model.num_attention_heads);
    add_number(&keys, "vocab_size", rows);
    if (gguf_has(architecture, GGUF_EXPERTS)) {
        add_number(&keys, "expert_count", config->model.num_experts);
        add_number(&keys, "expert_used_count", config->model.moe_router_topk);
    }
    if (gguf_has(architecture, GGUF_DENSE_WIDTH))
        add_number(&keys, "expert_feed_forward_length", config_expert_width(&config->model));
    if (gguf_has(architecture, GGUF_SHARED))
        add_number(&keys, "expert_shared_feed_forward_length", config->model.moe_shared_expert_intermediate_size);
    if (gguf_has(architecture, GGUF_WINDOWS))
        add_number(&keys, "attention.sliding_window", config->model.sliding_window);
    if (gguf_has(architecture, GGUF_GROUPS))
        add_number(&keys, "attention.head_count_kv", config_query_groups(&config->model));
    if (gguf_has(architecture, GGUF_ROUTED))
        add_routed(&keys, config);
    if (gguf_has(architecture, GGUF_LATENTS))
        add_latents(&keys, config);
    if (gguf_has(architecture, GGUF_WIDE_HEADS) && !gguf_has(architecture, GGUF_LATENTS)) {
        add_number(&keys, "attention.key_length", config->model.kv_channels);
        add_number(&keys, "attention.value_length", config->model.kv_channels);
    }
    add_real(&keys,
             gguf_has(architecture, GGUF_RMS_NORM) ? "attention.layer_norm_rms_epsilon"
                                                   : "attention.layer_norm_epsilon",
             config->model.norm_epsilon);
    if (gguf_has(architecture, GGUF_ROPE))
        add_rope(&keys, config);
    if (is_bert)
        add_encoder(&keys, config);
    if (is_t5) {
        add_number(&keys, "attention.relative_buckets_count", config->model.relative_attention_num_buckets);
        add_number(&keys, "decoder_block_count", config_decoder_layers(&config->model));
    }
}

int64_t gguf_rope_factors(const struct config *config, float *factors) {
    if (config->model.position_embedding_type != POSITIONS_ROPE || !needs_factors(config))
        return 0;
    OWNED_BY(param_list_free) struct param_list params = {0};
    struct model model;
    model_build(&model, &params, &(struct model_options){.config = config, .chunk = {.decoder_count = 1}});
    const struct rope *rope = &model.choices.rope;
    int64_t pairs = rope->pairs;
    for (int64_t j = 0; j < pairs; j++) {
        double plain = pow((double)config->model.rotary_base, -(double)j / (double)pairs);
        factors[j] = (float)(plain / (double)rope->frequencies[j]);
    }
    model_free(&model);
    return pairs;
}

float gguf_output_scale(const struct config *config) {
    bool is_scaled_down = config->model.form == CONFIG_T5 && config->model.scale_tied_output;
    return is_scaled_down ? 1 / sqrtf((float)config->model.hidden_size) : 1;
}
