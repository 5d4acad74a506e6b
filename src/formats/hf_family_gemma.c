// Decoders that mix layers with and without windows: Gemma 2 and the text models of Gemma 3, which have norms before
// and after each sublayer, and VaultGemma, which has only the norms before. See hf_family.h.
#include "formats/hf_tables_rotary.h"

static const struct hf_row rows[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    SAME(OURS "input_layernorm", LLAMA "input_layernorm"),
    JOINED(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
           LLAMA "self_attn.v_proj"),
    SAME(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),
    HEAD_NORMS,
    SAME(OURS "post_attention_layernorm", LLAMA "post_attention_layernorm"),
    SAME(OURS "pre_mlp_layernorm", LLAMA "pre_feedforward_layernorm"),
    GATED_MLP,
    SAME(OURS "post_mlp_layernorm", LLAMA "post_feedforward_layernorm"),
    SAME("decoder.final_layernorm", "model.norm"),
    SAME("output_layer", "lm_head"),
};

#define GEMMA_KEYS                                                                                                     \
    SIZE_KEYS("0.02"), NUMBER("head_dim", "--kv-channels", .fallback = "256"),                                         \
        NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-06"),                                                 \
        MAP("hidden_activation", NULL, "gelu_pytorch_tanh=", .fallback = "gelu_pytorch_tanh"),                         \
        NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),                            \
        ONLY("attention_bias", "false"), READ_ONLY("use_bidirectional_attention", "false")
static const struct hf_key gemma2_keys[] = {
    GEMMA_KEYS,
    NUMBER("attn_logit_softcapping", "--attn-logit-softcapping", .fallback = "50", .has_null = true),
    NUMBER("final_logit_softcapping", "--final-logit-softcapping", .fallback = "30", .has_null = true),
};
// transformers' configuration has a cap for scores, but its model does not apply it.
static const struct hf_key gemma3_keys[] = {
    GEMMA_KEYS,
    READ_ONLY("attn_logit_softcapping", "null"),
    NUMBER("final_logit_softcapping", "--final-logit-softcapping", .fallback = "0", .has_null = true),
};

#define GEMMA_FLAGS                                                                                                    \
    {"--model", "gpt"}, {"--normalization", "RMSNorm"}, {"--activation", "gelu_tanh"},                                 \
        {"--gated-linear-unit", "true"}, {"--disable-bias-linear", "true"}, {"--position-embedding-type", "rope"}, {   \
        "--hidden-dropout", "0"                                                                                        \
    }
static const struct hf_flag gemma2_flags[] = {GEMMA_FLAGS, {"--norm-placement", "both"}};
static const struct hf_flag gemma3_flags[] = {GEMMA_FLAGS, {"--norm-placement", "both"}, {"--qk-layernorm", "true"}};
static const struct hf_flag vaultgemma_flags[] = {GEMMA_FLAGS};

static const char *const ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", NULL};
static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}};

// Gemma 2 has second names for its activation and its window.
#define GEMMA_HARMLESS                                                                                                 \
    "_sliding_window_pattern hidden_act=gelu_pytorch_tanh hidden_act=gelu sliding_window_size=@sliding_window"
#define GEMMA(type, class, key_list, flag_list)                                                                        \
    ROTARY(type, class), .tie = "true", .harmless = GEMMA_HARMLESS, .groups = "4", .scales_embedding = true,           \
                         .has_centered_gains = true, .query_scalar = "256", .needs_window = true, .rows = rows,        \
                         .row_count = COUNT(rows), .ignored = ignored, .written = no_ids,                              \
                         .written_count = COUNT(no_ids), .keys = key_list, .key_count = COUNT(key_list),               \
                         .flags = flag_list, .flag_count = COUNT(flag_list)
static const struct hf_family families[] = {
    {GEMMA("gemma2", "Gemma2ForCausalLM", gemma2_keys, gemma2_flags), .window_freq = "2"},
    {GEMMA("gemma3_text", "Gemma3ForCausalLM", gemma3_keys, gemma3_flags), .window_freq = "6", .rotary_base = "1000000",
     .local_base = "10000"},
    {GEMMA("vaultgemma", "VaultGemmaForCausalLM", gemma2_keys, vaultgemma_flags), .window_freq = "2"},
};

struct hf_families hf_families_gemma(void) {
    return (struct hf_families){families, COUNT(families)};
}
