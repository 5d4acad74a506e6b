// GLM-4: dense decoders, whose later releases have norms on both sides of sublayers (glm4), and GLM-4.5's mixtures of
// experts. See hf_family.h.
#include "formats/hf_tables_rotary.h"

// Only queries, keys and values have biases.
#define ATTENTION                                                                                                      \
    SAME("embedding.word_embeddings", "model.embed_tokens"), SAME(OURS "input_layernorm", LLAMA "input_layernorm"),    \
        JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",              \
                    LLAMA "self_attn.v_proj"),                                                                         \
        SAME(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),                                             \
        SAME(OURS "pre_mlp_layernorm", LLAMA "post_attention_layernorm"),                                              \
        SAME("decoder.final_layernorm", "model.norm"), SAME("output_layer", "lm_head")
#define FUSED SAME(OURS "mlp.linear_fc1", LLAMA "mlp.gate_up_proj"), SAME(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj")

static const struct hf_row glm_rows[] = {ATTENTION, FUSED};
static const struct hf_row glm4_rows[] = {
    ATTENTION,
    FUSED,
    SAME(OURS "post_attention_layernorm", LLAMA "post_self_attn_layernorm"),
    SAME(OURS "post_mlp_layernorm", LLAMA "post_mlp_layernorm"),
};
static const struct hf_key glm_keys[] = {
    SIZE_KEYS("0.02"),
    NUMBER("head_dim", "--kv-channels", .fallback = "128"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1.5625e-07"),
    SILU,
    SWITCH("attention_bias", "--add-qkv-bias", .fallback = "true"),
};
#define GLM_FLAGS                                                                                                      \
    {"--model", "gpt"}, {"--normalization", "RMSNorm"}, {"--swiglu", "true"}, {"--disable-bias-linear", "true"},       \
        {"--position-embedding-type", "rope"}, {                                                                       \
        "--hidden-dropout", "0"                                                                                        \
    }
static const struct hf_flag glm_flags[] = {GLM_FLAGS, {"--rotary-interleaved", "true"}};
static const struct hf_flag glm4_flags[] = {GLM_FLAGS, {"--rotary-interleaved", "true"}, {"--norm-placement", "both"}};

// ---- GLM-4.5 ----

// The last layers predict further tokens, as in DeepSeek-V3: see hf_names.h.
static const struct hf_row glm4_moe_rows[] = {
    ATTENTION,
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_norm"),
    SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.k_norm"),
    ROUTED_MLPS,
    ROUTED_BIAS,
    DEPTHS,
};
// Without the members that hf_config_routed.c reads and writes.
static const struct hf_key glm4_moe_keys[] = {
    ROTARY_KEYS("0.02"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    SILU,
    SWITCH("attention_bias", "--add-qkv-bias", .fallback = "false"),
    SWITCH("use_qk_norm", "--qk-layernorm", .fallback = "false"),
    NUMBER("n_routed_experts", "--num-experts", .fallback = "128"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "8"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "1408"),
    NUMBER("routed_scaling_factor", "--moe-router-topk-scaling-factor", .fallback = "1"),
    NUMBER("num_nextn_predict_layers", "--mtp-num-layers", .fallback = "0"),
    ONLY("norm_topk_prob", "true"),
};
static const struct hf_flag glm4_moe_flags[] = {
    GLM_FLAGS, {"--moe-router-score-function", "sigmoid"}, {"--moe-router-enable-expert-bias", "true"}};
static const struct hf_routed glm4_moe_routed = {.shared = 1, .groups = 1, .chosen = 1, .best = 2};

static const char *const ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", LLAMA "embed_tokens.weight",
                                      LLAMA "shared_head.head.weight", NULL};
static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}};

static const struct hf_family families[] = {
    {ROTARY("glm", "GlmForCausalLM"), .tie = "false", .groups = "2", .rotary_part = "0.5",
     TABLES(glm, ignored, no_ids, glm_flags)},
    {ROTARY("glm4", "Glm4ForCausalLM"), .tie = "false", .groups = "2", .rotary_part = "0.5", .rows = glm4_rows,
     .row_count = COUNT(glm4_rows), .keys = glm_keys, .key_count = COUNT(glm_keys), .ignored = ignored,
     .written = no_ids, .written_count = COUNT(no_ids), .flags = glm4_flags, .flag_count = COUNT(glm4_flags)},
    {ROTARY("glm4_moe", "Glm4MoeForCausalLM"), .tie = "false", .groups = "8", .rotary_part = "0.5",
     .sparse = HF_SPARSE_FIRST, .dense_layers = 1,
     .harmless = "scoring_func=sigmoid topk_method=noaux_tc moe_layer_freq=1", .routed = &glm4_moe_routed,
     TABLES(glm4_moe, ignored, no_ids, glm4_moe_flags)},
};

struct hf_families hf_families_glm(void) {
    return (struct hf_families){families, COUNT(families)};
}
