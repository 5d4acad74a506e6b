// Decoders with mixtures of experts, and those with latent attention. See hf_family.h.
#include "formats/hf_parts.h"

static const struct hf_row block_sparse[] = {
    SAME(OURS "mlp.router", LLAMA "block_sparse_moe.gate"),
    ROW(OURS "mlp.router.expert_bias", HF_SAME, LLAMA "block_sparse_moe.e_score_correction_bias"),
    EXPERTS(LLAMA "block_sparse_moe.experts.*.", "w1", "w3", "w2"),
    {0},
};
#define ALL_EXPERTS LLAMA "mlp.experts."
static const struct hf_row gpt_oss_rows[] = {
    ROW(OURS "self_attention.softmax_offset", HF_SAME, LLAMA "self_attn.sinks"),
    SAME_BIAS(OURS "mlp.router", LLAMA "mlp.router"),
    ROW(OURS "mlp.experts.linear_fc1.weight", HF_PAIRS_TRANSPOSE, ALL_EXPERTS "gate_up_proj"),
    ROW(OURS "mlp.experts.linear_fc1.bias", HF_PAIRS, ALL_EXPERTS "gate_up_proj_bias"),
    ROW(OURS "mlp.experts.linear_fc2.weight", HF_TRANSPOSE, ALL_EXPERTS "down_proj"),
    ROW(OURS "mlp.experts.linear_fc2.bias", HF_SAME, ALL_EXPERTS "down_proj_bias"),
    ROW(OURS "mlp.experts.linear_fc1.weight", HF_MXFP4_PAIRS, ALL_EXPERTS "gate_up_proj_blocks",
        ALL_EXPERTS "gate_up_proj_scales"),
    ROW(OURS "mlp.experts.linear_fc2.weight", HF_MXFP4, ALL_EXPERTS "down_proj_blocks", ALL_EXPERTS "down_proj_scales"),
    {0},
};
static const struct hf_row granite_rows[] = {
    SAME(OURS "mlp.router", LLAMA "block_sparse_moe.router.layer"),
    SAME(OURS "mlp.experts.linear_fc1", LLAMA "block_sparse_moe.input_linear"),
    SAME(OURS "mlp.experts.linear_fc2", LLAMA "block_sparse_moe.output_linear"),
    SAME(OURS "mlp.shared_experts.linear_fc1", LLAMA "shared_mlp.input_linear"),
    SAME(OURS "mlp.shared_experts.linear_fc2", LLAMA "shared_mlp.output_linear"),
    {0},
};
static const struct hf_flag mixtral_ids[] = {{"bos_token_id", "1"}, {"eos_token_id", "2"}, {0}};
#define GRANITE(type, class)                                                                                           \
    ROTARY(type, class), .harmless = "position_embedding_type=rope", ROWS(hf_attention, hf_mlp_norm, granite_rows),    \
                         FLAGS(hf_llama, hf_no_dropout),                                                               \
                         DEFAULTS({"num_local_experts", "8"}, {"num_experts_per_tok", "2"})

const struct hf_family hf_family_experts[] = {
    {ROTARY("mixtral", "MixtralForCausalLM"), .written = mixtral_ids, ROWS(hf_attention, hf_mlp_norm, block_sparse),
     KEYS(hf_sizes, hf_expert_width, hf_head_width, hf_rms, hf_window, hf_local_experts, hf_per_token),
     DEFAULTS({"num_key_value_heads", "8"}, {"rope_theta", "1000000"}, {"rms_norm_eps", "1e-05"},
              {"sliding_window", "0"}, {"num_local_experts", "8"}, {"num_experts_per_tok", "2"}),
     FLAGS(hf_llama, hf_no_dropout)},
    // transformers 5 writes the second name of the number of experts and reads both; other programs read the first.
    {ROTARY("qwen3_moe", "Qwen3MoeForCausalLM"), .window_switch = HF_WINDOWS_ALL, .sparse = HF_SPARSE_STEP,
     .experts = "128", .harmless = "qkv_bias=false use_qk_norm=true shared_expert_intermediate_size=0",
     ROWS(hf_attention, hf_mlp_norm, hf_head_norms, hf_experts, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias, hf_num_experts, hf_local_experts,
          hf_per_token, hf_moe_width, hf_sums_to_one),
     DEFAULTS({"num_key_value_heads", "4"}, {"num_experts", "-"}, {"num_local_experts", "-"},
              {"num_experts_per_tok", "8"}, {"moe_intermediate_size", "768"}),
     FLAGS(hf_llama, hf_normed_heads, hf_no_dropout)},
    {ROTARY("qwen2_moe", "Qwen2MoeForCausalLM"), .window_switch = HF_WINDOWS_EARLY, .sparse = HF_SPARSE_STEP,
     ROWS(hf_attention, hf_mlp_norm, hf_experts, hf_gated_mlp,
          OWN_ROWS(GATED(OURS "mlp.shared_experts.linear_fc1", LLAMA "mlp.shared_expert.gate_proj",
                         LLAMA "mlp.shared_expert.up_proj"),
                   SAME(OURS "mlp.shared_experts.linear_fc2", LLAMA "mlp.shared_expert.down_proj"),
                   ROW(OURS "mlp.shared_experts.gate_weight", HF_SAME, LLAMA "mlp.shared_expert_gate.weight"))),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms,
          OWN_KEYS(SWITCH("qkv_bias", "--add-qkv-bias", .fallback = "true")), hf_num_experts, hf_per_token,
          hf_moe_width,
          OWN_KEYS(
              NUMBER("shared_expert_intermediate_size", "--moe-shared-expert-intermediate-size", .fallback = "5632")),
          hf_sums_to_one),
     DEFAULTS({"num_key_value_heads", "16"}, {"num_experts", "60"}, {"num_experts_per_tok", "4"},
              {"moe_intermediate_size", "1408"}),
     FLAGS(hf_llama, OWN_FLAGS({"--moe-shared-expert-gate", "true"}), hf_no_dropout)},
    {ROTARY("gpt_oss", "GptOssForCausalLM"), .window_freq = "2", .needs_window = true, .has_mxfp4 = true,
     .harmless = "experts_per_token initial_context_length", .needs_rope_scaling = true,
     ROWS(hf_attention, hf_mlp_norm, gpt_oss_rows),
     KEYS(hf_sizes, hf_expert_width, hf_head_width, hf_rms,  // SiLU in name only: see the flags
          hf_window, hf_local_experts, hf_per_token,
          OWN_KEYS(NUMBER("swiglu_limit", "--activation-func-clamp-value", .fallback = "7"),
                   READ_ONLY("swiglu_alpha", "1.702"),
                   MAP("attention_bias", "--disable-bias-linear/--add-mlp-bias", "true=false/false false=true/true",
                       .fallback = "true"))),
     DEFAULTS({"num_key_value_heads", "8"}, {"rope_theta", "150000"}, {"head_dim", "64"}, {"rms_norm_eps", "1e-05"},
              {"sliding_window", "128"}, {"num_local_experts", "128"}, {"num_experts_per_tok", "4"}),
     FLAGS(hf_rotary,
           OWN_FLAGS({"--normalization", "RMSNorm"}, {"--activation", "quick_gelu"}, {"--gated-linear-unit", "true"},
                     {"--glu-linear-offset", "1"}, {"--softmax-type", "learnable"}),
           hf_no_dropout)},
    {GRANITE("granitemoe", "GraniteMoeForCausalLM"),
     KEYS(hf_sizes, hf_expert_width, hf_rms, hf_multipliers, hf_local_experts, hf_per_token)},
    {GRANITE("granitemoeshared", "GraniteMoeSharedForCausalLM"),
     KEYS(hf_sizes, hf_expert_width, hf_rms, hf_multipliers, hf_local_experts, hf_per_token,
          OWN_KEYS(NUMBER("shared_intermediate_size", "--moe-shared-expert-intermediate-size", .fallback = "0",
                          .has_none = true)))},
    {ROTARY("olmoe", "OlmoeForCausalLM"), ROWS(hf_attention, hf_mlp_norm, hf_head_norms, hf_experts),
     KEYS(hf_sizes, hf_expert_width, hf_rms, hf_attention_bias, OWN_KEYS(READ_ONLY("clip_qkv", "null")), hf_num_experts,
          hf_per_token, hf_sums_to_one),
     DEFAULTS({"rms_norm_eps", "1e-05"}, {"num_experts", "64"}, {"num_experts_per_tok", "8"}),
     FLAGS(hf_llama, hf_all_heads, hf_no_dropout)},
    {0},
};

// ---- latent attention ----

static const char *const depth_buffers[] = {LLAMA "self_attn.rotary_emb.inv_freq", LLAMA "embed_tokens.weight",
                                            LLAMA "shared_head.head.weight", NULL};
static const struct hf_flag deepseek_v2_ids[] = {{"bos_token_id", "100000"}, {"eos_token_id", "100001"}, {0}};
static const struct hf_flag deepseek_v3_ids[] = {{"bos_token_id", "0"}, {"eos_token_id", "1"}, {0}};
static const struct hf_flag latent_flags[] = {{"--multi-latent-attention", "true"}, {"--qk-layernorm", "true"}, {0}};
// GLM's classes fix what DeepSeek's configurations say.
static const char fixed_router[] = "scoring_func=sigmoid topk_method=noaux_tc moe_layer_freq=1";
#define DEEPSEEK_V3(type)                                                                                              \
    ROTARY(type, "DeepseekV3ForCausalLM"),                                                                             \
        .has_latents = true, .has_fp8_blocks = true, .sparse = HF_SPARSE_FIRST, .group_best = 2,                       \
        .topk_method = "noaux_tc", .ignored = depth_buffers, .written = deepseek_v3_ids,                               \
        ROWS(hf_latents, hf_attention, hf_mlp_norm, hf_gated_mlp, hf_experts, hf_router_bias, hf_shared_experts,       \
             hf_depths),                                                                                               \
        KEYS(hf_sizes, hf_mlp_width, hf_rms, hf_latent_keys, OWN_KEYS(ONLY("moe_layer_freq", "1")), hf_routed_experts, \
             hf_per_token, hf_moe_width, hf_router_factor, hf_depth_count, hf_latent_rotation,                         \
             OWN_KEYS(ONLY("scoring_func", "sigmoid")), hf_always_one),                                                \
        DEFAULTS({"n_routed_experts", "256"}, {"num_experts_per_tok", "8"}, {"moe_intermediate_size", "2048"},         \
                 {"routed_scaling_factor", "2.5"}, {"first_k_dense_replace", "3"}, {"n_shared_experts", "1"},          \
                 {"n_group", "8"}, {"topk_group", "4"}),                                                               \
        FLAGS(hf_llama, latent_flags, hf_no_dropout, hf_biased_router)

const struct hf_family hf_family_latent[] = {
    {ROTARY("deepseek_v2", "DeepseekV2ForCausalLM"), .has_latents = true, .has_fp8_blocks = true,
     .sparse = HF_SPARSE_FIRST, .group_best = 1, .topk_method = "group_limited_greedy", .plain_method = "greedy",
     .ignored = depth_buffers, .written = deepseek_v2_ids,
     ROWS(hf_latents, hf_attention, hf_mlp_norm, hf_gated_mlp, hf_experts, hf_router_bias, hf_shared_experts),
     KEYS(hf_sizes, hf_mlp_width, hf_rms, hf_latent_keys, OWN_KEYS(ONLY("moe_layer_freq", "1")), hf_routed_experts,
          hf_per_token, hf_moe_width, hf_router_factor,
          OWN_KEYS(READ_ONLY("mlp_bias", "false"), ONLY("scoring_func", "softmax"), ONLY("norm_topk_prob", "false"))),
     DEFAULTS({"n_routed_experts", "64"}, {"moe_intermediate_size", "1407"}, {"first_k_dense_replace", "0"},
              {"n_shared_experts", "2"}, {"n_group", "1"}, {"topk_group", "1"}),
     FLAGS(hf_llama, latent_flags, hf_no_dropout, OWN_FLAGS({"--moe-router-pre-softmax", "true"}))},
    {DEEPSEEK_V3("deepseek_v3")},
    // Kimi-K2's config.json names its own program for this model_type; transformers has no class of this name.
    {DEEPSEEK_V3("kimi_k2")},
    {ROTARY("glm4_moe_lite", "Glm4MoeLiteForCausalLM"), .has_latents = true, .has_fp8_blocks = true,
     .sparse = HF_SPARSE_TYPES, .group_best = 2, .harmless = fixed_router, .ignored = depth_buffers,
     .written = hf_no_ids,
     ROWS(hf_latents, hf_attention, hf_mlp_norm, hf_gated_mlp, hf_experts, hf_router_bias, hf_shared_experts,
          hf_depths),
     KEYS(hf_sizes, hf_mlp_width, hf_rms, hf_latent_keys, hf_routed_experts, hf_per_token, hf_moe_width,
          hf_router_factor, hf_depth_count, hf_latent_rotation, hf_always_one),
     DEFAULTS({"rms_norm_eps", "1e-05"}, {"q_lora_rank", "768"}, {"qk_nope_head_dim", "192"}, {"v_head_dim", "256"},
              {"n_routed_experts", "64"}, {"num_experts_per_tok", "4"}, {"moe_intermediate_size", "1536"},
              {"routed_scaling_factor", "1.8"}, {"first_k_dense_replace", "1"}, {"n_shared_experts", "1"},
              {"n_group", "1"}, {"topk_group", "1"}),
     FLAGS(hf_llama, latent_flags, hf_no_dropout, hf_biased_router)},
    // No experts.
    {ROTARY("youtu", "YoutuForCausalLM"), .tie = HF_TIED, .has_latents = true, .ignored = depth_buffers,
     .written = hf_no_ids, ROWS(hf_latents, hf_attention, hf_mlp_norm, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_rms, hf_latent_keys, hf_latent_rotation, OWN_KEYS(READ_ONLY("mlp_bias", "false"))),
     DEFAULTS({"initializer_range", "-"}), FLAGS(hf_llama, latent_flags, hf_no_dropout)},
    {0},
};

const struct hf_family hf_family_glm_moe[] = {
    {ROTARY("glm4_moe", "Glm4MoeForCausalLM"), .sparse = HF_SPARSE_FIRST, .group_best = 2, .harmless = fixed_router,
     .ignored = depth_buffers,
     ROWS(hf_attention, hf_mlp_norm, hf_head_norms, hf_gated_mlp, hf_experts, hf_router_bias, hf_shared_experts,
          hf_depths),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_qkv_bias,
          OWN_KEYS(SWITCH("use_qk_norm", "--qk-layernorm", .fallback = "false")), hf_routed_experts, hf_per_token,
          hf_moe_width, hf_router_factor, hf_depth_count, hf_always_one),
     DEFAULTS({"num_key_value_heads", "8"}, {"partial_rotary_factor", "0.5"}, {"rms_norm_eps", "1e-05"},
              {"n_routed_experts", "128"}, {"num_experts_per_tok", "8"}, {"moe_intermediate_size", "1408"},
              {"first_k_dense_replace", "1"}, {"n_shared_experts", "1"}, {"n_group", "1"}, {"topk_group", "1"}),
     FLAGS(hf_llama, hf_no_dropout, hf_biased_router)},
    {0},
};

// ---- routers like DeepSeek-V3's; and FlexOlmo and Mellum, with those of OLMoE and Qwen ----

// Members for multi-token prediction layers, which transformers leaves out as well.
#define MTP                                                                                                            \
    "mtp_layer_types mtp_mlp_layer_types num_nextn_predict_layers use_mtp num_mtp_modules mtp_transformer_layers "     \
    "mtp_loss_scaling_factor mtp_share_layers"

const struct hf_family hf_family_routed[] = {
    {ROTARY("dots1", "Dots1ForCausalLM"), .window_freq = "1", .sparse = HF_SPARSE_FIRST, .group_best = 2,
     .harmless = "scoring_func=noaux_tc scoring_func=sigmoid topk_method=noaux_tc moe_layer_freq=1",
     ROWS(hf_attention, hf_mlp_norm, hf_head_norms, hf_gated_mlp, hf_experts, hf_router_bias, hf_shared_experts),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias, hf_window, hf_routed_experts, hf_per_token,
          hf_moe_width, hf_router_factor, OWN_KEYS(MAP("norm_topk_prob", NULL, "true=", .fallback = "false"))),
     DEFAULTS({"num_key_value_heads", "32"}, {"max_window_layers", "62"}, {"moe_intermediate_size", "1408"},
              {"first_k_dense_replace", "0"}, {"n_shared_experts", "0"}, {"n_group", "1"}, {"topk_group", "1"}),
     FLAGS(hf_llama, hf_no_dropout, hf_biased_router, hf_normed_heads)},
    {ROTARY("solar_open", "SolarOpenForCausalLM"), .group_best = 2,
     .harmless = "intermediate_size first_k_dense_replace=0 scoring_func=sigmoid topk_method=noaux_tc",
     ROWS(hf_attention, hf_mlp_norm, hf_gated_mlp, hf_experts, hf_router_bias, hf_shared_experts),
     KEYS(hf_sizes, hf_head_width, hf_rms, hf_qkv_bias, hf_routed_experts, hf_per_token,
          OWN_KEYS(NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size/--ffn-hidden-size", .fallback = "1280")),
          hf_router_factor, hf_always_one),
     DEFAULTS({"num_key_value_heads", "8"}, {"rope_theta", "1000000"}, {"head_dim", "128"}, {"rms_norm_eps", "1e-05"},
              {"n_routed_experts", "128"}, {"num_experts_per_tok", "8"}, {"n_shared_experts", "1"}, {"n_group", "1"},
              {"topk_group", "1"}),
     FLAGS(hf_llama, hf_no_dropout, hf_biased_router)},
    // The last keys are in the released configurations, but not read by transformers.
    {ROTARY("minimax_m2", "MiniMaxM2ForCausalLM"), .rotary_channels_key = "rotary_dim", .has_fp8_blocks = true,
     .harmless = MTP " mlp_intermediate_size shared_moe_mode attn_type_list layernorm_full_attention_beta=1.0 "
                     "layernorm_linear_attention_beta=1.0 layernorm_mlp_beta=1.0 "
                     "layernorm_full_attention_alpha=1.0 layernorm_linear_attention_alpha=1.0 layernorm_mlp_alpha=1.0",
     ROWS(hf_attention, hf_mlp_norm, hf_head_norms, block_sparse),
     KEYS(hf_sizes, hf_expert_width, hf_head_width, hf_rms, hf_local_experts, hf_per_token,
          OWN_KEYS(READ_ONLY("scoring_func", "sigmoid"), READ_ONLY("qk_norm_type", "per_layer"),
                   READ_ONLY("use_qk_norm", "true"), READ_ONLY("use_routing_bias", "true"),
                   READ_ONLY("shared_intermediate_size", "0"))),
     DEFAULTS({"num_key_value_heads", "8"}, {"partial_rotary_factor", "1"}, {"rope_theta", "5000000"},
              {"head_dim", "128"}, {"num_local_experts", "256"}, {"num_experts_per_tok", "8"}),
     FLAGS(hf_llama, hf_no_dropout, hf_biased_router, hf_all_heads)},
    {ROTARY("flex_olmo", "FlexOlmoForCausalLM"), ROWS(hf_attention, hf_head_norms, hf_result_norms, hf_experts),
     KEYS(hf_sizes, hf_expert_width, hf_head_width, hf_rms, hf_attention_bias, hf_num_experts, hf_per_token,
          hf_sums_to_one),
     DEFAULTS({"rope_theta", "500000"}, {"num_experts", "7"}, {"num_experts_per_tok", "5"}),
     FLAGS(hf_llama, hf_no_dropout, OWN_FLAGS({"--norm-placement", "output"}), hf_all_heads)},
    {ROTARY("mellum", "MellumForCausalLM"), .window_freq = "1", .needs_window = true, .harmless = MTP,
     .has_nested_rope = true, .has_no_flat_rope = true, .sparse = HF_SPARSE_TYPES, .experts = "64", .left_out = "mtp.",
     ROWS(hf_attention, hf_mlp_norm, hf_head_norms, hf_experts, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias, hf_window, hf_local_experts, hf_num_experts,
          hf_per_token, hf_moe_width, hf_sums_to_one),
     DEFAULTS({"num_key_value_heads", "4"}, {"rope_theta", "500000"}, {"rope_local_base_freq", "10000"},
              {"head_dim", "128"}, {"sliding_window", "1024"}, {"num_experts", "-"}, {"num_local_experts", "-"},
              {"num_experts_per_tok", "8"}, {"moe_intermediate_size", "896"}, {"norm_topk_prob", "true"}),
     FLAGS(hf_llama, hf_no_dropout, hf_normed_heads)},
    // K-EXAONE.
    {ROTARY("exaone_moe", "ExaoneMoeForCausalLM"), .window_freq = "4", .needs_window = true,
     .has_whole_without_rope = true, .has_rope_without_windows = true, .sparse = HF_SPARSE_TYPES, .group_best = 2,
     .shared_key = "num_shared_experts", .left_out = "mtp.",
     .harmless =
         MTP " first_last_k_dense_replace=1 is_moe_layer scoring_func=sigmoid topk_method=noaux_tc moe_layer_freq=1",
     ROWS(OWN_ROWS(ROW(OURS "mlp.router.expert_bias", HF_SAME, LLAMA "mlp.e_score_correction_bias")), hf_attention,
          hf_mlp_norm, hf_head_norms, hf_gated_mlp, hf_experts, hf_shared_experts),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_window, hf_num_experts, hf_per_token, hf_moe_width,
          hf_router_factor, hf_always_one),
     DEFAULTS({"num_key_value_heads", "32"}, {"rms_norm_eps", "1e-05"}, {"num_experts", "64"},
              {"num_experts_per_tok", "8"}, {"moe_intermediate_size", "1024"}, {"routed_scaling_factor", "2.5"},
              {"first_k_dense_replace", "1"}, {"n_shared_experts", "1"}, {"n_group", "1"}, {"topk_group", "1"}),
     FLAGS(hf_llama, hf_no_dropout, hf_biased_router, hf_normed_heads)},
    {0},
};
