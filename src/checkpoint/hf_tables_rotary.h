// What tables of decoders with rotary positions have in common: Llama's names of layers and of members of config.json,
// DeepSeek's of experts.
// Internal to the hf_family files.
#ifndef CHECKPOINT_HF_TABLES_ROTARY_H
#define CHECKPOINT_HF_TABLES_ROTARY_H

#include "checkpoint/hf_tables.h"

#define LLAMA "model.layers.*."
#define WIDTH_KEYS(std)                                                                                                \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("num_hidden_layers", "--num-layers"),                          \
        NUMBER("hidden_size", "--hidden-size"), NUMBER("num_attention_heads", "--num-attention-heads"),                \
        NUMBER("max_position_embeddings", "--max-position-embeddings"),                                                \
        NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),                                           \
        NUMBER("initializer_range", "--init-method-std", .fallback = std)
#define SIZE_KEYS(std) WIDTH_KEYS(std), NUMBER("intermediate_size", "--ffn-hidden-size")
#define ROTARY_KEYS(std) SIZE_KEYS(std), NUMBER("head_dim", "--kv-channels", .fallback = "-")
#define SILU MAP("hidden_act", NULL, "silu= swish=", .fallback = "silu")
#define RMS_KEYS NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-06"), SILU
#define LLAMA_KEYS ROTARY_KEYS("0.02"), RMS_KEYS

#define ROTARY(type, class)                                                                                            \
    .model_type = type, .architecture = class, .prefix = "model.", .embedding = "model.embed_tokens.weight",           \
    .head = "lm_head.weight", .has_rope = true

// MLPs of DeepSeek's and GLM's: dense ones, experts, and shared experts.
#define ROUTED_MLPS                                                                                                    \
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},               \
        SAME(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"), SAME(OURS "mlp.router", LLAMA "mlp.gate"),                 \
        {OURS "mlp.experts.linear_fc1.weight",                                                                         \
         HF_NUMBERED,                                                                                                  \
         {LLAMA "mlp.experts.*.gate_proj.weight", LLAMA "mlp.experts.*.up_proj.weight"}},                              \
        {OURS "mlp.experts.linear_fc2.weight", HF_NUMBERED, {LLAMA "mlp.experts.*.down_proj.weight"}},                 \
        {OURS "mlp.shared_experts.linear_fc1.weight",                                                                  \
         HF_JOIN,                                                                                                      \
         {LLAMA "mlp.shared_experts.gate_proj.weight", LLAMA "mlp.shared_experts.up_proj.weight"}},                    \
        SAME(OURS "mlp.shared_experts.linear_fc2", LLAMA "mlp.shared_experts.down_proj")
#define ROUTED_BIAS                                                                                                    \
    {                                                                                                                  \
        OURS "mlp.router.expert_bias", HF_SAME, {                                                                      \
            LLAMA "mlp.gate.e_score_correction_bias"                                                                   \
        }                                                                                                              \
    }

// Multi-token prediction, in layers behind the last one: see hf_names.h. Beside them stand copies of the embedding and
// of the output layer.
#define DEPTHS                                                                                                         \
    SAME(OURS "enorm", LLAMA "enorm"), SAME(OURS "hnorm", LLAMA "hnorm"), SAME(OURS "eh_proj", LLAMA "eh_proj"),       \
        SAME(OURS "final_layernorm", LLAMA "shared_head.norm")

#endif
