// Decoders whose attention and MLP read the same input: GPT-NeoX, of which Pythia is one. See hf_family.h.
#include "checkpoint/hf_tables.h"

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

static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}};

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
     TABLES(gpt_neox, gpt_neox_ignored, no_ids, gpt_neox_flags)},
};

struct hf_families hf_families_parallel(void) {
    return (struct hf_families){families, COUNT(families)};
}
