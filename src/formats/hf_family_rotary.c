// Decoders with rotary positions: Llama, Mistral, Qwen, Phi-3, Starcoder2, StableLM, Nemotron, Granite, SmolLM3,
// Gemma, OLMo 2 and OLMo 3. See hf_family.h.
#include "formats/hf_tables_rotary.h"

// ---- Llama and Mistral ----

// Queries, keys and values in one matrix, and the gate stacked above the other half of the MLP's input matrix.
#define FUSED                                                                                                          \
    SAME(OURS "self_attention.linear_qkv", LLAMA "self_attn.qkv_proj"),                                                \
        SAME(OURS "mlp.linear_fc1", LLAMA "mlp.gate_up_proj")
#define FUSED_BIAS                                                                                                     \
    SAME_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.qkv_proj"),                                           \
        SAME_BIAS(OURS "mlp.linear_fc1", LLAMA "mlp.gate_up_proj")
static const struct hf_row llama_rows[] = {LLAMA_ATTENTION, HEAD_NORMS, GATED_MLP, FUSED_BIAS};
static const char *const llama_ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq", NULL};
static const struct hf_key llama_keys[] = {
    LLAMA_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
};
static const struct hf_key mistral_keys[] = {
    LLAMA_KEYS,
    NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
};
static const struct hf_key qwen2_keys[] = {LLAMA_KEYS};
static const struct hf_flag qwen2_flags[] = {{"--model", "gpt"},         {"--normalization", "RMSNorm"},
                                             {"--swiglu", "true"},       {"--disable-bias-linear", "true"},
                                             {"--add-qkv-bias", "true"}, {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"}};
static const struct hf_key qwen3_keys[] = {
    SIZE_KEYS("0.02"),
    NUMBER("head_dim", "--kv-channels", .fallback = "128"),
    RMS_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
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

// ---- Phi-3 ----

static const struct hf_row phi3_rows[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    SAME(OURS "input_layernorm", LLAMA "input_layernorm"),
    FUSED,
    SAME(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),
    SAME(OURS "pre_mlp_layernorm", LLAMA "post_attention_layernorm"),
    SAME(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"),
    SAME("decoder.final_layernorm", "model.norm"),
    SAME("output_layer", "lm_head"),
    JOINED(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
           LLAMA "self_attn.v_proj"),
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},
};
static const struct hf_key phi3_keys[] = {
    ROTARY_KEYS("0.02"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0"),
    NUMBER("sliding_window", "--sliding-window", .fallback = "0", .has_null = true),
    // Required by llama.cpp's converter.
    NUMBER("original_max_position_embeddings", "--max-position-embeddings", .is_written = true),
    SILU,
    READ_ONLY("attention_bias", "false"),
    READ_ONLY("mlp_bias", "false"),
    READ_ONLY("lm_head_bias", "false"),
};

static const struct hf_flag phi3_flags[] = {{"--model", "gpt"},
                                            {"--normalization", "RMSNorm"},
                                            {"--swiglu", "true"},
                                            {"--disable-bias-linear", "true"},
                                            {"--position-embedding-type", "rope"}};

// ---- Starcoder2 ----

static const struct hf_row starcoder2_rows[] = {
    NORMED_LAYERS,
    SAME_BIAS(OURS "mlp.linear_fc1", LLAMA "mlp.c_fc"),
    SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.c_proj"),
};
static const struct hf_key starcoder2_keys[] = {
    ROTARY_KEYS("0.018042"),
    NUMBER("norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
    NUMBER("residual_dropout", "--hidden-dropout", .fallback = "0"),
    NUMBER("sliding_window", "--sliding-window", .fallback = "0", .has_null = true),
    MAP("hidden_act", "--activation",
        "gelu_pytorch_tanh=gelu_tanh gelu_new=gelu_tanh gelu_fast=gelu_tanh " PLAIN_ACTIVATIONS,
        .fallback = "gelu_pytorch_tanh"),
    MAP("use_bias", "--disable-bias-linear", "true=false false=true", .fallback = "true"),
    READ_ONLY("norm_type", "layer_norm"),
    READ_ONLY("mlp_type", "default"),
};
static const struct hf_flag starcoder2_flags[] = {{"--model", "gpt"}, {"--position-embedding-type", "rope"}};

// ---- StableLM ----

static const struct hf_row stablelm_rows[] = {
    NORMED_LAYERS,
    {OURS "self_attention.q_layernorm.weight", HF_NUMBERED, {LLAMA "self_attn.q_layernorm.norms.*.weight"}},
    {OURS "self_attention.k_layernorm.weight", HF_NUMBERED, {LLAMA "self_attn.k_layernorm.norms.*.weight"}},
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},
    SAME(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"),
};
static const struct hf_key stablelm_keys[] = {
    SIZE_KEYS("0.02"),
    NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    NUMBER("hidden_dropout", "--hidden-dropout", .fallback = "0"),
    SILU,
    SWITCH("use_qkv_bias", "--add-qkv-bias", .fallback = "false"),
    MAP("use_parallel_residual", "--parallel-residual/--parallel-residual-one-norm", "false=false/false true=true/true",
        .fallback = "false"),
    MAP("qk_layernorm", "--qk-layernorm/--qk-layernorm-per-head", "false=false/false true=true/true",
        .fallback = "false"),
};
static const struct hf_flag stablelm_flags[] = {
    {"--model", "gpt"}, {"--swiglu", "true"}, {"--disable-bias-linear", "true"}, {"--position-embedding-type", "rope"}};

// ---- Nemotron ----

static const struct hf_row nemotron_rows[] = {NORMED_LAYERS, PLAIN_MLP};
static const struct hf_key nemotron_keys[] = {
    ROTARY_KEYS("0.0134"),
    NUMBER("norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    PLAIN_ACTIVATION,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
};
static const struct hf_flag nemotron_flags[] = {{"--model", "gpt"},
                                                {"--disable-bias-linear", "true"},
                                                {"--position-embedding-type", "rope"},
                                                {"--hidden-dropout", "0"}};

// ---- Granite, SmolLM3 and Gemma: Llama's layers ----

static const struct hf_key granite_keys[] = {
    LLAMA_KEYS,
    NUMBER("embedding_multiplier", "--embedding-multiplier", .fallback = "1", .is_positive = true),
    NUMBER("residual_multiplier", "--residual-multiplier", .fallback = "1"),
    NUMBER("logits_scaling", "--logits-scaling", .fallback = "1"),
    NUMBER("attention_multiplier", "--softmax-scale", .fallback = "1"),
    ONLY("attention_bias", "false"),
    ONLY("mlp_bias", "false"),
};
static const struct hf_key smollm3_keys[] = {
    LLAMA_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
    ONLY("use_sliding_window", "false"),
};
static const struct hf_key gemma_keys[] = {
    SIZE_KEYS("0.02"),
    NUMBER("head_dim", "--kv-channels", .fallback = "256"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-06"),
    // The first releases write gelu and mean the tanh form; transformers reads it so.
    MAP("hidden_act", NULL, "gelu_pytorch_tanh= gelu=", .fallback = "gelu_pytorch_tanh"),
    // Its name in transformers 4, which reads this one first.
    MAP("hidden_activation", NULL, "gelu_pytorch_tanh=", .fallback = "gelu_pytorch_tanh"),
    ONLY("attention_bias", "false"),
    READ_ONLY("use_bidirectional_attention", "false"),
};
static const struct hf_flag gemma_flags[] = {{"--model", "gpt"},
                                             {"--normalization", "RMSNorm"},
                                             {"--activation", "gelu_tanh"},
                                             {"--gated-linear-unit", "true"},
                                             {"--disable-bias-linear", "true"},
                                             {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"}};

// ---- OLMo 2 and OLMo 3 ----

static const struct hf_row olmo2_rows[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
                LLAMA "self_attn.v_proj"),
    SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_norm"),
    SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.k_norm"),
    SAME(OURS "post_attention_layernorm", LLAMA "post_attention_layernorm"),
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},
    SAME(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"),
    SAME(OURS "post_mlp_layernorm", LLAMA "post_feedforward_layernorm"),
    SAME("decoder.final_layernorm", "model.norm"),
    SAME("output_layer", "lm_head"),
};
static const struct hf_key olmo2_keys[] = {
    ROTARY_KEYS("0.02"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    SILU,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
};
static const struct hf_key olmo3_keys[] = {
    ROTARY_KEYS("0.02"),
    NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    SILU,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
};
static const struct hf_flag olmo2_flags[] = {{"--model", "gpt"},
                                             {"--normalization", "RMSNorm"},
                                             {"--norm-placement", "output"},
                                             {"--qk-layernorm", "true"},
                                             {"--qk-layernorm-all-heads", "true"},
                                             {"--swiglu", "true"},
                                             {"--disable-bias-linear", "true"},
                                             {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"}};

// The defaults are ids of their own vocabularies, which another model may lack.
static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}};

#define LIKE_LLAMA(type, class)                                                                                        \
    ROTARY(type, class), .tie = "false", .rows = llama_rows, .row_count = COUNT(llama_rows), .ignored = llama_ignored, \
                         .written = llama_written, .written_count = COUNT(llama_written)

static const struct hf_family families[] = {
    {LIKE_LLAMA("llama", "LlamaForCausalLM"), .harmless = "activation=swiglu bias=false qkv_bias=false",
     .keys = llama_keys, .key_count = COUNT(llama_keys), .flags = llama_flags, .flag_count = COUNT(llama_flags)},
    {LIKE_LLAMA("mistral", "MistralForCausalLM"), .groups = "8", .keys = mistral_keys, .key_count = COUNT(mistral_keys),
     .flags = llama_flags, .flag_count = COUNT(llama_flags)},
    // Chunked attention is for sequences longer than in training, and transformers lacks it.
    {LIKE_LLAMA("qwen2", "Qwen2ForCausalLM"), .harmless = "dual_chunk_attention_config", .groups = "32",
     .window_switch = HF_WINDOWS_LATE, .keys = qwen2_keys, .key_count = COUNT(qwen2_keys), .flags = qwen2_flags,
     .flag_count = COUNT(qwen2_flags)},
    {LIKE_LLAMA("qwen3", "Qwen3ForCausalLM"), .groups = "32", .window_switch = HF_WINDOWS_LATE, .keys = qwen3_keys,
     .key_count = COUNT(qwen3_keys), .flags = qwen3_flags, .flag_count = COUNT(qwen3_flags)},
    {ROTARY("phi3", "Phi3ForCausalLM"), .tie = "false", .rope_kinds = "default longrope",
     .harmless = "full_attn_mod=1 interpolate_factor=1", .has_longrope = true, .rotary_part = "1",
     TABLES(phi3, llama_ignored, no_ids, phi3_flags)},
    {ROTARY("starcoder2", "Starcoder2ForCausalLM"), .tie = "true", .groups = "2",
     .harmless = "activation_function=gelu activation_function=@hidden_act layer_norm_epsilon=@norm_epsilon "
                 "scale_attn_weights=true",
     TABLES(starcoder2, llama_ignored, no_ids, starcoder2_flags)},
    {ROTARY("stablelm", "StableLmForCausalLM"), .tie = "false", .groups = "32", .rotary_part = "0.25",
     .harmless = "num_heads=@num_attention_heads rope_pct=@partial_rotary_factor norm_eps=@layer_norm_eps "
                 "rotary_scaling_factor=1.0",
     TABLES(stablelm, llama_ignored, no_ids, stablelm_flags)},
    {ROTARY("nemotron", "NemotronForCausalLM"), .tie = "false", .rope_kinds = "default", .rotary_part = "0.5",
     .has_centered_gains = true, .harmless = "rope_percent=@partial_rotary_factor kv_channels=@head_dim",
     TABLES(nemotron, llama_ignored, no_ids, nemotron_flags)},
    {LIKE_LLAMA("granite", "GraniteForCausalLM"), .keys = granite_keys, .key_count = COUNT(granite_keys),
     .flags = llama_flags, .flag_count = COUNT(llama_flags)},
    {ROTARY("olmo2", "Olmo2ForCausalLM"), .tie = "false", TABLES(olmo2, llama_ignored, no_ids, olmo2_flags)},
    {ROTARY("olmo3", "Olmo3ForCausalLM"), .tie = "false", .rotary_base = "500000", .needs_rotary_base = true,
     .window_freq = "4", .needs_window = true, .local_base = "500000", .has_nested_rope = true, .rows = olmo2_rows,
     .row_count = COUNT(olmo2_rows), .ignored = llama_ignored, .written = no_ids, .written_count = COUNT(no_ids),
     .keys = olmo3_keys, .key_count = COUNT(olmo3_keys), .flags = olmo2_flags, .flag_count = COUNT(olmo2_flags)},
    {ROTARY("smollm3", "SmolLM3ForCausalLM"), .tie = "true", .harmless = "max_window_layers", .groups = "4",
     .rotary_base = "2000000", .rows = llama_rows, .row_count = COUNT(llama_rows), .ignored = llama_ignored,
     .written = no_ids, .written_count = COUNT(no_ids), .has_no_rope_layers = true, .keys = smollm3_keys,
     .key_count = COUNT(smollm3_keys), .flags = llama_flags, .flag_count = COUNT(llama_flags)},
    {ROTARY("gemma", "GemmaForCausalLM"), .tie = "true", .groups = "16", .scales_embedding = true,
     .has_centered_gains = true, .rows = llama_rows, .row_count = COUNT(llama_rows), .ignored = llama_ignored,
     .written = no_ids, .written_count = COUNT(no_ids), .keys = gemma_keys, .key_count = COUNT(gemma_keys),
     .flags = gemma_flags, .flag_count = COUNT(gemma_flags)},
};

struct hf_families hf_families_rotary(void) {
    return (struct hf_families){families, COUNT(families)};
}
