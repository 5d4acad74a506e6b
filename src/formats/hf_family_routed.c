// More decoders with mixtures of experts: those whose routers are DeepSeek-V3's, and FlexOlmo and Mellum, whose routers
// are OLMoE's and Qwen's. See hf_family.h.
#include "formats/hf_tables_rotary.h"

#define AROUND                                                                                                         \
    SAME("embedding.word_embeddings", "model.embed_tokens"), SAME("decoder.final_layernorm", "model.norm"),            \
        SAME("output_layer", "lm_head")
#define ATTENTION                                                                                                      \
    JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",                  \
                LLAMA "self_attn.v_proj"),                                                                             \
        SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj")
#define LAYERS LLAMA_ATTENTION

#define RMS_FLAGS                                                                                                      \
    {"--model", "gpt"}, {"--normalization", "RMSNorm"}, {"--swiglu", "true"}, {"--disable-bias-linear", "true"},       \
        {"--position-embedding-type", "rope"}, {                                                                       \
        "--hidden-dropout", "0"                                                                                        \
    }
#define BIASED_ROUTER                                                                                                  \
    {"--moe-router-score-function", "sigmoid"}, {                                                                      \
        "--moe-router-enable-expert-bias", "true"                                                                      \
    }
// The width if every layer has experts.
#define EXPERT_WIDTH NUMBER("intermediate_size", "--moe-ffn-hidden-size/--ffn-hidden-size")

// ---- dots.llm1 ----

static const struct hf_row dots1_rows[] = {LAYERS, HEAD_NORMS, ROUTED_MLPS, ROUTED_BIAS};
static const struct hf_key dots1_keys[] = {
    ROTARY_KEYS("0.02"),
    RMS("1e-06"),
    SILU,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
    NUMBER("n_routed_experts", "--num-experts"),
    NUMBER("num_experts_per_tok", "--moe-router-topk"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "1408"),
    NUMBER("routed_scaling_factor", "--moe-router-topk-scaling-factor", .fallback = "1"),
    MAP("norm_topk_prob", NULL, "true=", .fallback = "false"),
};
static const struct hf_flag dots1_flags[] = {RMS_FLAGS, BIASED_ROUTER, {"--qk-layernorm", "true"}};
static const struct hf_routed dots1_routed = {.shared = 0, .groups = 1, .chosen = 1, .best = 2};

// ---- Solar Open ----

static const struct hf_row solar_open_rows[] = {LAYERS, ROUTED_MLPS, ROUTED_BIAS};
static const struct hf_key solar_open_keys[] = {
    WIDTH_KEYS("0.02"),
    NUMBER("head_dim", "--kv-channels", .fallback = "128"),
    RMS("1e-05"),
    SILU,
    SWITCH("attention_bias", "--add-qkv-bias", .fallback = "false"),
    NUMBER("n_routed_experts", "--num-experts", .fallback = "128"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "8"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size/--ffn-hidden-size", .fallback = "1280"),
    NUMBER("routed_scaling_factor", "--moe-router-topk-scaling-factor", .fallback = "1"),
    ONLY("norm_topk_prob", "true"),
};
static const struct hf_flag solar_open_flags[] = {RMS_FLAGS, BIASED_ROUTER};
static const struct hf_routed solar_open_routed = {.shared = 1, .groups = 1, .chosen = 1, .best = 2};

// ---- MiniMax-M2 ----

#define BLOCK_SPARSE LLAMA "block_sparse_moe."
static const struct hf_row minimax_m2_rows[] = {
    LAYERS,
    HEAD_NORMS,
    SAME(OURS "mlp.router", BLOCK_SPARSE "gate"),
    {OURS "mlp.router.expert_bias", HF_SAME, {BLOCK_SPARSE "e_score_correction_bias"}},
    {OURS "mlp.experts.linear_fc1.weight",
     HF_NUMBERED,
     {BLOCK_SPARSE "experts.*.w1.weight", BLOCK_SPARSE "experts.*.w3.weight"}},
    {OURS "mlp.experts.linear_fc2.weight", HF_NUMBERED, {BLOCK_SPARSE "experts.*.w2.weight"}},
};
static const struct hf_key minimax_m2_keys[] = {
    WIDTH_KEYS("0.02"),
    EXPERT_WIDTH,
    NUMBER("head_dim", "--kv-channels", .fallback = "128"),
    RMS("1e-06"),
    SILU,
    NUMBER("num_local_experts", "--num-experts", .fallback = "256"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "8"),
    // In the released configurations, but not read by transformers.
    READ_ONLY("scoring_func", "sigmoid"),
    READ_ONLY("qk_norm_type", "per_layer"),
    READ_ONLY("use_qk_norm", "true"),
    READ_ONLY("use_routing_bias", "true"),
    READ_ONLY("shared_intermediate_size", "0"),
};
static const struct hf_flag minimax_m2_flags[] = {
    RMS_FLAGS, BIASED_ROUTER, {"--qk-layernorm", "true"}, {"--qk-layernorm-all-heads", "true"}};

// ---- FlexOlmo ----

#define EXPERTS                                                                                                        \
    SAME(OURS "mlp.router", LLAMA "mlp.gate"),                                                                         \
        {OURS "mlp.experts.linear_fc1.weight",                                                                         \
         HF_NUMBERED,                                                                                                  \
         {LLAMA "mlp.experts.*.gate_proj.weight", LLAMA "mlp.experts.*.up_proj.weight"}},                              \
    {                                                                                                                  \
        OURS "mlp.experts.linear_fc2.weight", HF_NUMBERED, {                                                           \
            LLAMA "mlp.experts.*.down_proj.weight"                                                                     \
        }                                                                                                              \
    }
#define SUMS_TO_ONE(fallback_value)                                                                                    \
    MAP("norm_topk_prob", "--moe-router-pre-softmax", "true=false false=true", .fallback = fallback_value)
static const struct hf_row flex_olmo_rows[] = {
    AROUND,
    ATTENTION,
    HEAD_NORMS,
    SAME(OURS "post_attention_layernorm", LLAMA "post_attention_layernorm"),
    SAME(OURS "post_mlp_layernorm", LLAMA "post_feedforward_layernorm"),
    EXPERTS,
};
static const struct hf_key flex_olmo_keys[] = {
    WIDTH_KEYS("0.02"),
    EXPERT_WIDTH,
    NUMBER("head_dim", "--kv-channels", .fallback = "-"),
    RMS("1e-06"),
    SILU,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    NUMBER("num_experts", "--num-experts", .fallback = "7"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "5"),
    SUMS_TO_ONE("false"),
};
static const struct hf_flag flex_olmo_flags[] = {
    RMS_FLAGS, {"--norm-placement", "output"}, {"--qk-layernorm", "true"}, {"--qk-layernorm-all-heads", "true"}};

// ---- Mellum ----

static const struct hf_row mellum_rows[] = {
    LAYERS,
    HEAD_NORMS,
    EXPERTS,
    GATED_MLP,
};
static const struct hf_key mellum_keys[] = {
    SIZE_KEYS("0.02"),
    NUMBER("head_dim", "--kv-channels", .fallback = "128"),
    RMS_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    NUMBER("sliding_window", "--sliding-window", .fallback = "1024", .has_null = true),
    NUMBER("num_local_experts", "--num-experts", .fallback = "-"),
    NUMBER("num_experts", "--num-experts", .fallback = "-"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "8"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "896"),
    SUMS_TO_ONE("true"),
};
static const struct hf_flag mellum_flags[] = {RMS_FLAGS, {"--qk-layernorm", "true"}};

// ---- K-EXAONE ----

static const struct hf_row exaone_moe_rows[] = {
    LAYERS, HEAD_NORMS, ROUTED_MLPS, {OURS "mlp.router.expert_bias", HF_SAME, {LLAMA "mlp.e_score_correction_bias"}}};
static const struct hf_key exaone_moe_keys[] = {
    ROTARY_KEYS("0.02"),
    RMS("1e-05"),
    SILU,
    NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
    NUMBER("num_experts", "--num-experts", .fallback = "64"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "8"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "1024"),
    NUMBER("routed_scaling_factor", "--moe-router-topk-scaling-factor", .fallback = "2.5"),
    ONLY("norm_topk_prob", "true"),
};
static const struct hf_routed exaone_moe_routed = {
    .shared = 1, .shared_key = "num_shared_experts", .groups = 1, .chosen = 1, .best = 2};

static const char *const ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", NULL};
static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}};

// Members for multi-token prediction layers, which transformers leaves out as well.
#define MTP                                                                                                            \
    "mtp_layer_types mtp_mlp_layer_types num_nextn_predict_layers use_mtp num_mtp_modules mtp_transformer_layers "     \
    "mtp_loss_scaling_factor mtp_share_layers"
static const struct hf_family families[] = {
    {ROTARY("dots1", "Dots1ForCausalLM"), .tie = "false", .groups = "32", .window_freq = "1", .first_window = 62,
     .sparse = HF_SPARSE_FIRST, .routed = &dots1_routed,
     .harmless = "scoring_func=noaux_tc scoring_func=sigmoid topk_method=noaux_tc moe_layer_freq=1",
     TABLES(dots1, ignored, no_ids, dots1_flags)},
    {ROTARY("solar_open", "SolarOpenForCausalLM"), .tie = "false", .groups = "8", .rotary_base = "1000000",
     .harmless = "intermediate_size first_k_dense_replace=0 scoring_func=sigmoid topk_method=noaux_tc",
     .routed = &solar_open_routed, TABLES(solar_open, ignored, no_ids, solar_open_flags)},
    {ROTARY("minimax_m2", "MiniMaxM2ForCausalLM"), .tie = "false", .groups = "8", .rotary_part = "1",
     .rotary_channels_key = "rotary_dim",
     .harmless = MTP " mlp_intermediate_size shared_moe_mode attn_type_list layernorm_full_attention_beta=1.0 "
                     "layernorm_linear_attention_beta=1.0 layernorm_mlp_beta=1.0 "
                     "layernorm_full_attention_alpha=1.0 layernorm_linear_attention_alpha=1.0 layernorm_mlp_alpha=1.0",
     .rotary_base = "5000000", .has_fp8_blocks = true, TABLES(minimax_m2, ignored, no_ids, minimax_m2_flags)},
    {ROTARY("flex_olmo", "FlexOlmoForCausalLM"), .tie = "false", .rotary_base = "500000",
     TABLES(flex_olmo, ignored, no_ids, flex_olmo_flags)},
    {ROTARY("mellum", "MellumForCausalLM"), .tie = "false", .groups = "4", .rotary_base = "500000", .window_freq = "1",
     .needs_window = true, .local_base = "10000", .harmless = MTP, .has_nested_rope = true, .has_no_flat_rope = true,
     .sparse = HF_SPARSE_TYPES, .experts = "64", .left_out = "mtp.", TABLES(mellum, ignored, no_ids, mellum_flags)},
    {ROTARY("exaone_moe", "ExaoneMoeForCausalLM"),
     .tie = "false",
     .groups = "32",
     .window_freq = "4",
     .needs_window = true,
     .has_whole_without_rope = true,
     .has_rope_without_windows = true,
     .sparse = HF_SPARSE_TYPES,
     .dense_layers = 1,
     .routed = &exaone_moe_routed,
     .harmless =
         MTP " first_last_k_dense_replace=1 is_moe_layer scoring_func=sigmoid topk_method=noaux_tc moe_layer_freq=1",
     .left_out = "mtp.",
     .rows = exaone_moe_rows,
     .row_count = COUNT(exaone_moe_rows),
     .keys = exaone_moe_keys,
     .key_count = COUNT(exaone_moe_keys),
     .ignored = ignored,
     .written = no_ids,
     .written_count = COUNT(no_ids),
     .flags = dots1_flags,
     .flag_count = COUNT(dots1_flags)},
};

struct hf_families hf_families_routed(void) {
    return (struct hf_families){families, COUNT(families)};
}
