// Decoders whose attention and MLP read the same input: GPT-NeoX (which includes Pythia), Phi, GPT-J, Falcon and
// Cohere's. See hf_family.h.
#include "formats/hf_tables_rotary.h"

// ---- GPT-NeoX ----

#define NEOX "gpt_neox.layers.*."
static const struct hf_row gpt_neox_rows[] = {
    SAME("embedding.word_embeddings", "gpt_neox.embed_in"),
    SAME_BIAS(OURS "input_layernorm", NEOX "input_layernorm"),
    {OURS "self_attention.linear_qkv.weight", HF_GROUPS, {NEOX "attention.query_key_value.weight"}},
    {OURS "self_attention.linear_qkv.bias", HF_GROUPS, {NEOX "attention.query_key_value.bias"}},
    SAME_BIAS(OURS "self_attention.linear_proj", NEOX "attention.dense"),
    SAME_BIAS(OURS "pre_mlp_layernorm", NEOX "post_attention_layernorm"),
    SAME_BIAS(OURS "mlp.linear_fc1", NEOX "mlp.dense_h_to_4h"),
    SAME_BIAS(OURS "mlp.linear_fc2", NEOX "mlp.dense_4h_to_h"),
    SAME_BIAS("decoder.final_layernorm", "gpt_neox.final_layer_norm"),
    SAME("output_layer", "embed_out"),
};
static const char *const gpt_neox_ignored[] = {NEOX "attention.bias", NEOX "attention.masked_bias",
                                               NEOX "attention.rotary_emb.inv_freq", "gpt_neox.rotary_emb.inv_freq",
                                               NULL};
static const struct hf_key gpt_neox_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("num_hidden_layers", "--num-layers"),
    NUMBER("hidden_size", "--hidden-size"),
    NUMBER("num_attention_heads", "--num-attention-heads"),
    NUMBER("intermediate_size", "--ffn-hidden-size"),
    NUMBER("max_position_embeddings", "--max-position-embeddings"),
    NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),
    NUMBER("hidden_dropout", "--hidden-dropout", .fallback = "0"),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    MAP("hidden_act", "--activation",
        "gelu=gelu gelu_new=gelu_tanh " TANH_NAMES "relu=relu relu2=squared_relu silu=silu swish=silu",
        .fallback = "gelu"),
    SWITCH("use_parallel_residual", "--parallel-residual", .fallback = "true"),
    MAP("attention_bias", "--disable-bias-linear/--add-mlp-bias", "true=false/false false=true/true",
        .fallback = "true"),
};
static const struct hf_flag gpt_neox_flags[] = {{"--model", "gpt"}, {"--position-embedding-type", "rope"}};

// ---- Phi ----

#define PHI "model.layers.*."
#define OUTPUT                                                                                                         \
    SAME("output_layer", "lm_head"), {                                                                                 \
        "output_layer.bias", HF_SAME, {                                                                                \
            "lm_head.bias"                                                                                             \
        }                                                                                                              \
    }
static const struct hf_row phi_rows[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    SAME_BIAS(OURS "input_layernorm", PHI "input_layernorm"),
    JOINED_BIAS(OURS "self_attention.linear_qkv", PHI "self_attn.q_proj", PHI "self_attn.k_proj",
                PHI "self_attn.v_proj"),
    SAME_BIAS(OURS "self_attention.linear_proj", PHI "self_attn.dense"),
    SAME_BIAS(OURS "mlp.linear_fc1", PHI "mlp.fc1"),
    SAME_BIAS(OURS "mlp.linear_fc2", PHI "mlp.fc2"),
    SAME_BIAS("decoder.final_layernorm", "model.final_layernorm"),
    OUTPUT,
};
static const char *const phi_ignored[] = {PHI "self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq", NULL};
static const struct hf_key phi_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("num_hidden_layers", "--num-layers"),
    NUMBER("hidden_size", "--hidden-size"),
    NUMBER("num_attention_heads", "--num-attention-heads"),
    NUMBER("intermediate_size", "--ffn-hidden-size"),
    NUMBER("max_position_embeddings", "--max-position-embeddings"),
    NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),
    NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0"),
    NUMBER("embd_pdrop", "--hidden-dropout", .is_written = true),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    MAP("hidden_act", "--activation", "gelu_new=gelu_tanh " TANH_NAMES PLAIN_ACTIVATIONS, .fallback = "gelu_new"),
    ONLY("qk_layernorm", "false"),
};
static const struct hf_flag phi_flags[] = {{"--model", "gpt"},
                                           {"--position-embedding-type", "rope"},
                                           {"--parallel-residual", "true"},
                                           {"--parallel-residual-one-norm", "true"},
                                           {"--add-output-bias", "true"}};

// ---- GPT-J ----

#define GPTJ "transformer.h.*."
static const struct hf_row gptj_rows[] = {
    SAME("embedding.word_embeddings", "transformer.wte"),
    SAME_BIAS(OURS "input_layernorm", GPTJ "ln_1"),
    JOINED(OURS "self_attention.linear_qkv", GPTJ "attn.q_proj", GPTJ "attn.k_proj", GPTJ "attn.v_proj"),
    SAME(OURS "self_attention.linear_proj", GPTJ "attn.out_proj"),
    SAME_BIAS(OURS "mlp.linear_fc1", GPTJ "mlp.fc_in"),
    SAME_BIAS(OURS "mlp.linear_fc2", GPTJ "mlp.fc_out"),
    SAME_BIAS("decoder.final_layernorm", "transformer.ln_f"),
    OUTPUT,
};
static const char *const gptj_ignored[] = {GPTJ "attn.bias", GPTJ "attn.masked_bias", GPTJ "attn.embed_positions",
                                           NULL};
static const struct hf_key gptj_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("n_layer", "--num-layers"),
    NUMBER("n_embd", "--hidden-size"),
    NUMBER("n_head", "--num-attention-heads"),
    NUMBER("n_positions", "--max-position-embeddings"),
    NUMBER("n_inner", "--ffn-hidden-size", .fallback = "-"),
    NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
    NUMBER("attn_pdrop", "--attention-dropout", .fallback = "0"),
    NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0"),
    NUMBER("embd_pdrop", "--hidden-dropout", .is_written = true),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    MAP("activation_function", "--activation", "gelu_new=gelu_tanh " TANH_NAMES PLAIN_ACTIVATIONS,
        .fallback = "gelu_new"),
};
static const struct hf_flag gptj_flags[] = {{"--model", "gpt"},
                                            {"--position-embedding-type", "rope"},
                                            {"--rotary-interleaved", "true"},
                                            {"--rotary-base", "10000"},
                                            {"--parallel-residual", "true"},
                                            {"--parallel-residual-one-norm", "true"},
                                            {"--disable-bias-linear", "true"},
                                            {"--add-mlp-bias", "true"},
                                            {"--add-output-bias", "true"}};

// ---- Falcon ----

#define FALCON "transformer.h.*."
#define FALCON_LAYERS                                                                                                  \
    SAME("embedding.word_embeddings", "transformer.word_embeddings"),                                                  \
        {OURS "self_attention.linear_qkv.weight", HF_GROUPS, {FALCON "self_attention.query_key_value.weight"}},        \
        {OURS "self_attention.linear_qkv.bias", HF_GROUPS, {FALCON "self_attention.query_key_value.bias"}},            \
        SAME_BIAS(OURS "self_attention.linear_proj", FALCON "self_attention.dense"),                                   \
        SAME_BIAS(OURS "mlp.linear_fc1", FALCON "mlp.dense_h_to_4h"),                                                  \
        SAME_BIAS(OURS "mlp.linear_fc2", FALCON "mlp.dense_4h_to_h"),                                                  \
        SAME_BIAS("decoder.final_layernorm", "transformer.ln_f"), SAME("output_layer", "lm_head")
static const struct hf_row falcon_rows[] = {FALCON_LAYERS, SAME_BIAS(OURS "input_layernorm", FALCON "input_layernorm"),
                                            SAME_BIAS(OURS "pre_mlp_layernorm", FALCON "post_attention_layernorm")};
static const struct hf_row falcon_two_rows[] = {FALCON_LAYERS, SAME_BIAS(OURS "input_layernorm", FALCON "ln_attn"),
                                                SAME_BIAS(OURS "pre_mlp_layernorm", FALCON "ln_mlp")};
static const char *const falcon_ignored[] = {FALCON "self_attention.rotary_emb.inv_freq", NULL};
#define FALCON_KEYS                                                                                                    \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("num_hidden_layers", "--num-layers"),                          \
        NUMBER("hidden_size", "--hidden-size"), NUMBER("num_attention_heads", "--num-attention-heads"),                \
        NUMBER("ffn_hidden_size", "--ffn-hidden-size", .fallback = "-"),                                               \
        NUMBER("max_position_embeddings", "--max-position-embeddings", .fallback = "2048"),                            \
        NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),                                           \
        NUMBER("hidden_dropout", "--hidden-dropout", .fallback = "0"),                                                 \
        NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),                                          \
        NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),                                           \
        MAP("activation", "--activation",                                                                              \
            "gelu=gelu gelu_new=gelu_tanh " TANH_NAMES "relu=relu relu2=squared_relu silu=silu", .fallback = "gelu"),  \
        MAP("bias", "--disable-bias-linear", "true=false false=true", .fallback = "false"),                            \
        MAP("alibi", "--position-embedding-type/--scale-alibi", "false=rope/false true=alibi/true",                    \
            .fallback = "false")
static const struct hf_key falcon_keys[] = {
    FALCON_KEYS,
    MAP("parallel_attn", "--parallel-residual/--parallel-residual-one-norm", "true=true/true false=false/false",
        .fallback = "true"),
    ONLY("new_decoder_architecture", "false"),
    READ_ONLY("num_ln_in_parallel_attn", "1"),
};
// The new architecture has groups of heads, and separate norms for attention and MLP unless the member below is 1.
static const struct hf_key falcon_one_keys[] = {FALCON_KEYS, ONLY("parallel_attn", "true"),
                                                ONLY("new_decoder_architecture", "true"),
                                                ONLY("num_ln_in_parallel_attn", "1")};
static const struct hf_key falcon_two_keys[] = {FALCON_KEYS, ONLY("parallel_attn", "true"),
                                                ONLY("new_decoder_architecture", "true"),
                                                ONLY("num_ln_in_parallel_attn", "2")};
static const struct hf_flag falcon_flags[] = {{"--model", "gpt"}};
static const struct hf_flag falcon_one_flags[] = {
    {"--model", "gpt"}, {"--parallel-residual", "true"}, {"--parallel-residual-one-norm", "true"}};
static const struct hf_flag falcon_two_flags[] = {
    {"--model", "gpt"}, {"--parallel-residual", "true"}, {"--parallel-residual-one-norm", "false"}};

// ---- Cohere's Command R ----

static const struct hf_row cohere_rows[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    SAME(OURS "input_layernorm", LLAMA "input_layernorm"),
    JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
                LLAMA "self_attn.v_proj"),
    SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_norm"),
    SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.k_norm"),
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},
    SAME(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"),
    SAME("decoder.final_layernorm", "model.norm"),
    SAME("output_layer", "lm_head"),
};
#define COHERE_KEYS                                                                                                    \
    SIZE_KEYS("0.02"), NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-05"), SILU,                          \
        NUMBER("logit_scale", "--logits-scaling", .fallback = "0.0625", .is_inverse = true),                           \
        SWITCH("attention_bias", "--add-attention-bias", .fallback = "false")
static const struct hf_key cohere_keys[] = {
    COHERE_KEYS,
    MAP("use_qk_norm", "--qk-layernorm/--qk-layernorm-per-head", "false=false/false true=true/true",
        .fallback = "false"),
};
static const struct hf_key cohere2_keys[] = {
    COHERE_KEYS,
    NUMBER("sliding_window", "--sliding-window", .fallback = "4096", .has_null = true),
};
static const struct hf_flag cohere_flags[] = {{"--model", "gpt"},
                                              {"--no-norm-bias", "true"},
                                              {"--swiglu", "true"},
                                              {"--disable-bias-linear", "true"},
                                              {"--position-embedding-type", "rope"},
                                              {"--rotary-interleaved", "true"},
                                              {"--parallel-residual", "true"},
                                              {"--parallel-residual-one-norm", "true"},
                                              {"--hidden-dropout", "0"}};

static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}};
static const struct hf_flag no_pad[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}};

#define FALCON_HARMLESS "apply_residual_connection_post_layernorm=false ff_factor=4"
#define FALCON_FAMILY                                                                                                  \
    .model_type = "falcon", .architecture = "FalconForCausalLM", .prefix = "transformer.",                             \
    .embedding = "transformer.word_embeddings.weight", .head = "lm_head.weight", .tie = "true", .has_rope = true,      \
    .rope_kinds = "default linear"
static const struct hf_family families[] = {
    {.model_type = "gpt_neox",
     .architecture = "GPTNeoXForCausalLM",
     .prefix = "gpt_neox.",
     .embedding = "gpt_neox.embed_in.weight",
     .head = "embed_out.weight",
     .tie = "false",
     .has_rope = true,
     .rope_kinds = "default linear",
     .has_no_groups = true,
     .rotary_base_key = "rotary_emb_base",
     .rotary_part_key = "rotary_pct",
     .rotary_part = "0.25",
     .harmless = "attention_probs_dropout_prob hidden_dropout_prob rope_theta=@rotary_emb_base "
                 "partial_rotary_factor=@rotary_pct",
     TABLES(gpt_neox, gpt_neox_ignored, no_ids, gpt_neox_flags)},
    {.model_type = "phi",
     .architecture = "PhiForCausalLM",
     .prefix = "model.",
     .embedding = "model.embed_tokens.weight",
     .head = "lm_head.weight",
     .tie = "false",
     .has_rope = true,
     .rope_kinds = "default linear",
     .rotary_part = "0.5",
     TABLES(phi, phi_ignored, no_ids, phi_flags)},
    {.model_type = "gptj",
     .architecture = "GPTJForCausalLM",
     .prefix = "transformer.",
     .embedding = "transformer.wte.weight",
     .head = "lm_head.weight",
     .tie = "false",
     .has_rope = true,
     .rope_kinds = "default",
     .has_no_groups = true,
     .rotary_channels_key = "rotary_dim",
     .harmless = "rotary=true scale_attn_weights=true n_ctx",
     TABLES(gptj, gptj_ignored, no_ids, gptj_flags)},
    {FALCON_FAMILY, .has_no_groups = true, .has_multi_query = true, .harmless = FALCON_HARMLESS " num_kv_heads",
     TABLES(falcon, falcon_ignored, no_ids, falcon_flags)},
    {FALCON_FAMILY, .conditions = {{"new_decoder_architecture", "true"}}, .groups_key = "num_kv_heads",
     .harmless = FALCON_HARMLESS " multi_query", TABLES(falcon_two, falcon_ignored, no_ids, falcon_two_flags)},
    {FALCON_FAMILY, .conditions = {{"new_decoder_architecture", "true"}, {"num_ln_in_parallel_attn", "1"}},
     .groups_key = "num_kv_heads", .harmless = FALCON_HARMLESS " multi_query", .rows = falcon_rows,
     .row_count = COUNT(falcon_rows), .keys = falcon_one_keys, .key_count = COUNT(falcon_one_keys),
     .ignored = falcon_ignored, .flags = falcon_one_flags, .flag_count = COUNT(falcon_one_flags), .written = no_ids,
     .written_count = COUNT(no_ids)},
    {ROTARY("cohere", "CohereForCausalLM"), .tie = "true", .rotary_base = "500000", .needs_rotary_base = true,
     TABLES(cohere, phi_ignored, no_pad, cohere_flags)},
    {ROTARY("cohere2", "Cohere2ForCausalLM"), .tie = "true",
     .harmless = "_sliding_window_pattern rotary_pct=1.0 position_embedding_type=rope_gptj "
                 "order_of_interleaved_layers=local_attn_first "
                 "use_embedding_sharing=true use_gated_activation=true use_parallel_block=true use_parallel_embedding "
                 "layer_switch=4",
     .window_freq = "4", .needs_window = true, .has_whole_without_rope = true, .rows = cohere_rows,
     .row_count = COUNT(cohere_rows), .keys = cohere2_keys, .key_count = COUNT(cohere2_keys), .ignored = phi_ignored,
     .flags = cohere_flags, .flag_count = COUNT(cohere_flags), .written = no_pad, .written_count = COUNT(no_pad)},
};

struct hf_families hf_families_parallel(void) {
    return (struct hf_families){families, COUNT(families)};
}
