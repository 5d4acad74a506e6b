// Decoders whose scores fall with the distance of keys (ALiBi): BLOOM and MPT. Falcon, which may have that too, is in
// hf_family_parallel.c. See hf_family.h.
#include "formats/hf_tables.h"

static const struct hf_flag no_ids[] = {{"bos_token_id", "null"}, {"eos_token_id", "null"}};
static const char *const nothing_ignored[] = {NULL};

// ---- BLOOM ----

#define BLOOM "transformer.h.*."
static const struct hf_row bloom_rows[] = {
    SAME("embedding.word_embeddings", "transformer.word_embeddings"),
    SAME_BIAS("embedding.layernorm", "transformer.word_embeddings_layernorm"),
    SAME_BIAS(OURS "input_layernorm", BLOOM "input_layernorm"),
    {OURS "self_attention.linear_qkv.weight", HF_GROUPS, {BLOOM "self_attention.query_key_value.weight"}},
    {OURS "self_attention.linear_qkv.bias", HF_GROUPS, {BLOOM "self_attention.query_key_value.bias"}},
    SAME_BIAS(OURS "self_attention.linear_proj", BLOOM "self_attention.dense"),
    SAME_BIAS(OURS "pre_mlp_layernorm", BLOOM "post_attention_layernorm"),
    SAME_BIAS(OURS "mlp.linear_fc1", BLOOM "mlp.dense_h_to_4h"),
    SAME_BIAS(OURS "mlp.linear_fc2", BLOOM "mlp.dense_4h_to_h"),
    SAME_BIAS("decoder.final_layernorm", "transformer.ln_f"),
    SAME("output_layer", "lm_head"),
};
// The released models have older names for the width and the heads. Only the largest gives its sequence length.
static const struct hf_key bloom_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("n_layer", "--num-layers", .fallback = "-"),
    NUMBER("num_hidden_layers", "--num-layers", .fallback = "-", .is_read = true),
    NUMBER("hidden_size", "--hidden-size", .fallback = "-"),
    NUMBER("n_embed", "--hidden-size", .fallback = "-", .is_read = true),
    NUMBER("n_head", "--num-attention-heads", .fallback = "-"),
    NUMBER("num_attention_heads", "--num-attention-heads", .fallback = "-", .is_read = true),
    NUMBER("seq_length", "--max-position-embeddings", .fallback = "2048"),
    NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
    NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),
    NUMBER("hidden_dropout", "--hidden-dropout", .fallback = "0"),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    ONLY("apply_residual_connection_post_layernorm", "false"),
    READ_ONLY("slow_but_exact", "false"),
};
static const struct hf_flag bloom_flags[] = {{"--model", "gpt"},
                                             {"--position-embedding-type", "alibi"},
                                             {"--embed-layernorm", "true"},
                                             {"--activation", "gelu_tanh"}};

// ---- MPT ----

#define MPT "transformer.blocks.*."
static const struct hf_row mpt_rows[] = {
    SAME("embedding.word_embeddings", "transformer.wte"),
    SAME(OURS "input_layernorm", MPT "norm_1"),
    SAME(OURS "self_attention.linear_qkv", MPT "attn.Wqkv"),
    SAME(OURS "self_attention.linear_proj", MPT "attn.out_proj"),
    SAME(OURS "pre_mlp_layernorm", MPT "norm_2"),
    SAME(OURS "mlp.linear_fc1", MPT "ffn.up_proj"),
    SAME(OURS "mlp.linear_fc2", MPT "ffn.down_proj"),
    SAME("decoder.final_layernorm", "transformer.norm_f"),
    SAME("output_layer", "lm_head"),
};
// transformers reads the scale and the dropout of attn_config, and clip_qkv. MosaicML's own program reads the others,
// so their values must agree with what transformers computes.
#define ATTENTION(name) "attn_config." name
static const struct hf_key mpt_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("n_layers", "--num-layers"),
    NUMBER("d_model", "--hidden-size"),
    NUMBER("n_heads", "--num-attention-heads"),
    ONLY("expansion_ratio", "4"),
    NUMBER("max_seq_len", "--max-position-embeddings", .fallback = "2048"),
    NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
    NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0"),
    NUMBER("emb_pdrop", "--hidden-dropout", .is_written = true),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    ONLY("no_bias", "true"),
    READ_ONLY("logit_scale", "null"),
    MAP("norm_type", NULL, "low_precision_layernorm= layernorm=", .fallback = "layernorm", .is_read = true),
    ONLY(ATTENTION("alibi"), "true"),
    ONLY(ATTENTION("alibi_bias_max"), "8"),
    READ_ONLY(ATTENTION("attn_type"), "multihead_attention"),
    READ_ONLY(ATTENTION("clip_qkv"), "null"),
    READ_ONLY(ATTENTION("prefix_lm"), "false"),
    READ_ONLY(ATTENTION("qk_ln"), "false"),
    READ_ONLY(ATTENTION("attn_uses_sequence_id"), "false"),
    NUMBER(ATTENTION("softmax_scale"), "--softmax-scale", .fallback = "-", .has_null = true, .has_none = true),
    // transformers 5 only accepts integers.
    NUMBER(ATTENTION("attn_pdrop"), "--attention-dropout", .fallback = "0", .is_read = true),
};
static const struct hf_flag mpt_flags[] = {{"--model", "gpt"},
                                           {"--position-embedding-type", "alibi"},
                                           {"--no-norm-bias", "true"},
                                           {"--disable-bias-linear", "true"},
                                           {"--activation", "gelu"}};

static const struct hf_family families[] = {
    {.model_type = "bloom",
     .architecture = "BloomForCausalLM",
     .prefix = "transformer.",
     .embedding = "transformer.word_embeddings.weight",
     .head = "lm_head.weight",
     .tie = "true",
     .harmless = "masked_softmax_fusion bias_dropout_fusion offset_alibi skip_bias_add skip_bias_add_qkv "
                 "hidden_dropout_prob n_inner=null",
     TABLES(bloom, nothing_ignored, no_ids, bloom_flags)},
    {.model_type = "mpt",
     .architecture = "MptForCausalLM",
     .prefix = "transformer.",
     .embedding = "transformer.wte.weight",
     .head = "lm_head.weight",
     .tie = "true",
     .object = "attn_config",
     .harmless =
         "embedding_fraction=1 embedding_fraction=1.0 init_device init_config verbose learned_pos_emb model_type "
         "attn_impl fc_type=torch use_pad_tok_in_ffn rope=false rope_theta rope_impl rope_dail_config rope_hf_config "
         "kv_n_heads=@n_heads sliding_window_size=-1 fused_qkv=true",
     TABLES(mpt, nothing_ignored, no_ids, mpt_flags)},
};

struct hf_families hf_families_alibi(void) {
    return (struct hf_families){families, COUNT(families)};
}
