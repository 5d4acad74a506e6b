// Decoders with rotary positions: Llama and its kin. See hf_family.h.
#include "checkpoint/hf_tables.h"

// ---- Llama and Mistral ----

#define LLAMA "model.layers.*."
static const struct hf_row llama_rows[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    SAME(OURS "input_layernorm", LLAMA "input_layernorm"),
    JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
                LLAMA "self_attn.v_proj"),
    SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_norm"),
    SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.k_norm"),
    SAME(OURS "pre_mlp_layernorm", LLAMA "post_attention_layernorm"),
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},
    {OURS "mlp.linear_fc1.bias", HF_JOIN, {LLAMA "mlp.gate_proj.bias", LLAMA "mlp.up_proj.bias"}},
    SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"),
    SAME("decoder.final_layernorm", "model.norm"),
    SAME("output_layer", "lm_head"),
};
static const char *const llama_ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq", NULL};
#define LLAMA_KEYS                                                                                                     \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("num_hidden_layers", "--num-layers"),                          \
        NUMBER("hidden_size", "--hidden-size"), NUMBER("num_attention_heads", "--num-attention-heads"),                \
        NUMBER("head_dim", "--kv-channels", .fallback = "-"), NUMBER("intermediate_size", "--ffn-hidden-size"),        \
        NUMBER("max_position_embeddings", "--max-position-embeddings"),                                                \
        NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-06"),                                                 \
        NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),                                           \
        NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"), ONLY("hidden_act", "silu")
static const struct hf_key llama_keys[] = {
    LLAMA_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
};
static const struct hf_key mistral_keys[] = {
    LLAMA_KEYS,
    NUMBER("sliding_window", "--sliding-window", .fallback = "0", .has_null = true),
};
static const struct hf_key qwen2_keys[] = {LLAMA_KEYS, ONLY("use_sliding_window", "false")};
static const struct hf_flag qwen2_flags[] = {{"--model", "gpt"},         {"--normalization", "RMSNorm"},
                                             {"--swiglu", "true"},       {"--disable-bias-linear", "true"},
                                             {"--add-qkv-bias", "true"}, {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"}};
static const struct hf_key qwen3_keys[] = {
    LLAMA_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    ONLY("use_sliding_window", "false"),
};
static const struct hf_flag qwen3_flags[] = {{"--model", "gpt"},         {"--normalization", "RMSNorm"},
                                             {"--swiglu", "true"},       {"--disable-bias-linear", "true"},
                                             {"--qk-layernorm", "true"}, {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"}};
static const struct hf_flag llama_flags[] = {{"--model", "gpt"},
                                             {"--normalization", "RMSNorm"},
                                             {"--swiglu", "true"},
                                             {"--disable-bias-linear", "true"},
                                             {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"}};
static const struct hf_flag llama_written[] = {{"bos_token_id", "1"}, {"eos_token_id", "2"}};

#define LIKE_LLAMA(type, class)                                                                                        \
    .model_type = type, .architecture = class, .prefix = "model.", .embedding = "model.embed_tokens.weight",           \
    .head = "lm_head.weight", .tie = "false", .has_rope = true, .rows = llama_rows, .row_count = COUNT(llama_rows),    \
    .ignored = llama_ignored, .written = llama_written, .written_count = COUNT(llama_written)

static const struct hf_family families[] = {
    {LIKE_LLAMA("llama", "LlamaForCausalLM"), .keys = llama_keys, .key_count = COUNT(llama_keys), .flags = llama_flags,
     .flag_count = COUNT(llama_flags)},
    {LIKE_LLAMA("mistral", "MistralForCausalLM"), .keys = mistral_keys, .key_count = COUNT(mistral_keys),
     .flags = llama_flags, .flag_count = COUNT(llama_flags)},
    {LIKE_LLAMA("qwen2", "Qwen2ForCausalLM"), .keys = qwen2_keys, .key_count = COUNT(qwen2_keys), .flags = qwen2_flags,
     .flag_count = COUNT(qwen2_flags)},
    {LIKE_LLAMA("qwen3", "Qwen3ForCausalLM"), .keys = qwen3_keys, .key_count = COUNT(qwen3_keys), .flags = qwen3_flags,
     .flag_count = COUNT(qwen3_flags)},
};

struct hf_families hf_families_rotary(void) {
    return (struct hf_families){families, COUNT(families)};
}
