// Decoders with Llama's layers, or layers that differ from them in a detail: norms in other places, or an MLP that is
// not gated. See hf_family.h.
#include "formats/hf_parts.h"

static const struct hf_flag llama_ids[] = {{"bos_token_id", "1"}, {"eos_token_id", "2"}, {0}};
#define LIKE_LLAMA(type, class)                                                                                        \
    ROTARY(type, class), .written = llama_ids, ROWS(hf_attention, hf_mlp_norm, hf_head_norms, hf_gated_mlp, hf_fused)

static const struct hf_flag gemma_flags[] = {{"--model", "gpt"},
                                             {"--normalization", "RMSNorm"},
                                             {"--activation", "gelu_tanh"},
                                             {"--gated-linear-unit", "true"},
                                             {"--disable-bias-linear", "true"},
                                             {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"},
                                             {0}};
static const struct hf_flag rms_norm[] = {{"--normalization", "RMSNorm"}, {0}};
static const struct hf_flag output_norms[] = {{"--norm-placement", "output"}, {0}};
static const struct hf_flag norms_around[] = {{"--norm-placement", "both"}, {0}};

const struct hf_family hf_family_rotary[] = {
    {LIKE_LLAMA("llama", "LlamaForCausalLM"), .harmless = "activation=swiglu bias=false qkv_bias=false",
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias, hf_mlp_bias),
     FLAGS(hf_llama, hf_no_dropout)},
    {LIKE_LLAMA("mistral", "MistralForCausalLM"), KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_window),
     DEFAULTS({"num_key_value_heads", "8"}), FLAGS(hf_llama, hf_no_dropout)},
    // Chunked attention is for sequences longer than in training, and transformers lacks it.
    {LIKE_LLAMA("qwen2", "Qwen2ForCausalLM"), .harmless = "dual_chunk_attention_config",
     .window_switch = HF_WINDOWS_LATE, KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms),
     DEFAULTS({"num_key_value_heads", "32"}), FLAGS(hf_llama, OWN_FLAGS({"--add-qkv-bias", "true"}), hf_no_dropout)},
    {LIKE_LLAMA("qwen3", "Qwen3ForCausalLM"), .window_switch = HF_WINDOWS_LATE,
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias),
     DEFAULTS({"num_key_value_heads", "32"}, {"head_dim", "128"}), FLAGS(hf_llama, hf_normed_heads, hf_no_dropout)},
    {ROTARY("phi3", "Phi3ForCausalLM"), .rope_kinds = "default longrope", .has_longrope = true,
     .harmless = "full_attn_mod=1 interpolate_factor=1", ROWS(hf_fused, hf_attention, hf_mlp_norm, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width,
          OWN_KEYS(NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
                   NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0"),
                   NUMBER("sliding_window", "--sliding-window", .fallback = "0", .has_null = true),
                   // Required by llama.cpp's converter.
                   NUMBER("original_max_position_embeddings", "--max-position-embeddings", .is_written = true)),
          hf_silu,
          OWN_KEYS(READ_ONLY("attention_bias", "false"), READ_ONLY("mlp_bias", "false"),
                   READ_ONLY("lm_head_bias", "false"))),
     DEFAULTS({"partial_rotary_factor", "1"}), FLAGS(hf_llama)},
    {ROTARY("starcoder2", "Starcoder2ForCausalLM"), .tie = HF_TIED,
     .harmless = "activation_function=gelu activation_function=@hidden_act layer_norm_epsilon=@norm_epsilon "
                 "scale_attn_weights=true",
     ROWS(hf_attention, hf_mlp_norm,
          OWN_ROWS(SAME_BIAS(OURS "mlp.linear_fc1", LLAMA "mlp.c_fc"),
                   SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.c_proj"))),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width,
          OWN_KEYS(NUMBER("norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
                   NUMBER("residual_dropout", "--hidden-dropout", .fallback = "0"),
                   NUMBER("sliding_window", "--sliding-window", .fallback = "0", .has_null = true),
                   MAP("hidden_act", "--activation",
                       "gelu_pytorch_tanh=gelu_tanh gelu_new=gelu_tanh gelu_fast=gelu_tanh " PLAIN_ACTIVATIONS,
                       .fallback = "gelu_pytorch_tanh")),
          hf_use_bias, OWN_KEYS(READ_ONLY("norm_type", "layer_norm"), READ_ONLY("mlp_type", "default"))),
     DEFAULTS({"num_key_value_heads", "2"}, {"initializer_range", "0.018042"}, {"use_bias", "true"}), FLAGS(hf_rotary)},
    {ROTARY("stablelm", "StableLmForCausalLM"),
     .harmless = "num_heads=@num_attention_heads rope_pct=@partial_rotary_factor norm_eps=@layer_norm_eps "
                 "rotary_scaling_factor=1.0",
     ROWS(
         hf_attention, hf_mlp_norm, hf_gated_mlp,
         OWN_ROWS(
             ROW(OURS "self_attention.q_layernorm.weight", HF_NUMBERED, LLAMA "self_attn.q_layernorm.norms.*.weight"),
             ROW(OURS "self_attention.k_layernorm.weight", HF_NUMBERED, LLAMA "self_attn.k_layernorm.norms.*.weight"))),
     KEYS(hf_sizes, hf_mlp_width, hf_layer_norm,
          OWN_KEYS(NUMBER("hidden_dropout", "--hidden-dropout", .fallback = "0")), hf_silu,
          OWN_KEYS(SWITCH("use_qkv_bias", "--add-qkv-bias", .fallback = "false"),
                   MAP("use_parallel_residual", "--parallel-residual/--parallel-residual-one-norm",
                       "false=false/false true=true/true", .fallback = "false"),
                   MAP("qk_layernorm", "--qk-layernorm/--qk-layernorm-per-head", "false=false/false true=true/true",
                       .fallback = "false"))),
     DEFAULTS({"num_key_value_heads", "32"}, {"partial_rotary_factor", "0.25"}),
     FLAGS(hf_rotary, OWN_FLAGS({"--swiglu", "true"}), hf_no_bias)},
    {ROTARY("nemotron", "NemotronForCausalLM"), .rope_kinds = "default", .has_centered_gains = true,
     .harmless = "rope_percent=@partial_rotary_factor kv_channels=@head_dim",
     ROWS(hf_attention, hf_mlp_norm, hf_plain_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, OWN_KEYS(NUMBER("norm_eps", "--norm-epsilon", .fallback = "1e-05")),
          hf_plain_activation, hf_attention_bias, hf_mlp_bias),
     DEFAULTS({"partial_rotary_factor", "0.5"}, {"initializer_range", "0.0134"}),
     FLAGS(hf_rotary, hf_no_bias, hf_no_dropout)},
    {LIKE_LLAMA("granite", "GraniteForCausalLM"),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_multipliers, OWN_KEYS(ONLY("mlp_bias", "false"))),
     FLAGS(hf_llama, hf_no_dropout)},
    {ROTARY("olmo2", "Olmo2ForCausalLM"), ROWS(hf_attention, hf_head_norms, hf_result_norms, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias), DEFAULTS({"rms_norm_eps", "1e-05"}),
     FLAGS(hf_llama, output_norms, hf_all_heads, hf_no_dropout)},
    {ROTARY("olmo3", "Olmo3ForCausalLM"), .needs_rotary_base = true, .window_freq = "4", .needs_window = true,
     .has_nested_rope = true, ROWS(hf_attention, hf_head_norms, hf_result_norms, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias, hf_window),
     DEFAULTS({"rms_norm_eps", "1e-05"}, {"rope_theta", "500000"}, {"rope_local_base_freq", "500000"}),
     FLAGS(hf_llama, output_norms, hf_all_heads, hf_no_dropout)},
    {ROTARY("smollm3", "SmolLM3ForCausalLM"), .tie = HF_TIED, .harmless = "max_window_layers",
     .has_no_rope_layers = true, ROWS(hf_attention, hf_mlp_norm, hf_head_norms, hf_gated_mlp, hf_fused),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias, hf_mlp_bias,
          OWN_KEYS(ONLY("use_sliding_window", "false"))),
     DEFAULTS({"num_key_value_heads", "4"}, {"rope_theta", "2000000"}), FLAGS(hf_llama, hf_no_dropout)},
    {ROTARY("gemma", "GemmaForCausalLM"), .tie = HF_TIED, .scales_embedding = true, .has_centered_gains = true,
     ROWS(hf_attention, hf_mlp_norm, hf_head_norms, hf_gated_mlp, hf_fused),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width,
          OWN_KEYS(NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-06"),
                   // The first releases write gelu and mean the tanh form; transformers reads it so.
                   MAP("hidden_act", NULL, "gelu_pytorch_tanh= gelu=", .fallback = "gelu_pytorch_tanh"),
                   // Its name in transformers 4, which reads this one first.
                   MAP("hidden_activation", NULL, "gelu_pytorch_tanh=", .fallback = "gelu_pytorch_tanh"),
                   ONLY("attention_bias", "false"), READ_ONLY("use_bidirectional_attention", "false"))),
     DEFAULTS({"num_key_value_heads", "16"}, {"head_dim", "256"}), FLAGS(gemma_flags)},
    {0},
};

// ---- Gemma 2 and 3: layers with and without windows, norms on both sides of sublayers (not in VaultGemma) ----

static const struct hf_row gemma_norms[] = {
    SAME(OURS "post_attention_layernorm", LLAMA "post_attention_layernorm"),
    SAME(OURS "pre_mlp_layernorm", LLAMA "pre_feedforward_layernorm"),
    SAME(OURS "post_mlp_layernorm", LLAMA "post_feedforward_layernorm"),
    {0},
};
static const struct hf_key gemma_keys[] = {
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-06"),
    MAP("hidden_activation", NULL, "gelu_pytorch_tanh=", .fallback = "gelu_pytorch_tanh"),
    NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
    ONLY("attention_bias", "false"),
    READ_ONLY("use_bidirectional_attention", "false"),
    {0},
};
static const struct hf_key gemma_caps[] = {
    NUMBER("attn_logit_softcapping", "--attn-logit-softcapping", .fallback = "50", .has_null = true),
    NUMBER("final_logit_softcapping", "--final-logit-softcapping", .fallback = "30", .has_null = true),
    {0},
};
// transformers' configuration has a cap for scores, but its model does not apply it.
static const struct hf_key gemma3_caps[] = {
    READ_ONLY("attn_logit_softcapping", "null"),
    NUMBER("final_logit_softcapping", "--final-logit-softcapping", .fallback = "0", .has_null = true),
    {0},
};
// Gemma 2 has second names for its activation and its window.
#define GEMMA(type, class, caps)                                                                                       \
    ROTARY(type, class), .tie = HF_TIED, .scales_embedding = true, .has_centered_gains = true, .needs_window = true,   \
                         ROWS(hf_attention, hf_head_norms, gemma_norms, hf_gated_mlp),                                 \
                         KEYS(hf_sizes, hf_mlp_width, hf_head_width, gemma_keys, caps),                                \
                         .harmless = "_sliding_window_pattern hidden_act=gelu_pytorch_tanh hidden_act=gelu "           \
                                     "sliding_window_size=@sliding_window"
#define GEMMA_DEFAULTS                                                                                                 \
    {"num_key_value_heads", "4"}, {"head_dim", "256"}, {                                                               \
        "query_pre_attn_scalar", "256"                                                                                 \
    }

const struct hf_family hf_family_gemma[] = {
    {GEMMA("gemma2", "Gemma2ForCausalLM", gemma_caps), .window_freq = "2", DEFAULTS(GEMMA_DEFAULTS),
     FLAGS(gemma_flags, norms_around)},
    {GEMMA("gemma3_text", "Gemma3ForCausalLM", gemma3_caps), .window_freq = "6",
     DEFAULTS(GEMMA_DEFAULTS, {"rope_theta", "1000000"}, {"rope_local_base_freq", "10000"}),
     FLAGS(gemma_flags, norms_around, hf_normed_heads)},
    {GEMMA("vaultgemma", "VaultGemmaForCausalLM", gemma_caps), .window_freq = "2", DEFAULTS(GEMMA_DEFAULTS),
     FLAGS(gemma_flags)},
    {0},
};

// ---- differences in other details ----

// Members for images, which text models do not have, for heads of other tasks, and for mixtures of experts.
static const char hunyuan_harmless[] =
    "add_classification_head class_num pool_type skip_cls_token anyres_pooling_size anyres_vit_max_image_size "
    "anyres_vit_two_views vit_add_patchemb_bias vit_input_resolution vit_mapping_type vit_norm_type vit_patch "
    "vit_path vit_remove_prenorm vit_token vit_type vit_used_rms_norm image_token_id im_start_id im_end_id "
    "im_newline_id video_start_id video_end_id text_start_id text_end_id mask_init_id num_media_embeds dense_list "
    "pad_id org_vocab_size attention_head_dim=@head_dim norm_type=rms num_experts=1 num_shared_expert "
    "routed_scaling_factor=false topk_group=false group_limited_greedy=false use_mixed_mlp_moe=false use_mla=false "
    "cla_share_factor position_embedding_xdrope=false use_rotary_pos_emb=true";

static const struct hf_key seed_dropout[] = {
    NUMBER("residual_dropout", "--hidden-dropout", .fallback = "0.1"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
    {0},
};
#define SEED_OSS                                                                                                       \
    ROTARY("seed_oss", "SeedOssForCausalLM"), ROWS(hf_attention, hf_mlp_norm, hf_gated_mlp), FLAGS(hf_llama),          \
        DEFAULTS({"num_key_value_heads", "8"}, {"attention_dropout", "0.1"})

const struct hf_family hf_family_likes[] = {
    // Biases of queries, keys and values without one of the output.
    {SEED_OSS,
     KEYS(hf_sizes, hf_mlp_width, hf_head_or_null, hf_rms, seed_dropout,
          OWN_KEYS(ONLY("attention_bias", "true"), MAP("attention_out_bias", "--add-qkv-bias/--add-attention-bias",
                                                       "false=true/false true=false/true", .fallback = "false")))},
    {SEED_OSS, .conditions = {{"attention_bias", "false"}},
     KEYS(hf_sizes, hf_mlp_width, hf_head_or_null, hf_rms, seed_dropout,
          OWN_KEYS(ONLY("attention_bias", "false"), MAP("attention_out_bias", "--add-qkv-bias/--add-attention-bias",
                                                        "false=false/false", .fallback = "false")))},
    {ROTARY("iquestcoder", "LlamaForCausalLM"), ROWS(hf_attention, hf_mlp_norm, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_or_null, hf_rms, hf_attention_bias, hf_mlp_bias,
          OWN_KEYS(READ_ONLY("clip_qkv", "null"), READ_ONLY("use_sliding_window", "false"))),
     DEFAULTS({"num_key_value_heads", "8"}, {"rms_norm_eps", "1e-05"}), FLAGS(hf_llama, hf_no_dropout)},
    {ROTARY("arcee", "ArceeForCausalLM"), ROWS(hf_attention, hf_mlp_norm, hf_plain_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width,
          OWN_KEYS(NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05")), hf_plain_activation,
          hf_attention_bias, hf_mlp_bias),
     FLAGS(hf_rotary, rms_norm, hf_no_bias, hf_no_dropout)},
    {ROTARY("ernie4_5", "Ernie4_5ForCausalLM"), .tie = HF_TIED, ROWS(hf_attention, hf_mlp_norm, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_or_null, hf_rms, hf_use_bias),
     DEFAULTS({"num_key_value_heads", "2"}, {"rms_norm_eps", "1e-05"}, {"rope_theta", "500000"}),
     FLAGS(hf_rotary, rms_norm, OWN_FLAGS({"--swiglu", "true"}), hf_neighbours, hf_no_dropout)},
    // The output of its attention is as wide as the residual stream, and has no bias.
    {ROTARY("helium", "HeliumForCausalLM"), .has_square_output = true, ROWS(hf_attention, hf_mlp_norm, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_qkv_bias, hf_mlp_bias),
     DEFAULTS({"num_key_value_heads", "20"}, {"head_dim", "128"}, {"rms_norm_eps", "1e-08"}, {"rope_theta", "100000"}),
     FLAGS(hf_llama, hf_neighbours, hf_no_dropout)},
    {ROTARY("ministral", "MinistralForCausalLM"), .window_freq = "all", .needs_window = true,
     ROWS(hf_attention, hf_mlp_norm, hf_gated_mlp), KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_window),
     DEFAULTS({"num_key_value_heads", "8"}), FLAGS(hf_llama, hf_no_dropout)},
    {ROTARY("jais2", "Jais2ForCausalLM"), ROWS(hf_attention, hf_mlp_norm, hf_plain_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_layer_norm, hf_plain_activation, hf_attention_bias, hf_mlp_bias),
     DEFAULTS({"attention_bias", "true"}, {"mlp_bias", "true"}), FLAGS(hf_rotary, hf_no_bias, hf_no_dropout)},
    // Norms of heads come after their rotation.
    {ROTARY("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM"), .harmless = hunyuan_harmless, .has_rope_alpha = true,
     ROWS(hf_attention, hf_mlp_norm, hf_gated_mlp,
          OWN_ROWS(SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.query_layernorm"),
                   SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.key_layernorm"))),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_attention_bias,
          OWN_KEYS(READ_ONLY("mlp_bias", "false"), READ_ONLY("use_qk_norm", "true"), READ_ONLY("use_cla", "false"))),
     DEFAULTS({"rms_norm_eps", "1e-05"}),
     FLAGS(hf_llama, hf_no_dropout, hf_normed_heads, OWN_FLAGS({"--qk-layernorm-after-rope", "true"}))},
    // Norms after sublayers; if some layers have windows, only those have rotary positions.
    {ROTARY("exaone4", "Exaone4ForCausalLM"), .window_freq = "4", .has_whole_without_rope = true,
     .has_rope_without_windows = true, ROWS(hf_attention, hf_head_norms, hf_result_norms, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_window),
     DEFAULTS({"num_key_value_heads", "32"}, {"rms_norm_eps", "1e-05"}),
     FLAGS(hf_llama, hf_no_dropout, output_norms, hf_normed_heads)},
    {0},
};

// ---- GLM-4: later releases have norms on both sides of sublayers ----

static const struct hf_row glm_mlp[] = {
    SAME(OURS "mlp.linear_fc1", LLAMA "mlp.gate_up_proj"), SAME(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"), {0}};
#define GLM(type, class)                                                                                               \
    ROTARY(type, class), KEYS(hf_sizes, hf_mlp_width, hf_head_width, hf_rms, hf_qkv_bias),                             \
        DEFAULTS({"num_key_value_heads", "2"}, {"partial_rotary_factor", "0.5"}, {"head_dim", "128"},                  \
                 {"rms_norm_eps", "1.5625e-07"}, {"attention_bias", "true"})

const struct hf_family hf_family_glm[] = {
    {GLM("glm", "GlmForCausalLM"), ROWS(hf_attention, hf_mlp_norm, glm_mlp),
     FLAGS(hf_llama, hf_no_dropout, hf_neighbours)},
    {GLM("glm4", "Glm4ForCausalLM"),
     ROWS(hf_attention, hf_mlp_norm, glm_mlp,
          OWN_ROWS(SAME(OURS "post_attention_layernorm", LLAMA "post_self_attn_layernorm"),
                   SAME(OURS "post_mlp_layernorm", LLAMA "post_mlp_layernorm"))),
     FLAGS(hf_llama, hf_no_dropout, hf_neighbours, norms_around)},
    {0},
};
