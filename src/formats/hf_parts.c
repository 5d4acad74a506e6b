// The parts. See hf_parts.h.
#include "formats/hf_parts.h"

const struct hf_row hf_attention[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    SAME_BIAS(OURS "input_layernorm", LLAMA "input_layernorm"),
    JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
                LLAMA "self_attn.v_proj"),
    SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),
    SAME_BIAS("decoder.final_layernorm", "model.norm"),
    SAME("output_layer", "lm_head"),
    {0},
};
const struct hf_row hf_mlp_norm[] = {SAME_BIAS(OURS "pre_mlp_layernorm", LLAMA "post_attention_layernorm"), {0}};
const struct hf_row hf_result_norms[] = {
    SAME(OURS "post_attention_layernorm", LLAMA "post_attention_layernorm"),
    SAME(OURS "post_mlp_layernorm", LLAMA "post_feedforward_layernorm"),
    {0},
};
const struct hf_row hf_head_norms[] = {
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_norm"),
    SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.k_norm"),
    {0},
};
const struct hf_row hf_gated_mlp[] = {
    GATED(OURS "mlp.linear_fc1", LLAMA "mlp.gate_proj", LLAMA "mlp.up_proj"),
    ROW(OURS "mlp.linear_fc1.bias", HF_JOIN, LLAMA "mlp.gate_proj.bias", LLAMA "mlp.up_proj.bias"),
    SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"),
    {0},
};
const struct hf_row hf_plain_mlp[] = {
    SAME_BIAS(OURS "mlp.linear_fc1", LLAMA "mlp.up_proj"),
    SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"),
    {0},
};
const struct hf_row hf_fused[] = {
    SAME_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.qkv_proj"),
    SAME_BIAS(OURS "mlp.linear_fc1", LLAMA "mlp.gate_up_proj"),
    {0},
};
const struct hf_row hf_experts[] = {
    SAME(OURS "mlp.router", LLAMA "mlp.gate"),
    EXPERTS(LLAMA "mlp.experts.*.", "gate_proj", "up_proj", "down_proj"),
    {0},
};
const struct hf_row hf_router_bias[] = {
    ROW(OURS "mlp.router.expert_bias", HF_SAME, LLAMA "mlp.gate.e_score_correction_bias"), {0}};
const struct hf_row hf_shared_experts[] = {
    GATED(OURS "mlp.shared_experts.linear_fc1", LLAMA "mlp.shared_experts.gate_proj",
          LLAMA "mlp.shared_experts.up_proj"),
    SAME(OURS "mlp.shared_experts.linear_fc2", LLAMA "mlp.shared_experts.down_proj"),
    {0},
};
const struct hf_row hf_latents[] = {
    SAME(OURS "self_attention.linear_q_down_proj", LLAMA "self_attn.q_a_proj"),
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_a_layernorm"),
    SAME(OURS "self_attention.linear_q_up_proj", LLAMA "self_attn.q_b_proj"),
    SAME(OURS "self_attention.linear_q_proj", LLAMA "self_attn.q_proj"),
    SAME(OURS "self_attention.linear_kv_down_proj", LLAMA "self_attn.kv_a_proj_with_mqa"),
    SAME(OURS "self_attention.kv_layernorm", LLAMA "self_attn.kv_a_layernorm"),
    SAME(OURS "self_attention.linear_kv_up_proj", LLAMA "self_attn.kv_b_proj"),
    {0},
};
// They carry copies of the embedding and of the output layer.
const struct hf_row hf_depths[] = {
    SAME(OURS "enorm", LLAMA "enorm"),
    SAME(OURS "hnorm", LLAMA "hnorm"),
    SAME(OURS "eh_proj", LLAMA "eh_proj"),
    SAME(OURS "final_layernorm", LLAMA "shared_head.norm"),
    {0},
};

const struct hf_key hf_sizes[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("num_hidden_layers", "--num-layers"),
    NUMBER("hidden_size", "--hidden-size"),
    NUMBER("num_attention_heads", "--num-attention-heads"),
    NUMBER("max_position_embeddings", "--max-position-embeddings"),
    NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    {0},
};
const struct hf_key hf_mlp_width[] = {NUMBER("intermediate_size", "--ffn-hidden-size"), {0}};
const struct hf_key hf_expert_width[] = {NUMBER("intermediate_size", "--moe-ffn-hidden-size/--ffn-hidden-size"), {0}};
const struct hf_key hf_head_width[] = {NUMBER("head_dim", "--kv-channels", .fallback = "-"), {0}};
const struct hf_key hf_head_or_null[] = {
    NUMBER("head_dim", "--kv-channels", .fallback = "128", .has_null = true, .has_none = true), {0}};
const struct hf_key hf_rms[] = {NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-06"),
                                MAP("hidden_act", NULL, "silu= swish=", .fallback = "silu"),
                                {0}};
const struct hf_key hf_layer_norm[] = {NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-05"), {0}};
const struct hf_key hf_silu[] = {MAP("hidden_act", NULL, "silu= swish=", .fallback = "silu"), {0}};
const struct hf_key hf_plain_activation[] = {MAP("hidden_act", "--activation",
                                                 "relu2=squared_relu relu=relu gelu=gelu gelu_new=gelu_tanh " TANH_NAMES
                                                 "silu=silu swish=silu",
                                                 .fallback = "relu2"),
                                             {0}};
const struct hf_key hf_window[] = {NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
                                   {0}};
const struct hf_key hf_attention_bias[] = {SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"), {0}};
const struct hf_key hf_qkv_bias[] = {SWITCH("attention_bias", "--add-qkv-bias", .fallback = "false"), {0}};
const struct hf_key hf_mlp_bias[] = {SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"), {0}};
const struct hf_key hf_use_bias[] = {
    MAP("use_bias", "--disable-bias-linear", "true=false false=true", .fallback = "false"), {0}};
const struct hf_key hf_num_experts[] = {NUMBER("num_experts", "--num-experts"), {0}};
const struct hf_key hf_local_experts[] = {NUMBER("num_local_experts", "--num-experts"), {0}};
const struct hf_key hf_routed_experts[] = {NUMBER("n_routed_experts", "--num-experts"), {0}};
const struct hf_key hf_per_token[] = {NUMBER("num_experts_per_tok", "--moe-router-topk"), {0}};
const struct hf_key hf_moe_width[] = {NUMBER("moe_intermediate_size", "--moe-ffn-hidden-size"), {0}};
const struct hf_key hf_router_factor[] = {
    NUMBER("routed_scaling_factor", "--moe-router-topk-scaling-factor", .fallback = "1"), {0}};
const struct hf_key hf_sums_to_one[] = {
    MAP("norm_topk_prob", "--moe-router-pre-softmax", "true=false false=true", .fallback = "false"), {0}};
const struct hf_key hf_always_one[] = {ONLY("norm_topk_prob", "true"), {0}};
const struct hf_key hf_latent_keys[] = {
    NUMBER("q_lora_rank", "--q-lora-rank", .fallback = "1536", .has_null = true),
    NUMBER("kv_lora_rank", "--kv-lora-rank", .fallback = "512"),
    NUMBER("qk_nope_head_dim", "--qk-head-dim", .fallback = "128"),
    NUMBER("qk_rope_head_dim", "--qk-pos-emb-head-dim", .fallback = "64"),
    NUMBER("v_head_dim", "--v-head-dim", .fallback = "128"),
    ONLY("attention_bias", "false"),
    {0},
};
const struct hf_key hf_latent_rotation[] = {
    MAP("rope_interleave", "--latent-rotary-halves", "true=false false=true", .fallback = "true"), {0}};
const struct hf_key hf_multipliers[] = {
    NUMBER("embedding_multiplier", "--embedding-multiplier", .fallback = "1", .is_positive = true),
    NUMBER("residual_multiplier", "--residual-multiplier", .fallback = "1"),
    NUMBER("logits_scaling", "--logits-scaling", .fallback = "1"),
    NUMBER("attention_multiplier", "--softmax-scale", .fallback = "1"),
    ONLY("attention_bias", "false"),
    {0},
};
const struct hf_key hf_depth_count[] = {NUMBER("num_nextn_predict_layers", "--mtp-num-layers", .fallback = "0"), {0}};

const struct hf_flag hf_rotary[] = {{"--model", "gpt"}, {"--position-embedding-type", "rope"}, {0}};
const struct hf_flag hf_llama[] = {{"--model", "gpt"},
                                   {"--normalization", "RMSNorm"},
                                   {"--swiglu", "true"},
                                   {"--disable-bias-linear", "true"},
                                   {"--position-embedding-type", "rope"},
                                   {0}};
const struct hf_flag hf_no_bias[] = {{"--disable-bias-linear", "true"}, {0}};
const struct hf_flag hf_no_dropout[] = {{"--hidden-dropout", "0"}, {0}};
const struct hf_flag hf_normed_heads[] = {{"--qk-layernorm", "true"}, {0}};
const struct hf_flag hf_all_heads[] = {{"--qk-layernorm", "true"}, {"--qk-layernorm-all-heads", "true"}, {0}};
const struct hf_flag hf_neighbours[] = {{"--rotary-interleaved", "true"}, {0}};
const struct hf_flag hf_parallel[] = {{"--parallel-residual", "true"}, {"--parallel-residual-one-norm", "true"}, {0}};
const struct hf_flag hf_biased_router[] = {
    {"--moe-router-score-function", "sigmoid"}, {"--moe-router-enable-expert-bias", "true"}, {0}};

const struct hf_flag hf_no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {0}};
