// Decoders with learned positions: GPT-2, OPT and GPT-BigCode. See hf_family.h.
#include "formats/hf_tables.h"

// ---- GPT-2 ----

#define GPT2 "transformer.h.*."
static const struct hf_row gpt2_rows[] = {
    SAME("embedding.word_embeddings", "transformer.wte"),
    SAME("embedding.position_embeddings", "transformer.wpe"),
    SAME_BIAS(OURS "input_layernorm", GPT2 "ln_1"),
    TURNED(OURS "self_attention.linear_qkv", GPT2 "attn.c_attn"),
    TURNED(OURS "self_attention.linear_proj", GPT2 "attn.c_proj"),
    SAME_BIAS(OURS "pre_mlp_layernorm", GPT2 "ln_2"),
    TURNED(OURS "mlp.linear_fc1", GPT2 "mlp.c_fc"),
    TURNED(OURS "mlp.linear_fc2", GPT2 "mlp.c_proj"),
    SAME_BIAS("decoder.final_layernorm", "transformer.ln_f"),
    SAME("output_layer", "lm_head"),
};
static const char *const gpt2_ignored[] = {GPT2 "attn.bias", GPT2 "attn.masked_bias", NULL};
#define GPT2_KEYS                                                                                                      \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("n_layer", "--num-layers"), NUMBER("n_embd", "--hidden-size"), \
        NUMBER("n_head", "--num-attention-heads"), NUMBER("n_positions", "--max-position-embeddings"),                 \
        NUMBER("n_inner", "--ffn-hidden-size", .fallback = "-"),                                                       \
        NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),                                           \
        NUMBER("attn_pdrop", "--attention-dropout", .fallback = "0.1"),                                                \
        NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0.1"),                                                  \
        NUMBER("embd_pdrop", "--hidden-dropout", .is_written = true),                                                  \
        NUMBER("n_ctx", "--max-position-embeddings", .is_written = true),                                              \
        NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"), ONLY("scale_attn_weights", "true"),      \
        ONLY("add_cross_attention", "false")
static const struct hf_key gpt2_keys[] = {
    GPT2_KEYS,
    MAP("activation_function", "--activation", "gelu_new=gelu_tanh " TANH_NAMES PLAIN_ACTIVATIONS,
        .fallback = "gelu_new"),
    ONLY("scale_attn_by_inverse_layer_idx", "false"),
};
static const struct hf_flag gpt2_flags[] = {{"--model", "gpt"}};
static const struct hf_flag gpt2_written[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}};

// ---- OPT ----

#define OPT "model.decoder.layers.*."
static const struct hf_row opt_rows[] = {
    SAME("embedding.word_embeddings", "model.decoder.embed_tokens"),
    SAME("embedding.projection", "model.decoder.project_in"),
    SAME("embedding.position_embeddings", "model.decoder.embed_positions"),
    SAME_BIAS(OURS "input_layernorm", OPT "self_attn_layer_norm"),
    SAME_BIAS(OURS "post_attention_layernorm", OPT "self_attn_layer_norm"),
    JOINED_BIAS(OURS "self_attention.linear_qkv", OPT "self_attn.q_proj", OPT "self_attn.k_proj",
                OPT "self_attn.v_proj"),
    SAME_BIAS(OURS "self_attention.linear_proj", OPT "self_attn.out_proj"),
    SAME_BIAS(OURS "pre_mlp_layernorm", OPT "final_layer_norm"),
    SAME_BIAS(OURS "post_mlp_layernorm", OPT "final_layer_norm"),
    SAME_BIAS(OURS "mlp.linear_fc1", OPT "fc1"),
    SAME_BIAS(OURS "mlp.linear_fc2", OPT "fc2"),
    SAME_BIAS("decoder.final_layernorm", "model.decoder.final_layer_norm"),
    SAME("lm_head.projection", "model.decoder.project_out"),
    SAME("output_layer", "lm_head"),
};
static const char *const nothing_ignored[] = {NULL};
static const struct hf_key opt_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("num_hidden_layers", "--num-layers"),
    NUMBER("hidden_size", "--hidden-size"),
    NUMBER("word_embed_proj_dim", "--word-embedding-size", .fallback = "-"),
    NUMBER("num_attention_heads", "--num-attention-heads"),
    NUMBER("max_position_embeddings", "--max-position-embeddings"),
    NUMBER("ffn_dim", "--ffn-hidden-size"),
    NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),
    NUMBER("dropout", "--hidden-dropout", .fallback = "0.1"),
    NUMBER("init_std", "--init-method-std", .fallback = "0.02"),
    MAP("activation_function", "--activation",
        "relu=relu relu2=squared_relu gelu=gelu gelu_new=gelu_tanh " TANH_NAMES "silu=silu swish=silu",
        .fallback = "relu"),
    MAP("do_layer_norm_before", "--norm-placement", "true=pre false=post", .fallback = "true"),
    ONLY("_remove_final_layer_norm", "false"),
    MAP("enable_bias", "--disable-bias-linear", "true=false false=true", .fallback = "true"),
    ONLY("layer_norm_elementwise_affine", "true"),
};
static const struct hf_flag opt_flags[] = {{"--model", "gpt"}, {"--position-offset", "2"}, {"--norm-epsilon", "1e-05"}};
static const struct hf_flag opt_written[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "1"}};

// ---- GPT-BigCode ----

// GPT-2 with matrices that are not transposed, and with a key and a value that all heads share.
static const struct hf_row gpt_bigcode_rows[] = {
    SAME("embedding.word_embeddings", "transformer.wte"),
    SAME("embedding.position_embeddings", "transformer.wpe"),
    SAME_BIAS(OURS "input_layernorm", GPT2 "ln_1"),
    {OURS "self_attention.linear_qkv.weight", HF_GROUPS, {GPT2 "attn.c_attn.weight"}},
    {OURS "self_attention.linear_qkv.bias", HF_GROUPS, {GPT2 "attn.c_attn.bias"}},
    SAME_BIAS(OURS "self_attention.linear_proj", GPT2 "attn.c_proj"),
    SAME_BIAS(OURS "pre_mlp_layernorm", GPT2 "ln_2"),
    SAME_BIAS(OURS "mlp.linear_fc1", GPT2 "mlp.c_fc"),
    SAME_BIAS(OURS "mlp.linear_fc2", GPT2 "mlp.c_proj"),
    SAME_BIAS("decoder.final_layernorm", "transformer.ln_f"),
    SAME("output_layer", "lm_head"),
};
static const struct hf_key gpt_bigcode_keys[] = {
    GPT2_KEYS,
    MAP("activation_function", "--activation",
        "gelu_pytorch_tanh=gelu_tanh gelu_new=gelu_tanh gelu_fast=gelu_tanh " PLAIN_ACTIVATIONS,
        .fallback = "gelu_pytorch_tanh"),
};
static const struct hf_flag gpt_bigcode_written[] = {
    {"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}};

static const struct hf_family families[] = {
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .prefix = "transformer.",
     .embedding = "transformer.wte.weight",
     .head = "lm_head.weight",
     .tie = "true",
     .harmless = "n_special predict_special_tokens",
     TABLES(gpt2, gpt2_ignored, gpt2_written, gpt2_flags)},
    {.model_type = "opt",
     .architecture = "OPTForCausalLM",
     .prefix = "model.",
     .embedding = "model.decoder.embed_tokens.weight",
     .head = "lm_head.weight",
     .tie = "true",
     .harmless = "output_projection=true learned_embeddings=true scale_embeddings=false",
     TABLES(opt, nothing_ignored, opt_written, opt_flags)},
    {.model_type = "gpt_bigcode",
     .architecture = "GPTBigCodeForCausalLM",
     .prefix = "transformer.",
     .embedding = "transformer.wte.weight",
     .head = "lm_head.weight",
     .tie = "true",
     .has_multi_query = true,
     .harmless = "num_key_value_heads inference_runner validate_runner_input pre_allocate_kv_cache max_batch_size "
                 "pad_key_length",
     TABLES(gpt_bigcode, gpt2_ignored, gpt_bigcode_written, gpt2_flags)},
};

struct hf_families hf_families_learned(void) {
    return (struct hf_families){families, COUNT(families)};
}
