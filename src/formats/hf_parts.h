// Parts that several families are made of, and the words in which rows and keys are written. Layers have the names of
// transformers' Llama, from which most decoders descend. Internal to the hf_family files.
#ifndef FORMATS_HF_PARTS_H
#define FORMATS_HF_PARTS_H

#include "formats/hf_family.h"

// Lists of a record: parts, its own items (the last part, mostly), and pairs.
#define ROWS(...)                                                                                                      \
    .rows = (const struct hf_row *const[]) {                                                                           \
        __VA_ARGS__, NULL                                                                                              \
    }
#define KEYS(...)                                                                                                      \
    .keys = (const struct hf_key *const[]) {                                                                           \
        __VA_ARGS__, NULL                                                                                              \
    }
#define FLAGS(...)                                                                                                     \
    .flags = (const struct hf_flag *const[]) {                                                                         \
        __VA_ARGS__, NULL                                                                                              \
    }
#define OWN_ROWS(...) ((const struct hf_row[]){__VA_ARGS__, {0}})
#define OWN_KEYS(...) ((const struct hf_key[]){__VA_ARGS__, {0}})
#define OWN_FLAGS(...) ((const struct hf_flag[]){__VA_ARGS__, {0}})
#define DEFAULTS(...) .defaults = OWN_FLAGS(__VA_ARGS__)

// ---- rows ----

#define ROW(our, kind, ...)                                                                                            \
    {                                                                                                                  \
        .ours = our, .transform = kind, .theirs = { __VA_ARGS__ }                                                      \
    }
#define SAME(ours, theirs) ROW(ours ".weight", HF_SAME, theirs ".weight")
#define BIAS(ours, theirs) ROW(ours ".bias", HF_SAME, theirs ".bias")
#define SAME_BIAS(ours, theirs) SAME(ours, theirs), BIAS(ours, theirs)
#define TURNED(ours, theirs) ROW(ours ".weight", HF_TRANSPOSE, theirs ".weight"), BIAS(ours, theirs)
#define JOINED(ours, a, b, c) ROW(ours ".weight", HF_JOIN, a ".weight", b ".weight", c ".weight")
#define JOINED_BIAS(ours, a, b, c) JOINED(ours, a, b, c), ROW(ours ".bias", HF_JOIN, a ".bias", b ".bias", c ".bias")
#define GROUPS(ours, theirs)                                                                                           \
    ROW(ours ".weight", HF_GROUPS, theirs ".weight"), ROW(ours ".bias", HF_GROUPS, theirs ".bias")
#define GATED(ours, gate, up) ROW(ours ".weight", HF_JOIN, gate ".weight", up ".weight")
#define EXPERTS(expert, gate, up, down)                                                                                \
    ROW(OURS "mlp.experts.linear_fc1.weight", HF_NUMBERED, expert gate ".weight", expert up ".weight"),                \
        ROW(OURS "mlp.experts.linear_fc2.weight", HF_NUMBERED, expert down ".weight")

#define OURS "decoder.layers.*."
#define ENCODER "encoder.layers.*."
#define LLAMA "model.layers.*."

extern const struct hf_row hf_attention[];     // all but the MLP, with biases, and with a norm before the attention
extern const struct hf_row hf_mlp_norm[];      // the norm before the MLP, which is called post_attention_layernorm
extern const struct hf_row hf_result_norms[];  // norms after sublayers
extern const struct hf_row hf_head_norms[];    // norms of queries and keys
extern const struct hf_row hf_gated_mlp[];     // with biases
extern const struct hf_row hf_plain_mlp[];     // an MLP that is not gated, as in Nemotron
extern const struct hf_row hf_fused[];         // queries, keys and values in one matrix; the gate above the other half
extern const struct hf_row hf_experts[];       // the router and each expert's matrices
extern const struct hf_row hf_router_bias[];   // DeepSeek's
extern const struct hf_row hf_shared_experts[];  // DeepSeek's
extern const struct hf_row hf_latents[];         // attention through latents
extern const struct hf_row hf_depths[];          // multi-token prediction, in layers after the last one: see hf_names.h

// ---- keys ----

#define NUMBER(name, flag, ...)                                                                                        \
    { .key = name, .kind = HF_NUMBER, .flags = flag, __VA_ARGS__ }
#define SWITCH(name, flag, ...)                                                                                        \
    { .key = name, .kind = HF_SWITCH, .flags = flag, __VA_ARGS__ }
#define MAP(name, flag, values, ...)                                                                                   \
    { .key = name, .kind = HF_MAP, .flags = flag, .map = values, __VA_ARGS__ }
#define ONLY(name, value)                                                                                              \
    { .key = name, .kind = HF_MAP, .map = value "=", .fallback = value }
// A member that is not written, since transformers ignores it or has no other default.
#define READ_ONLY(name, value)                                                                                         \
    { .key = name, .kind = HF_MAP, .map = value "=", .fallback = value, .is_read = true }

// Other names for gelu_new's formula; a model keeps the one it came with.
#define TANH_NAMES "gelu_pytorch_tanh=gelu_tanh gelu_fast=gelu_tanh "
#define PLAIN_ACTIVATIONS "gelu=gelu relu=relu relu2=squared_relu silu=silu swish=silu"

extern const struct hf_key hf_sizes[];             // all but the width of the MLP
extern const struct hf_key hf_mlp_width[];         // intermediate_size
extern const struct hf_key hf_expert_width[];      // intermediate_size, if every layer has experts
extern const struct hf_key hf_head_width[];        // head_dim; without a default it follows from other sizes
extern const struct hf_key hf_head_or_null[];      // the same, and null stands for no default
extern const struct hf_key hf_rms[];               // rms_norm_eps and SiLU
extern const struct hf_key hf_layer_norm[];        // layer_norm_eps
extern const struct hf_key hf_silu[];              // hidden_act
extern const struct hf_key hf_plain_activation[];  // hidden_act of an MLP that is not gated
extern const struct hf_key hf_window[];            // sliding_window
extern const struct hf_key hf_attention_bias[];    // of all matrices of attention
extern const struct hf_key hf_qkv_bias[];          // of queries, keys and values alone
extern const struct hf_key hf_mlp_bias[];
extern const struct hf_key hf_use_bias[];  // of all linear layers
extern const struct hf_key hf_num_experts[];
extern const struct hf_key hf_local_experts[];   // another name for num_experts
extern const struct hf_key hf_routed_experts[];  // DeepSeek's name for num_experts
extern const struct hf_key hf_per_token[];       // experts of a token
extern const struct hf_key hf_moe_width[];       // moe_intermediate_size
extern const struct hf_key hf_router_factor[];
extern const struct hf_key hf_sums_to_one[];  // norm_topk_prob
extern const struct hf_key hf_always_one[];   // norm_topk_prob must be true
extern const struct hf_key hf_latent_keys[];  // without the members that hf_config_deepseek.c reads and writes
extern const struct hf_key hf_latent_rotation[];
extern const struct hf_key hf_multipliers[];  // Granite's
extern const struct hf_key hf_depth_count[];  // num_nextn_predict_layers

// ---- flags ----

extern const struct hf_flag hf_rotary[];  // decoders with rotary positions
extern const struct hf_flag hf_llama[];   // and RMSNorm and SwiGLU, without biases
extern const struct hf_flag hf_no_bias[];
extern const struct hf_flag hf_no_dropout[];  // of the residual stream
extern const struct hf_flag hf_normed_heads[];
extern const struct hf_flag hf_all_heads[];   // one norm of all queries, and one of all keys
extern const struct hf_flag hf_neighbours[];  // rotation of neighbouring channels
extern const struct hf_flag hf_parallel[];    // attention and MLP read the same norm's result
extern const struct hf_flag hf_biased_router[];

// The names of a decoder's class, and of tensors outside of layers.
#define ROTARY(type, class)                                                                                            \
    .model_type = type, .architecture = class, .prefix = "model.", .embedding = "model.embed_tokens.weight",           \
    .head = "lm_head.weight", .has_rope = true
#define NAMED(type, class, before, words, output)                                                                      \
    .model_type = type, .architecture = class, .prefix = before, .embedding = before words ".weight",                  \
    .head = output ".weight"

// Default ids are ids of their own vocabularies, which another model may lack.
extern const struct hf_flag hf_no_ids[];  // without a padding token

// The tables of families.
extern const struct hf_family hf_family_learned[], hf_family_rotary[], hf_family_gemma[], hf_family_parallel[],
    hf_family_experts[], hf_family_latent[], hf_family_glm[], hf_family_glm_moe[], hf_family_likes[],
    hf_family_routed[], hf_family_alibi[], hf_family_encoders[];

#endif
