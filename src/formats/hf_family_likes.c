// Decoders that differ from Llama's in a detail: Seed-OSS, IQuest-Coder, Arcee's AFM, ERNIE 4.5, Helium, Ministral,
// Jais 2, Hunyuan and EXAONE 4. See hf_family.h.
#include "formats/hf_tables_rotary.h"

static const struct hf_row gated_rows[] = {LLAMA_ATTENTION, GATED_MLP};
static const struct hf_row plain_rows[] = {LLAMA_ATTENTION, PLAIN_MLP};

#define LLAMA_FLAGS                                                                                                    \
    {"--model", "gpt"}, {"--normalization", "RMSNorm"}, {"--swiglu", "true"}, {                                        \
        "--position-embedding-type", "rope"                                                                            \
    }
#define NO_BIAS                                                                                                        \
    { "--disable-bias-linear", "true" }
#define NO_DROPOUT                                                                                                     \
    { "--hidden-dropout", "0" }
static const struct hf_flag llama_flags[] = {LLAMA_FLAGS, NO_BIAS, NO_DROPOUT};

// ---- IQuest-Coder: Llama's layers ----

static const struct hf_key iquestcoder_keys[] = {
    SIZE_KEYS("0.02"),
    NUMBER("head_dim", "--kv-channels", .fallback = "128", .has_null = true, .has_none = true),
    RMS("1e-05"),
    SILU,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
    READ_ONLY("clip_qkv", "null"),
    READ_ONLY("use_sliding_window", "false"),
};

// ---- Seed-OSS: biases of queries, keys and values without one of the output, and dropout ----

#define SEED_KEYS                                                                                                      \
    DROPPED_KEYS("0.02", "0.1"), NUMBER("intermediate_size", "--ffn-hidden-size"),                                     \
        NUMBER("head_dim", "--kv-channels", .fallback = "128", .has_null = true, .has_none = true), RMS_KEYS,          \
        NUMBER("residual_dropout", "--hidden-dropout", .fallback = "0.1"),                                             \
        SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false")
static const struct hf_key seed_oss_keys[] = {
    SEED_KEYS,
    ONLY("attention_bias", "true"),
    MAP("attention_out_bias", "--add-qkv-bias/--add-attention-bias", "false=true/false true=false/true",
        .fallback = "false"),
};
static const struct hf_key seed_oss_plain_keys[] = {
    SEED_KEYS,
    ONLY("attention_bias", "false"),
    MAP("attention_out_bias", "--add-qkv-bias/--add-attention-bias", "false=false/false", .fallback = "false"),
};
static const struct hf_flag seed_oss_flags[] = {LLAMA_FLAGS, NO_BIAS};

// ---- Arcee's AFM: an MLP that is not gated ----

static const struct hf_key arcee_keys[] = {
    ROTARY_KEYS("0.02"),
    RMS("1e-05"),
    PLAIN_ACTIVATION,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
};
static const struct hf_flag arcee_flags[] = {
    {"--model", "gpt"}, {"--normalization", "RMSNorm"}, NO_BIAS, {"--position-embedding-type", "rope"}, NO_DROPOUT};

// ---- ERNIE 4.5 and Helium: rotation of neighbouring channels ----

static const struct hf_key ernie4_5_keys[] = {
    SIZE_KEYS("0.02"),
    NUMBER("head_dim", "--kv-channels", .fallback = "128", .has_null = true, .has_none = true),
    RMS("1e-05"),
    SILU,
    MAP("use_bias", "--disable-bias-linear", "true=false false=true", .fallback = "false"),
};
static const struct hf_flag ernie4_5_flags[] = {LLAMA_FLAGS, {"--rotary-interleaved", "true"}, NO_DROPOUT};
// The output of its attention is as wide as the residual stream, and has no bias.
static const struct hf_key helium_keys[] = {
    SIZE_KEYS("0.02"),
    NUMBER("head_dim", "--kv-channels", .fallback = "128"),
    RMS("1e-08"),
    SILU,
    SWITCH("attention_bias", "--add-qkv-bias", .fallback = "false"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
};
static const struct hf_flag helium_flags[] = {LLAMA_FLAGS, {"--rotary-interleaved", "true"}, NO_BIAS, NO_DROPOUT};

// ---- Ministral: some layers have a window ----

static const struct hf_key ministral_keys[] = {
    LLAMA_KEYS,
    NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
};

// ---- Jais 2: norms with biases, and an MLP that is not gated ----

static const struct hf_row jais2_rows[] = {NORMED_LAYERS, PLAIN_MLP};
static const struct hf_key jais2_keys[] = {
    ROTARY_KEYS("0.02"),
    NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    PLAIN_ACTIVATION,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "true"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "true"),
};
static const struct hf_flag jais2_flags[] = {
    {"--model", "gpt"}, NO_BIAS, {"--position-embedding-type", "rope"}, NO_DROPOUT};

// ---- Hunyuan: norms of heads after their rotation ----

static const struct hf_row hunyuan_rows[] = {
    LLAMA_ATTENTION,
    GATED_MLP,
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.query_layernorm"),
    SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.key_layernorm"),
};
static const struct hf_key hunyuan_keys[] = {
    ROTARY_KEYS("0.02"),
    RMS("1e-05"),
    SILU,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    READ_ONLY("mlp_bias", "false"),
    READ_ONLY("use_qk_norm", "true"),
    READ_ONLY("use_cla", "false"),
};
static const struct hf_flag hunyuan_flags[] = {
    LLAMA_FLAGS, NO_BIAS, NO_DROPOUT, {"--qk-layernorm", "true"}, {"--qk-layernorm-after-rope", "true"}};

// ---- EXAONE 4: norms after sublayers; if some layers have windows, only those have rotary positions ----

static const struct hf_row exaone4_rows[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    JOINED(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
           LLAMA "self_attn.v_proj"),
    SAME(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),
    HEAD_NORMS,
    SAME(OURS "post_attention_layernorm", LLAMA "post_attention_layernorm"),
    GATED_MLP,
    SAME(OURS "post_mlp_layernorm", LLAMA "post_feedforward_layernorm"),
    SAME("decoder.final_layernorm", "model.norm"),
    SAME("output_layer", "lm_head"),
};
static const struct hf_key exaone4_keys[] = {
    ROTARY_KEYS("0.02"),
    RMS("1e-05"),
    SILU,
    NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
};
static const struct hf_flag exaone4_flags[] = {
    LLAMA_FLAGS, NO_BIAS, NO_DROPOUT, {"--norm-placement", "output"}, {"--qk-layernorm", "true"}};

static const char *const ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq", NULL};
// The defaults are ids of their own vocabularies, which another model may lack.
static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}};

// Members for images, which text models do not have, for heads of other tasks, and for mixtures of experts.
#define HUNYUAN_HARMLESS                                                                                               \
    "add_classification_head class_num pool_type skip_cls_token anyres_pooling_size anyres_vit_max_image_size "        \
    "anyres_vit_two_views vit_add_patchemb_bias vit_input_resolution vit_mapping_type vit_norm_type vit_patch "        \
    "vit_path vit_remove_prenorm vit_token vit_type vit_used_rms_norm image_token_id im_start_id im_end_id "           \
    "im_newline_id video_start_id video_end_id text_start_id text_end_id mask_init_id num_media_embeds dense_list "    \
    "pad_id org_vocab_size attention_head_dim=@head_dim norm_type=rms num_experts=1 num_shared_expert "                \
    "routed_scaling_factor=false topk_group=false group_limited_greedy=false use_mixed_mlp_moe=false use_mla=false "   \
    "cla_share_factor position_embedding_xdrope=false use_rotary_pos_emb=true"
#define LIKE(type, class, row_list, name, flag_list)                                                                   \
    ROTARY(type, class), .rows = row_list, .row_count = COUNT(row_list), .keys = name##_keys,                          \
                         .key_count = COUNT(name##_keys), .flags = flag_list, .flag_count = COUNT(flag_list),          \
                         .ignored = ignored, .written = no_ids, .written_count = COUNT(no_ids)

static const struct hf_family families[] = {
    {LIKE("seed_oss", "SeedOssForCausalLM", gated_rows, seed_oss, seed_oss_flags), .tie = "false", .groups = "8"},
    {LIKE("seed_oss", "SeedOssForCausalLM", gated_rows, seed_oss_plain, seed_oss_flags),
     .conditions = {{"attention_bias", "false"}}, .tie = "false", .groups = "8"},
    {LIKE("iquestcoder", "LlamaForCausalLM", gated_rows, iquestcoder, llama_flags), .tie = "false", .groups = "8"},
    {LIKE("arcee", "ArceeForCausalLM", plain_rows, arcee, arcee_flags), .tie = "false"},
    {LIKE("ernie4_5", "Ernie4_5ForCausalLM", gated_rows, ernie4_5, ernie4_5_flags), .tie = "true", .groups = "2",
     .rotary_base = "500000"},
    {LIKE("helium", "HeliumForCausalLM", gated_rows, helium, helium_flags), .tie = "false", .groups = "20",
     .rotary_base = "100000", .has_square_output = true},
    {LIKE("ministral", "MinistralForCausalLM", gated_rows, ministral, llama_flags), .tie = "false", .groups = "8",
     .window_freq = "all", .needs_window = true},
    {LIKE("jais2", "Jais2ForCausalLM", jais2_rows, jais2, jais2_flags), .tie = "false"},
    {LIKE("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", hunyuan_rows, hunyuan, hunyuan_flags), .tie = "false",
     .harmless = HUNYUAN_HARMLESS, .has_rope_alpha = true},
    {LIKE("exaone4", "Exaone4ForCausalLM", exaone4_rows, exaone4, exaone4_flags), .tie = "false", .groups = "32",
     .window_freq = "4", .has_whole_without_rope = true, .has_rope_without_windows = true},
};

struct hf_families hf_families_likes(void) {
    return (struct hf_families){families, COUNT(families)};
}
