// Decoders with latent attention and mixtures of experts: DeepSeek-V2 and V3, Kimi-K2 and
// GLM-4.7-Flash; and Youtu-LLM, which has no experts. See hf_family.h.
#include "formats/hf_tables_rotary.h"

#define LAYERS                                                                                                         \
    SAME("embedding.word_embeddings", "model.embed_tokens"), SAME(OURS "input_layernorm", LLAMA "input_layernorm"),    \
        SAME(OURS "self_attention.linear_q_down_proj", LLAMA "self_attn.q_a_proj"),                                    \
        SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_a_layernorm"),                                      \
        SAME(OURS "self_attention.linear_q_up_proj", LLAMA "self_attn.q_b_proj"),                                      \
        SAME(OURS "self_attention.linear_q_proj", LLAMA "self_attn.q_proj"),                                           \
        SAME(OURS "self_attention.linear_kv_down_proj", LLAMA "self_attn.kv_a_proj_with_mqa"),                         \
        SAME(OURS "self_attention.kv_layernorm", LLAMA "self_attn.kv_a_layernorm"),                                    \
        SAME(OURS "self_attention.linear_kv_up_proj", LLAMA "self_attn.kv_b_proj"),                                    \
        SAME(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),                                             \
        SAME(OURS "pre_mlp_layernorm", LLAMA "post_attention_layernorm"),                                              \
        SAME("decoder.final_layernorm", "model.norm"), SAME("output_layer", "lm_head")
// Without the members that hf_config_latent.c and hf_config_routed.c read and write.
#define LATENT_KEYS(std, epsilon, queries, own, values)                                                                \
    SIZE_KEYS(std), RMS(epsilon), SILU, NUMBER("q_lora_rank", "--q-lora-rank", .fallback = queries, .has_null = true), \
        NUMBER("kv_lora_rank", "--kv-lora-rank", .fallback = "512"),                                                   \
        NUMBER("qk_nope_head_dim", "--qk-head-dim", .fallback = own),                                                  \
        NUMBER("qk_rope_head_dim", "--qk-pos-emb-head-dim", .fallback = "64"),                                         \
        NUMBER("v_head_dim", "--v-head-dim", .fallback = values), ONLY("attention_bias", "false")
#define DEEPSEEK_KEYS LATENT_KEYS("0.02", "1e-06", "1536", "128", "128"), ONLY("moe_layer_freq", "1")
#define ROTATION MAP("rope_interleave", "--latent-rotary-halves", "true=false false=true", .fallback = "true")
static const struct hf_row deepseek_v2_rows[] = {LAYERS, ROUTED_MLPS};
static const struct hf_key deepseek_v2_keys[] = {
    DEEPSEEK_KEYS,
    NUMBER("n_routed_experts", "--num-experts", .fallback = "64"),
    NUMBER("num_experts_per_tok", "--moe-router-topk"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "1407"),
    NUMBER("routed_scaling_factor", "--moe-router-topk-scaling-factor", .fallback = "1"),
    READ_ONLY("mlp_bias", "false"),
    ONLY("scoring_func", "softmax"),
    ONLY("norm_topk_prob", "false"),
};
static const struct hf_row deepseek_v3_rows[] = {
    LAYERS,
    ROUTED_MLPS,
    DEPTHS,
    ROUTED_BIAS,
};
static const struct hf_key deepseek_v3_keys[] = {
    DEEPSEEK_KEYS,
    NUMBER("n_routed_experts", "--num-experts", .fallback = "256"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "8"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "2048"),
    NUMBER("routed_scaling_factor", "--moe-router-topk-scaling-factor", .fallback = "2.5"),
    NUMBER("num_nextn_predict_layers", "--mtp-num-layers", .fallback = "0"),
    ROTATION,
    ONLY("scoring_func", "sigmoid"),
    ONLY("norm_topk_prob", "true"),
};
static const struct hf_key glm4_moe_lite_keys[] = {
    LATENT_KEYS("0.02", "1e-05", "768", "192", "256"),
    NUMBER("n_routed_experts", "--num-experts", .fallback = "64"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "4"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "1536"),
    NUMBER("routed_scaling_factor", "--moe-router-topk-scaling-factor", .fallback = "1.8"),
    NUMBER("num_nextn_predict_layers", "--mtp-num-layers", .fallback = "0"),
    ROTATION,
    ONLY("norm_topk_prob", "true"),
};
static const struct hf_row youtu_rows[] = {LAYERS, GATED_MLP};
static const struct hf_key youtu_keys[] = {
    LATENT_KEYS("-", "1e-06", "1536", "128", "128"),
    ROTATION,
    READ_ONLY("mlp_bias", "false"),
};
#define LATENT_FLAGS                                                                                                   \
    {"--model", "gpt"}, {"--normalization", "RMSNorm"}, {"--swiglu", "true"}, {"--disable-bias-linear", "true"},       \
        {"--position-embedding-type", "rope"}, {"--multi-latent-attention", "true"}, {"--qk-layernorm", "true"}, {     \
        "--hidden-dropout", "0"                                                                                        \
    }
static const struct hf_flag youtu_flags[] = {LATENT_FLAGS};
static const struct hf_flag deepseek_v2_flags[] = {LATENT_FLAGS, {"--moe-router-pre-softmax", "true"}};
static const struct hf_flag deepseek_v3_flags[] = {
    LATENT_FLAGS, {"--moe-router-score-function", "sigmoid"}, {"--moe-router-enable-expert-bias", "true"}};

static const char *const ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", LLAMA "embed_tokens.weight",
                                      LLAMA "shared_head.head.weight", NULL};
static const struct hf_flag deepseek_v2_written[] = {{"bos_token_id", "100000"}, {"eos_token_id", "100001"}};
static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}};
static const struct hf_flag deepseek_v3_written[] = {{"bos_token_id", "0"}, {"eos_token_id", "1"}};

static const struct hf_routed deepseek_v2_routed = {
    .shared = 2, .groups = 1, .chosen = 1, .best = 1, .method = "group_limited_greedy", .plain_method = "greedy"};
static const struct hf_routed deepseek_v3_routed = {
    .shared = 1, .groups = 8, .chosen = 4, .best = 2, .method = "noaux_tc"};

static const struct hf_routed glm4_moe_lite_routed = {.shared = 1, .groups = 1, .chosen = 1, .best = 2};

static const struct hf_family families[] = {
    {ROTARY("deepseek_v2", "DeepseekV2ForCausalLM"), .tie = "false", .has_latents = true, .has_fp8_blocks = true,
     .sparse = HF_SPARSE_FIRST, .routed = &deepseek_v2_routed,
     TABLES(deepseek_v2, ignored, deepseek_v2_written, deepseek_v2_flags)},
    {ROTARY("deepseek_v3", "DeepseekV3ForCausalLM"), .tie = "false", .has_latents = true, .has_fp8_blocks = true,
     .sparse = HF_SPARSE_FIRST, .dense_layers = 3, .routed = &deepseek_v3_routed,
     TABLES(deepseek_v3, ignored, deepseek_v3_written, deepseek_v3_flags)},
    // Kimi-K2's config.json names its own program for this model_type; transformers has no class of this name.
    {ROTARY("kimi_k2", "DeepseekV3ForCausalLM"), .tie = "false", .has_latents = true, .has_fp8_blocks = true,
     .sparse = HF_SPARSE_FIRST, .dense_layers = 3, .routed = &deepseek_v3_routed,
     TABLES(deepseek_v3, ignored, deepseek_v3_written, deepseek_v3_flags)},
    {ROTARY("glm4_moe_lite", "Glm4MoeLiteForCausalLM"), .tie = "false", .has_latents = true, .has_fp8_blocks = true,
     .sparse = HF_SPARSE_TYPES, .dense_layers = 1,
     .harmless = "scoring_func=sigmoid topk_method=noaux_tc moe_layer_freq=1", .routed = &glm4_moe_lite_routed,
     .rows = deepseek_v3_rows, .row_count = COUNT(deepseek_v3_rows), .keys = glm4_moe_lite_keys,
     .key_count = COUNT(glm4_moe_lite_keys), .ignored = ignored, .written = no_ids, .written_count = COUNT(no_ids),
     .flags = deepseek_v3_flags, .flag_count = COUNT(deepseek_v3_flags)},
    {ROTARY("youtu", "YoutuForCausalLM"), .tie = "true", .has_latents = true,
     TABLES(youtu, ignored, no_ids, youtu_flags)},
};

struct hf_families hf_families_latent(void) {
    return (struct hf_families){families, COUNT(families)};
}
