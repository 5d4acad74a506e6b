// Common parts of the tables of decoders with rotary positions: Llama's names of layers and of members of config.json,
// DeepSeek's of experts. Internal to the hf_family files.
#ifndef FORMATS_HF_TABLES_ROTARY_H
#define FORMATS_HF_TABLES_ROTARY_H

#include "formats/hf_tables.h"

#define LLAMA "model.layers.*."
#define DROPPED_KEYS(std, dropout)                                                                                     \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("num_hidden_layers", "--num-layers"),                          \
        NUMBER("hidden_size", "--hidden-size"), NUMBER("num_attention_heads", "--num-attention-heads"),                \
        NUMBER("max_position_embeddings", "--max-position-embeddings"),                                                \
        NUMBER("attention_dropout", "--attention-dropout", .fallback = dropout),                                       \
        NUMBER("initializer_range", "--init-method-std", .fallback = std)
#define WIDTH_KEYS(std) DROPPED_KEYS(std, "0")
#define SIZE_KEYS(std) WIDTH_KEYS(std), NUMBER("intermediate_size", "--ffn-hidden-size")
#define ROTARY_KEYS(std) SIZE_KEYS(std), NUMBER("head_dim", "--kv-channels", .fallback = "-")
#define SILU MAP("hidden_act", NULL, "silu= swish=", .fallback = "silu")
#define RMS(epsilon) NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = epsilon)
#define RMS_KEYS RMS("1e-06"), SILU
#define LLAMA_KEYS ROTARY_KEYS("0.02"), RMS_KEYS

// Llama's layers in separate matrices: all but the MLP, and a gated MLP.
#define LLAMA_ATTENTION                                                                                                \
    SAME("embedding.word_embeddings", "model.embed_tokens"), SAME(OURS "input_layernorm", LLAMA "input_layernorm"),    \
        JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",              \
                    LLAMA "self_attn.v_proj"),                                                                         \
        SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),                                        \
        SAME(OURS "pre_mlp_layernorm", LLAMA "post_attention_layernorm"),                                              \
        SAME("decoder.final_layernorm", "model.norm"), SAME("output_layer", "lm_head")
#define GATED_MLP                                                                                                      \
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},               \
        {OURS "mlp.linear_fc1.bias", HF_JOIN, {LLAMA "mlp.gate_proj.bias", LLAMA "mlp.up_proj.bias"}},                 \
        SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj")
#define HEAD_NORMS                                                                                                     \
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_norm"),                                                 \
        SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.k_norm")
// An MLP that is not gated, and the names of its activations, as in Nemotron.
#define PLAIN_MLP                                                                                                      \
    SAME_BIAS(OURS "mlp.linear_fc1", LLAMA "mlp.up_proj"), SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj")
#define PLAIN_ACTIVATION                                                                                               \
    MAP("hidden_act", "--activation",                                                                                  \
        "relu2=squared_relu relu=relu gelu=gelu gelu_new=gelu_tanh " TANH_NAMES "silu=silu swish=silu",                \
        .fallback = "relu2")
// Norms with biases around attention.
#define NORMED_LAYERS                                                                                                  \
    SAME("embedding.word_embeddings", "model.embed_tokens"),                                                           \
        SAME_BIAS(OURS "input_layernorm", LLAMA "input_layernorm"),                                                    \
        JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",              \
                    LLAMA "self_attn.v_proj"),                                                                         \
        SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),                                        \
        SAME_BIAS(OURS "pre_mlp_layernorm", LLAMA "post_attention_layernorm"),                                         \
        SAME_BIAS("decoder.final_layernorm", "model.norm"), SAME("output_layer", "lm_head")

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

// Multi-token prediction, in layers after the last one: see hf_names.h. They carry copies of the embedding and of the
// output layer.
#define DEPTHS                                                                                                         \
    SAME(OURS "enorm", LLAMA "enorm"), SAME(OURS "hnorm", LLAMA "hnorm"), SAME(OURS "eh_proj", LLAMA "eh_proj"),       \
        SAME(OURS "final_layernorm", LLAMA "shared_head.norm")

#endif
