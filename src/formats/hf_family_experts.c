// Decoders with mixtures of experts: Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE, gpt-oss and Granite. See hf_family.h.
#include "formats/hf_tables_rotary.h"

#define LAYERS LLAMA_ATTENTION
#define EXPERTS(router, expert, gate, up, down)                                                                        \
    SAME(OURS "mlp.router", router),                                                                                   \
        {OURS "mlp.experts.linear_fc1.weight", HF_NUMBERED, {expert gate ".weight", expert up ".weight"}}, {           \
        OURS "mlp.experts.linear_fc2.weight", HF_NUMBERED, {                                                           \
            expert down ".weight"                                                                                      \
        }                                                                                                              \
    }

// ---- Mixtral ----

static const struct hf_row mixtral_rows[] = {
    LAYERS,
    EXPERTS(LLAMA "block_sparse_moe.gate", LLAMA "block_sparse_moe.experts.*.", "w1", "w3", "w2"),
};
// Every layer has experts, so the width is the experts'.
static const struct hf_key mixtral_keys[] = {
    WIDTH_KEYS("0.02"),
    NUMBER("intermediate_size", "--moe-ffn-hidden-size/--ffn-hidden-size"),
    NUMBER("head_dim", "--kv-channels", .fallback = "-"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    SILU,
    NUMBER("sliding_window", "--sliding-window", .fallback = "0", .has_null = true),
    NUMBER("num_local_experts", "--num-experts", .fallback = "8"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "2"),
};
static const struct hf_flag mixtral_flags[] = {{"--model", "gpt"},
                                               {"--normalization", "RMSNorm"},
                                               {"--swiglu", "true"},
                                               {"--disable-bias-linear", "true"},
                                               {"--position-embedding-type", "rope"},
                                               {"--hidden-dropout", "0"}};

// ---- Qwen's ----

#define NAMED_EXPERTS EXPERTS(LLAMA "mlp.gate", LLAMA "mlp.experts.*.", "gate_proj", "up_proj", "down_proj")
#define DENSE_LAYERS                                                                                                   \
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},               \
        SAME(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj")
#define SUMS_TO_ONE MAP("norm_topk_prob", "--moe-router-pre-softmax", "true=false false=true", .fallback = "false")
static const struct hf_row qwen2_moe_rows[] = {
    LAYERS,
    NAMED_EXPERTS,
    DENSE_LAYERS,
    {OURS "mlp.shared_experts.linear_fc1.weight",
     HF_JOIN,
     {LLAMA "mlp.shared_expert.gate_proj.weight", LLAMA "mlp.shared_expert.up_proj.weight"}},
    SAME(OURS "mlp.shared_experts.linear_fc2", LLAMA "mlp.shared_expert.down_proj"),
    {OURS "mlp.shared_experts.gate_weight", HF_SAME, {LLAMA "mlp.shared_expert_gate.weight"}},
};
static const struct hf_key qwen2_moe_keys[] = {
    LLAMA_KEYS,
    SWITCH("qkv_bias", "--add-qkv-bias", .fallback = "true"),
    NUMBER("num_experts", "--num-experts", .fallback = "60"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "4"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "1408"),
    NUMBER("shared_expert_intermediate_size", "--moe-shared-expert-intermediate-size", .fallback = "5632"),
    SUMS_TO_ONE,
};
static const struct hf_flag qwen2_moe_flags[] = {{"--model", "gpt"},
                                                 {"--normalization", "RMSNorm"},
                                                 {"--swiglu", "true"},
                                                 {"--disable-bias-linear", "true"},
                                                 {"--moe-shared-expert-gate", "true"},
                                                 {"--position-embedding-type", "rope"},
                                                 {"--hidden-dropout", "0"}};
static const struct hf_row qwen3_moe_rows[] = {LAYERS, HEAD_NORMS, NAMED_EXPERTS, DENSE_LAYERS};
static const struct hf_key qwen3_moe_keys[] = {
    LLAMA_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    // transformers 5 writes the second name and reads both; other programs read the first.
    NUMBER("num_experts", "--num-experts", .fallback = "-"),
    NUMBER("num_local_experts", "--num-experts", .fallback = "-"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "8"),
    NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size", .fallback = "768"),
    SUMS_TO_ONE,
};
static const struct hf_flag qwen3_moe_flags[] = {{"--model", "gpt"},         {"--normalization", "RMSNorm"},
                                                 {"--swiglu", "true"},       {"--disable-bias-linear", "true"},
                                                 {"--qk-layernorm", "true"}, {"--position-embedding-type", "rope"},
                                                 {"--hidden-dropout", "0"}};

// ---- OLMoE ----

static const struct hf_row olmoe_rows[] = {LAYERS, HEAD_NORMS, NAMED_EXPERTS};
static const struct hf_key olmoe_keys[] = {
    WIDTH_KEYS("0.02"),
    NUMBER("intermediate_size", "--moe-ffn-hidden-size/--ffn-hidden-size"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    SILU,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    READ_ONLY("clip_qkv", "null"),
    NUMBER("num_experts", "--num-experts", .fallback = "64"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "8"),
    SUMS_TO_ONE,
};
static const struct hf_flag olmoe_flags[] = {{"--model", "gpt"},
                                             {"--normalization", "RMSNorm"},
                                             {"--swiglu", "true"},
                                             {"--disable-bias-linear", "true"},
                                             {"--qk-layernorm", "true"},
                                             {"--qk-layernorm-all-heads", "true"},
                                             {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"}};

// ---- gpt-oss ----

#define ALL_EXPERTS LLAMA "mlp.experts."
static const struct hf_row gpt_oss_rows[] = {
    LAYERS,
    {OURS "self_attention.softmax_offset", HF_SAME, {LLAMA "self_attn.sinks"}},
    SAME_BIAS(OURS "mlp.router", LLAMA "mlp.router"),
    {OURS "mlp.experts.linear_fc1.weight", HF_PAIRS_TRANSPOSE, {ALL_EXPERTS "gate_up_proj"}},
    {OURS "mlp.experts.linear_fc1.bias", HF_PAIRS, {ALL_EXPERTS "gate_up_proj_bias"}},
    {OURS "mlp.experts.linear_fc2.weight", HF_TRANSPOSE, {ALL_EXPERTS "down_proj"}},
    {OURS "mlp.experts.linear_fc2.bias", HF_SAME, {ALL_EXPERTS "down_proj_bias"}},
    {OURS "mlp.experts.linear_fc1.weight",
     HF_MXFP4_PAIRS,
     {ALL_EXPERTS "gate_up_proj_blocks", ALL_EXPERTS "gate_up_proj_scales"}},
    {OURS "mlp.experts.linear_fc2.weight", HF_MXFP4, {ALL_EXPERTS "down_proj_blocks", ALL_EXPERTS "down_proj_scales"}},
};
static const struct hf_key gpt_oss_keys[] = {
    WIDTH_KEYS("0.02"),
    NUMBER("intermediate_size", "--moe-ffn-hidden-size/--ffn-hidden-size"),
    NUMBER("head_dim", "--kv-channels", .fallback = "64"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    SILU,  // in name only: see the flags
    NUMBER("sliding_window", "--sliding-window", .fallback = "128", .has_null = true),
    NUMBER("num_local_experts", "--num-experts", .fallback = "128"),
    NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "4"),
    NUMBER("swiglu_limit", "--activation-func-clamp-value", .fallback = "7"),
    READ_ONLY("swiglu_alpha", "1.702"),
    MAP("attention_bias", "--disable-bias-linear/--add-mlp-bias", "true=false/false false=true/true",
        .fallback = "true"),
};
static const struct hf_flag gpt_oss_flags[] = {{"--model", "gpt"},
                                               {"--normalization", "RMSNorm"},
                                               {"--activation", "quick_gelu"},
                                               {"--gated-linear-unit", "true"},
                                               {"--glu-linear-offset", "1"},
                                               {"--softmax-type", "learnable"},
                                               {"--position-embedding-type", "rope"},
                                               {"--hidden-dropout", "0"}};

// ---- Granite ----

#define GRANITE_LAYERS                                                                                                 \
    LAYERS, SAME(OURS "mlp.router", LLAMA "block_sparse_moe.router.layer"),                                            \
        SAME(OURS "mlp.experts.linear_fc1", LLAMA "block_sparse_moe.input_linear"),                                    \
        SAME(OURS "mlp.experts.linear_fc2", LLAMA "block_sparse_moe.output_linear")
#define GRANITE_KEYS                                                                                                   \
    WIDTH_KEYS("0.02"), NUMBER("intermediate_size", "--moe-ffn-hidden-size/--ffn-hidden-size"), RMS_KEYS,              \
        NUMBER("embedding_multiplier", "--embedding-multiplier", .fallback = "1", .is_positive = true),                \
        NUMBER("residual_multiplier", "--residual-multiplier", .fallback = "1"),                                       \
        NUMBER("logits_scaling", "--logits-scaling", .fallback = "1"),                                                 \
        NUMBER("attention_multiplier", "--softmax-scale", .fallback = "1"), ONLY("attention_bias", "false"),           \
        NUMBER("num_local_experts", "--num-experts", .fallback = "8"),                                                 \
        NUMBER("num_experts_per_tok", "--moe-router-topk", .fallback = "2")
static const struct hf_row granitemoe_rows[] = {GRANITE_LAYERS};
static const struct hf_row granitemoeshared_rows[] = {
    GRANITE_LAYERS,
    SAME(OURS "mlp.shared_experts.linear_fc1", LLAMA "shared_mlp.input_linear"),
    SAME(OURS "mlp.shared_experts.linear_fc2", LLAMA "shared_mlp.output_linear"),
};
static const struct hf_key granitemoe_keys[] = {GRANITE_KEYS};
static const struct hf_key granitemoeshared_keys[] = {
    GRANITE_KEYS,
    NUMBER("shared_intermediate_size", "--moe-shared-expert-intermediate-size", .fallback = "0", .has_none = true),
};

static const char *const ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", NULL};
static const struct hf_flag mixtral_written[] = {{"bos_token_id", "1"}, {"eos_token_id", "2"}};
static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}};

static const struct hf_family families[] = {
    {ROTARY("mixtral", "MixtralForCausalLM"), .tie = "false", .groups = "8", .rotary_base = "1000000",
     TABLES(mixtral, ignored, mixtral_written, mixtral_flags)},
    {ROTARY("qwen3_moe", "Qwen3MoeForCausalLM"), .tie = "false", .groups = "4", .window_switch = HF_WINDOWS_ALL,
     .sparse = HF_SPARSE_STEP, .experts = "128",
     .harmless = "qkv_bias=false use_qk_norm=true shared_expert_intermediate_size=0",
     TABLES(qwen3_moe, ignored, no_ids, qwen3_moe_flags)},
    {ROTARY("qwen2_moe", "Qwen2MoeForCausalLM"), .tie = "false", .groups = "16", .window_switch = HF_WINDOWS_EARLY,
     .sparse = HF_SPARSE_STEP, TABLES(qwen2_moe, ignored, no_ids, qwen2_moe_flags)},
    {ROTARY("gpt_oss", "GptOssForCausalLM"), .tie = "false", .groups = "8", .rotary_base = "150000", .window_freq = "2",
     .needs_window = true, .has_mxfp4 = true, .harmless = "experts_per_token initial_context_length",
     .needs_rope_scaling = true, TABLES(gpt_oss, ignored, no_ids, gpt_oss_flags)},
    {ROTARY("granitemoe", "GraniteMoeForCausalLM"), .tie = "false", .harmless = "position_embedding_type=rope",
     TABLES(granitemoe, ignored, no_ids, mixtral_flags)},
    {ROTARY("granitemoeshared", "GraniteMoeSharedForCausalLM"), .tie = "false",
     .harmless = "position_embedding_type=rope", TABLES(granitemoeshared, ignored, no_ids, mixtral_flags)},
    {ROTARY("olmoe", "OlmoeForCausalLM"), .tie = "false", TABLES(olmoe, ignored, no_ids, olmoe_flags)},
};

struct hf_families hf_families_experts(void) {
    return (struct hf_families){families, COUNT(families)};
}
