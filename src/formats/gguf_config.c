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

static int refuse(const struct gguf_architecture *architecture, const char *what) {
    return error_set("llama.cpp's %s has no %s; export with --to huggingface instead", architecture->name, what);
}

static int check_activation(const struct gguf_architecture *architecture, const struct config *config) {
    OWNED char *wanted = memory_printf("%s%s", CONFIG_NAME(model.activation, config_activation(config)),
                                       config_is_gated(config) ? " gated" : "");
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

// gpt-oss: llama.cpp hardcodes constants, and windows in the first of every two layers.
static int check_windows(const struct gguf_architecture *architecture, const struct config *config) {
    if (gguf_has(architecture, GGUF_BIASES) && config->model.disable_bias_linear)
        return refuse(architecture, "layers without biases (--disable-bias-linear)");
    if (!gguf_has(architecture, GGUF_WINDOWS))
        return 0;
    if (config->model.activation_func_clamp_value != 7 || config->model.glu_linear_offset != 1)
        return refuse(architecture, "--activation-func-clamp-value other than 7 or --glu-linear-offset other than 1");
    for (int64_t i = 0; i < config->model.num_layers; i++)
        if ((config_layer_window(config, i) > 0) != (i % 2 == 0))
            return refuse(architecture, "windows in other layers than the first of every two "
                                        "(--window-attn-skip-freq 2)");
    return 0;
}

// ggml rounds YaRN's correction range to whole channels.
static void tell_yarn(const struct config *config) {
    if (is_scaled(config, ROPE_SCALING_YARN) && config->model.no_yarn_correction_range_round_to_int &&
        !needs_factors(config))
        log_info("note: llama.cpp rounds the channels between which YaRN sets in, and this model does not "
                 "(--no-yarn-correction-range-round-to-int), so its logits will differ slightly");
}

static int check_rope(const struct gguf_architecture *architecture, const struct config *config) {
    if (!gguf_has(architecture, GGUF_ROPE))
        return 0;
    if (config_rotary_channels(config) != config->model.kv_channels && !gguf_has(architecture, GGUF_PARTIAL_ROPE))
        return refuse(architecture, "partial rotary embeddings (--rotary-percent)");
    if (config_has_longrope(config))
        return refuse(architecture, "choice of LongRoPE's factors by the length of a text, as transformers has it");
    if (needs_factors(config) && !gguf_has(architecture, GGUF_ROPE_FACTORS))
        return refuse(architecture, is_scaled(config, ROPE_SCALING_LLAMA3)
                                        ? "--rope-scaling-type llama3"
                                        : "YaRN with values other than the defaults");
    return 0;
}

// The family already excludes layers, scores and shared experts that llama.cpp lacks.
static int check_routed(const struct gguf_architecture *architecture, const struct config *config) {
    return config->model.moe_router_num_groups > 1 && config_group_best(config) != 2
               ? refuse(architecture, "groups of experts that are judged otherwise than by their two best "
                                      "(--moe-router-group-best)")
               : 0;
}

// llama.cpp scales scores by YaRN as DeepSeek's models do, and recognizes DeepSeek-V2-Lite and its like, whose queries
// have no latents, by the number of layers.
static int check_latents(const struct gguf_architecture *architecture, const struct config *config) {
    struct config_yarn yarn = config_yarn(config);
    bool is_usual = yarn.fast == 32 && yarn.slow == 1 && config->model.mscale == config->model.mscale_all_dim &&
                    config->model.mscale > 0;
    int64_t layers = config->model.num_layers;
    bool is_lite = layers == 26 || layers == 27 || (layers == 48 && config->model.padded_vocab_size == 128256);
    if (!gguf_has(architecture, GGUF_LATENTS))
        return 0;
    if (config->model.latent_rotary_halves)
        return refuse(architecture, "--latent-rotary-halves");
    if (config_latent_epsilon(config) != config->model.norm_epsilon)
        return refuse(architecture, "--latent-norm-epsilon beside another --norm-epsilon");
    if (is_lite && config->model.q_lora_rank > 0)
        return refuse(architecture, "--q-lora-rank in a model of 26, 27 or (with 128256 tokens) 48 layers");
    return yarn.factor > 1 && !is_usual
               ? refuse(architecture, "YaRN whose --mscale is not --mscale-all-dim, or with other bounds than 32 and 1")
               : 0;
}

// Each architecture chooses and weights experts in its own way.
static int check_experts(const struct gguf_architecture *architecture, const struct config *config) {
    if (!gguf_has(architecture, GGUF_EXPERTS))
        return 0;
    if (gguf_has(architecture, GGUF_ROUTED))
        return check_routed(architecture, config);
    if (gguf_has(architecture, GGUF_SHARED) && !config->model.moe_shared_expert_gate)
        return refuse(architecture, "shared experts without a gate (--moe-shared-expert-gate)");
    if (config_expert_layers(config) != config->model.num_layers)
        return refuse(architecture, "layers without experts (--moe-layer-freq)");
    if (config->model.moe_router_pre_softmax == gguf_has(architecture, GGUF_SUMS_TO_ONE))
        return refuse(architecture, gguf_has(architecture, GGUF_SUMS_TO_ONE)
                                        ? "weights of experts that do not add up to 1 (--moe-router-pre-softmax)"
                                        : "weights of experts that add up to 1 (without --moe-router-pre-softmax)");
    return 0;
}

int gguf_config_check(const struct gguf_architecture *architecture, const struct config *config) {
    TRY(check_activation(architecture, config));
    TRY(check_experts(architecture, config));
    TRY(check_rope(architecture, config));
    TRY(check_windows(architecture, config));
    TRY(check_latents(architecture, config));
    tell_yarn(config);
    if (config->model.kv_channels * config->model.num_attention_heads != config->model.hidden_size &&
        !gguf_has(architecture, GGUF_WIDE_HEADS))
        return refuse(architecture, "heads whose total width is not --hidden-size (--kv-channels)");
    if (!gguf_has(architecture, GGUF_LATENTS) && config_query_groups(config) != config->model.num_attention_heads &&
        (!gguf_has(architecture, GGUF_GROUPS) || gguf_has(architecture, GGUF_KEY_HEADS)))
        return refuse(architecture, "--num-query-groups");
    if (config->model.disable_bias_linear && config->model.add_attention_bias &&
        !gguf_has(architecture, GGUF_OUTPUT_BIAS))
        return refuse(architecture, "bias in the attention output (--add-attention-bias)");
    bool is_relative = config->model.position_embedding_type == POSITIONS_RELATIVE;
    if (is_relative && config->model.relative_attention_max_distance != RELATIVE_DISTANCE)
        return refuse(architecture, "--relative-attention-max-distance other than 128");
    if (config->model.form == CONFIG_T5 && config_decoder_layers(config) > config_encoder_layers(config))
        return refuse(architecture, "decoder that is deeper than its encoder");
    if (config_encoder_layers(config) > MOST_LAYERS || config_decoder_layers(config) > MOST_LAYERS)
        return refuse(architecture, "more than 512 layers");
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
    return is_of_experts ? config_expert_width(config) : config->model.ffn_hidden_size;
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
    add_number(keys, "rope.dimension_count", config_rotary_channels(config));
    add_real(keys, "rope.freq_base", (double)config->model.rotary_base);
    double attention = config_rope_attention_factor(config);
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
    struct config_yarn yarn = config_yarn(config);
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
               config->model.moe_shared_expert_intermediate_size / config_expert_width(config));
    add_number(keys, "expert_gating_func", is_sigmoid ? 2 : 1);
    add_real(keys, "expert_weights_scale", config_router_factor(config));
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
    int64_t types = config_token_types(config);
    gguf_add_u32(keys->pairs, "tokenizer.ggml.token_type_count", (uint32_t)(types > 0 ? types : 1));
}

void gguf_config_write(const struct gguf_architecture *architecture, const struct config *config, int64_t rows,
                       struct gguf_pairs *pairs) {
    const struct keys keys = {pairs, architecture->name};
    bool is_t5 = config->model.form == CONFIG_T5, is_bert = config->model.form == CONFIG_BERT;
    int64_t layers = is_t5 || is_bert ? config_encoder_layers(config) : config_decoder_layers(config);
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
        add_number(&keys, "expert_feed_forward_length", config_expert_width(config));
    if (gguf_has(architecture, GGUF_SHARED))
        add_number(&keys, "expert_shared_feed_forward_length", config->model.moe_shared_expert_intermediate_size);
    if (gguf_has(architecture, GGUF_WINDOWS))
        add_number(&keys, "attention.sliding_window", config->model.sliding_window);
    if (gguf_has(architecture, GGUF_GROUPS))
        add_number(&keys, "attention.head_count_kv", config_query_groups(config));
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
        add_number(&keys, "decoder_block_count", config_decoder_layers(config));
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
