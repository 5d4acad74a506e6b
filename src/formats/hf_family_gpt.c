// Decoders with names of their own: with learned positions, with attention and MLP that read the same input, and with
// scores that fall with the distance of keys (ALiBi). See hf_family.h.
#include "formats/hf_parts.h"

#define BLOCK "transformer.h.*."
static const char *const gpt2_buffers[] = {BLOCK "attn.bias", BLOCK "attn.masked_bias", BLOCK "attn.embed_positions",
                                           NULL};
static const char *const no_buffers[] = {NULL};
static const struct hf_flag gpt[] = {{"--model", "gpt"}, {0}};
static const struct hf_flag alibi[] = {{"--model", "gpt"}, {"--position-embedding-type", "alibi"}, {0}};

// ---- learned positions ----

static const struct hf_row gpt2_ends[] = {
    SAME("embedding.word_embeddings", "transformer.wte"),
    SAME("embedding.position_embeddings", "transformer.wpe"),
    SAME_BIAS(OURS "input_layernorm", BLOCK "ln_1"),
    SAME_BIAS(OURS "pre_mlp_layernorm", BLOCK "ln_2"),
    SAME_BIAS("decoder.final_layernorm", "transformer.ln_f"),
    SAME("output_layer", "lm_head"),
    {0},
};
static const struct hf_key gpt2_sizes[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("n_layer", "--num-layers"),
    NUMBER("n_embd", "--hidden-size"),
    NUMBER("n_head", "--num-attention-heads"),
    NUMBER("n_positions", "--max-position-embeddings"),
    NUMBER("n_inner", "--ffn-hidden-size", .fallback = "-"),
    NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
    NUMBER("attn_pdrop", "--attention-dropout", .fallback = "0.1"),
    NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0.1"),
    NUMBER("embd_pdrop", "--hidden-dropout", .is_written = true),
    {0},
};
static const struct hf_key gpt2_others[] = {
    NUMBER("n_ctx", "--max-position-embeddings", .is_written = true),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    ONLY("scale_attn_weights", "true"),
    ONLY("add_cross_attention", "false"),
    {0},
};
static const struct hf_key gpt2_activation[] = {MAP("activation_function", "--activation",
                                                    "gelu_new=gelu_tanh " TANH_NAMES PLAIN_ACTIVATIONS,
                                                    .fallback = "gelu_new"),
                                                {0}};
#define OPT "model.decoder.layers.*."

const struct hf_family hf_family_learned[] = {
    {NAMED("gpt2", "GPT2LMHeadModel", "transformer.", "wte", "lm_head"), .tie = HF_TIED, .ignored = gpt2_buffers,
     .written = hf_no_ids, .harmless = "n_special predict_special_tokens",
     ROWS(gpt2_ends,
          OWN_ROWS(TURNED(OURS "self_attention.linear_qkv", BLOCK "attn.c_attn"),
                   TURNED(OURS "self_attention.linear_proj", BLOCK "attn.c_proj"),
                   TURNED(OURS "mlp.linear_fc1", BLOCK "mlp.c_fc"), TURNED(OURS "mlp.linear_fc2", BLOCK "mlp.c_proj"))),
     KEYS(gpt2_sizes, gpt2_others, gpt2_activation, OWN_KEYS(ONLY("scale_attn_by_inverse_layer_idx", "false"))),
     FLAGS(gpt)},
    {NAMED("opt", "OPTForCausalLM", "model.", "decoder.embed_tokens", "lm_head"), .tie = HF_TIED, .ignored = no_buffers,
     .harmless = "output_projection=true learned_embeddings=true scale_embeddings=false",
     .written = OWN_FLAGS({"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "1"}),
     ROWS(OWN_ROWS(SAME("embedding.word_embeddings", "model.decoder.embed_tokens"),
                   SAME("embedding.projection", "model.decoder.project_in"),
                   SAME("embedding.position_embeddings", "model.decoder.embed_positions"),
                   SAME_BIAS(OURS "input_layernorm", OPT "self_attn_layer_norm"),
                   SAME_BIAS(OURS "post_attention_layernorm", OPT "self_attn_layer_norm"),
                   JOINED_BIAS(OURS "self_attention.linear_qkv", OPT "self_attn.q_proj", OPT "self_attn.k_proj",
                               OPT "self_attn.v_proj"),
                   SAME_BIAS(OURS "self_attention.linear_proj", OPT "self_attn.out_proj"),
                   SAME_BIAS(OURS "pre_mlp_layernorm", OPT "final_layer_norm"),
                   SAME_BIAS(OURS "post_mlp_layernorm", OPT "final_layer_norm"),
                   SAME_BIAS(OURS "mlp.linear_fc1", OPT "fc1"), SAME_BIAS(OURS "mlp.linear_fc2", OPT "fc2"),
                   SAME_BIAS("decoder.final_layernorm", "model.decoder.final_layer_norm"),
                   SAME("lm_head.projection", "model.decoder.project_out"), SAME("output_layer", "lm_head"))),
     KEYS(OWN_KEYS(NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("num_hidden_layers", "--num-layers"),
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
                   ONLY("layer_norm_elementwise_affine", "true"))),
     FLAGS(gpt, OWN_FLAGS({"--position-offset", "2"}, {"--norm-epsilon", "1e-05"}))},
    // Like GPT-2, but its matrices are not transposed, and all heads share a key and a value.
    {NAMED("gpt_bigcode", "GPTBigCodeForCausalLM", "transformer.", "wte", "lm_head"), .tie = HF_TIED,
     .ignored = gpt2_buffers, .has_multi_query = true,
     .harmless = "num_key_value_heads inference_runner validate_runner_input pre_allocate_kv_cache max_batch_size "
                 "pad_key_length",
     ROWS(gpt2_ends, OWN_ROWS(GROUPS(OURS "self_attention.linear_qkv", BLOCK "attn.c_attn"),
                              SAME_BIAS(OURS "self_attention.linear_proj", BLOCK "attn.c_proj"),
                              SAME_BIAS(OURS "mlp.linear_fc1", BLOCK "mlp.c_fc"),
                              SAME_BIAS(OURS "mlp.linear_fc2", BLOCK "mlp.c_proj"))),
     KEYS(gpt2_sizes, gpt2_others,
          OWN_KEYS(MAP("activation_function", "--activation",
                       "gelu_pytorch_tanh=gelu_tanh gelu_new=gelu_tanh gelu_fast=gelu_tanh " PLAIN_ACTIVATIONS,
                       .fallback = "gelu_pytorch_tanh"))),
     FLAGS(gpt)},
    {0},
};

// ---- attention and MLP that read the same input: GPT-NeoX (which includes Pythia), Phi, GPT-J, Falcon, Cohere ----

#define NEOX "gpt_neox.layers.*."
static const char *const neox_buffers[] = {NEOX "attention.bias", NEOX "attention.masked_bias",
                                           NEOX "attention.rotary_emb.inv_freq", "gpt_neox.rotary_emb.inv_freq", NULL};
static const struct hf_row biased_output[] = {
    SAME("output_layer", "lm_head"), ROW("output_layer.bias", HF_SAME, "lm_head.bias"), {0}};
static const struct hf_flag biased_output_flag[] = {{"--add-output-bias", "true"}, {0}};

static const char *const falcon_buffers[] = {BLOCK "self_attention.rotary_emb.inv_freq", NULL};
static const struct hf_row falcon_rows[] = {
    SAME("embedding.word_embeddings", "transformer.word_embeddings"),
    GROUPS(OURS "self_attention.linear_qkv", BLOCK "self_attention.query_key_value"),
    SAME_BIAS(OURS "self_attention.linear_proj", BLOCK "self_attention.dense"),
    SAME_BIAS(OURS "mlp.linear_fc1", BLOCK "mlp.dense_h_to_4h"),
    SAME_BIAS(OURS "mlp.linear_fc2", BLOCK "mlp.dense_4h_to_h"),
    SAME_BIAS("decoder.final_layernorm", "transformer.ln_f"),
    SAME("output_layer", "lm_head"),
    {0},
};
static const struct hf_row falcon_norms[] = {SAME_BIAS(OURS "input_layernorm", BLOCK "input_layernorm"),
                                             SAME_BIAS(OURS "pre_mlp_layernorm", BLOCK "post_attention_layernorm"),
                                             {0}};
static const struct hf_key falcon_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("num_hidden_layers", "--num-layers"),
    NUMBER("hidden_size", "--hidden-size"),
    NUMBER("num_attention_heads", "--num-attention-heads"),
    NUMBER("ffn_hidden_size", "--ffn-hidden-size", .fallback = "-"),
    NUMBER("max_position_embeddings", "--max-position-embeddings", .fallback = "2048"),
    NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),
    NUMBER("hidden_dropout", "--hidden-dropout", .fallback = "0"),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
    MAP("activation", "--activation",
        "gelu=gelu gelu_new=gelu_tanh " TANH_NAMES "relu=relu relu2=squared_relu silu=silu", .fallback = "gelu"),
    MAP("bias", "--disable-bias-linear", "true=false false=true", .fallback = "false"),
    MAP("alibi", "--position-embedding-type/--scale-alibi", "false=rope/false true=alibi/true", .fallback = "false"),
    {0},
};
#define FALCON                                                                                                         \
    NAMED("falcon", "FalconForCausalLM", "transformer.", "word_embeddings", "lm_head"),                                \
        .tie = HF_TIED, .has_rope = true, .rope_kinds = "default linear", .ignored = falcon_buffers,                   \
        .written = hf_no_ids
#define FALCON_HARMLESS "apply_residual_connection_post_layernorm=false ff_factor=4"
// The new architecture has groups of heads, and separate norms for attention and MLP unless a member says that there is
// one.
#define NEW_FALCON(norms)                                                                                              \
    FALCON, .groups_key = "num_kv_heads", .harmless = FALCON_HARMLESS " multi_query",                                  \
            KEYS(falcon_keys, OWN_KEYS(ONLY("parallel_attn", "true"), ONLY("new_decoder_architecture", "true"),        \
                                       ONLY("num_ln_in_parallel_attn", norms)))

static const struct hf_key cohere_keys[] = {
    NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-05"),
    MAP("hidden_act", NULL, "silu= swish=", .fallback = "silu"),
    NUMBER("logit_scale", "--logits-scaling", .fallback = "0.0625", .is_inverse = true),
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    {0},
};
static const struct hf_flag cohere_flags[] = {{"--model", "gpt"},
                                              {"--no-norm-bias", "true"},
                                              {"--swiglu", "true"},
                                              {"--disable-bias-linear", "true"},
                                              {"--position-embedding-type", "rope"},
                                              {0}};

const struct hf_family hf_family_parallel[] = {
    {NAMED("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox.", "embed_in", "embed_out"), .has_rope = true,
     .rope_kinds = "default linear", .has_no_groups = true, .rotary_base_key = "rotary_emb_base",
     .rotary_part_key = "rotary_pct", .ignored = neox_buffers, .written = hf_no_ids,
     .harmless = "attention_probs_dropout_prob hidden_dropout_prob rope_theta=@rotary_emb_base "
                 "partial_rotary_factor=@rotary_pct",
     ROWS(OWN_ROWS(SAME("embedding.word_embeddings", "gpt_neox.embed_in"),
                   SAME_BIAS(OURS "input_layernorm", NEOX "input_layernorm"),
                   GROUPS(OURS "self_attention.linear_qkv", NEOX "attention.query_key_value"),
                   SAME_BIAS(OURS "self_attention.linear_proj", NEOX "attention.dense"),
                   SAME_BIAS(OURS "pre_mlp_layernorm", NEOX "post_attention_layernorm"),
                   SAME_BIAS(OURS "mlp.linear_fc1", NEOX "mlp.dense_h_to_4h"),
                   SAME_BIAS(OURS "mlp.linear_fc2", NEOX "mlp.dense_4h_to_h"),
                   SAME_BIAS("decoder.final_layernorm", "gpt_neox.final_layer_norm"),
                   SAME("output_layer", "embed_out"))),
     KEYS(hf_sizes, hf_mlp_width, hf_layer_norm,
          OWN_KEYS(NUMBER("hidden_dropout", "--hidden-dropout", .fallback = "0"),
                   MAP("hidden_act", "--activation",
                       "gelu=gelu gelu_new=gelu_tanh " TANH_NAMES "relu=relu relu2=squared_relu silu=silu swish=silu",
                       .fallback = "gelu"),
                   SWITCH("use_parallel_residual", "--parallel-residual", .fallback = "true"),
                   MAP("attention_bias", "--disable-bias-linear/--add-mlp-bias", "true=false/false false=true/true",
                       .fallback = "true"))),
     DEFAULTS({"partial_rotary_factor", "0.25"}), FLAGS(hf_rotary)},
    {ROTARY("phi", "PhiForCausalLM"), .rope_kinds = "default linear", .written = hf_no_ids,
     ROWS(OWN_ROWS(SAME("embedding.word_embeddings", "model.embed_tokens"),
                   SAME_BIAS(OURS "input_layernorm", LLAMA "input_layernorm"),
                   JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
                               LLAMA "self_attn.v_proj"),
                   SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.dense"),
                   SAME_BIAS(OURS "mlp.linear_fc1", LLAMA "mlp.fc1"), SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.fc2"),
                   SAME_BIAS("decoder.final_layernorm", "model.final_layernorm")),
          biased_output),
     KEYS(hf_sizes, hf_mlp_width, hf_layer_norm,
          OWN_KEYS(NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0"),
                   NUMBER("embd_pdrop", "--hidden-dropout", .is_written = true),
                   MAP("hidden_act", "--activation", "gelu_new=gelu_tanh " TANH_NAMES PLAIN_ACTIVATIONS,
                       .fallback = "gelu_new"),
                   ONLY("qk_layernorm", "false"))),
     DEFAULTS({"partial_rotary_factor", "0.5"}), FLAGS(hf_rotary, hf_parallel, biased_output_flag)},
    {NAMED("gptj", "GPTJForCausalLM", "transformer.", "wte", "lm_head"), .has_rope = true, .rope_kinds = "default",
     .has_no_groups = true, .rotary_channels_key = "rotary_dim", .ignored = gpt2_buffers, .written = hf_no_ids,
     .harmless = "rotary=true scale_attn_weights=true n_ctx",
     ROWS(biased_output, gpt2_ends,
          OWN_ROWS(
              JOINED(OURS "self_attention.linear_qkv", BLOCK "attn.q_proj", BLOCK "attn.k_proj", BLOCK "attn.v_proj"),
              SAME(OURS "self_attention.linear_proj", BLOCK "attn.out_proj"),
              SAME_BIAS(OURS "mlp.linear_fc1", BLOCK "mlp.fc_in"),
              SAME_BIAS(OURS "mlp.linear_fc2", BLOCK "mlp.fc_out"))),
     KEYS(gpt2_sizes, OWN_KEYS(NUMBER("initializer_range", "--init-method-std", .fallback = "0.02")), gpt2_activation),
     DEFAULTS({"attn_pdrop", "0"}, {"resid_pdrop", "0"}),
     FLAGS(hf_rotary, hf_neighbours, OWN_FLAGS({"--rotary-base", "10000"}), hf_parallel, hf_no_bias,
           OWN_FLAGS({"--add-mlp-bias", "true"}), biased_output_flag)},
    {FALCON, .has_no_groups = true, .has_multi_query = true, .harmless = FALCON_HARMLESS " num_kv_heads",
     ROWS(falcon_rows, falcon_norms),
     KEYS(falcon_keys, OWN_KEYS(MAP("parallel_attn", "--parallel-residual/--parallel-residual-one-norm",
                                    "true=true/true false=false/false", .fallback = "true"),
                                ONLY("new_decoder_architecture", "false"), READ_ONLY("num_ln_in_parallel_attn", "1"))),
     FLAGS(gpt)},
    {NEW_FALCON("2"), .conditions = {{"new_decoder_architecture", "true"}},
     ROWS(falcon_rows, OWN_ROWS(SAME_BIAS(OURS "input_layernorm", BLOCK "ln_attn"),
                                SAME_BIAS(OURS "pre_mlp_layernorm", BLOCK "ln_mlp"))),
     FLAGS(gpt, OWN_FLAGS({"--parallel-residual", "true"}, {"--parallel-residual-one-norm", "false"}))},
    {NEW_FALCON("1"), .conditions = {{"new_decoder_architecture", "true"}, {"num_ln_in_parallel_attn", "1"}},
     ROWS(falcon_rows, falcon_norms), FLAGS(gpt, hf_parallel)},
    {ROTARY("cohere", "CohereForCausalLM"), .tie = HF_TIED, .needs_rotary_base = true,
     ROWS(hf_attention, hf_head_norms, hf_gated_mlp),
     KEYS(hf_sizes, hf_mlp_width, cohere_keys,
          OWN_KEYS(MAP("use_qk_norm", "--qk-layernorm/--qk-layernorm-per-head", "false=false/false true=true/true",
                       .fallback = "false"))),
     DEFAULTS({"rope_theta", "500000"}), FLAGS(cohere_flags, hf_neighbours, hf_parallel, hf_no_dropout)},
    {ROTARY("cohere2", "Cohere2ForCausalLM"), .tie = HF_TIED, .window_freq = "4", .needs_window = true,
     .has_whole_without_rope = true,
     .harmless = "_sliding_window_pattern rotary_pct=1.0 position_embedding_type=rope_gptj "
                 "order_of_interleaved_layers=local_attn_first "
                 "use_embedding_sharing=true use_gated_activation=true use_parallel_block=true use_parallel_embedding "
                 "layer_switch=4",
     ROWS(hf_attention, hf_head_norms, hf_gated_mlp), KEYS(hf_sizes, hf_mlp_width, cohere_keys, hf_window),
     FLAGS(cohere_flags, hf_neighbours, hf_parallel, hf_no_dropout)},
    {0},
};

// ---- ALiBi: BLOOM and MPT; Falcon may have it too ----

#define MPT "transformer.blocks.*."
// transformers reads the scale and the dropout of attn_config, and clip_qkv. MosaicML's own program reads the others,
// so their values must agree with what transformers computes.
#define ATTENTION(name) "attn_config." name

const struct hf_family hf_family_alibi[] = {
    // The released models have older names for the width and the heads. Only the largest gives its sequence length.
    {NAMED("bloom", "BloomForCausalLM", "transformer.", "word_embeddings", "lm_head"), .tie = HF_TIED,
     .ignored = no_buffers, .written = hf_no_ids,
     .harmless = "masked_softmax_fusion bias_dropout_fusion offset_alibi skip_bias_add skip_bias_add_qkv "
                 "hidden_dropout_prob n_inner=null",
     ROWS(falcon_rows, falcon_norms,
          OWN_ROWS(SAME_BIAS("embedding.layernorm", "transformer.word_embeddings_layernorm"))),
     KEYS(OWN_KEYS(NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("n_layer", "--num-layers", .fallback = "-"),
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
                   ONLY("apply_residual_connection_post_layernorm", "false"), READ_ONLY("slow_but_exact", "false"))),
     FLAGS(alibi, OWN_FLAGS({"--embed-layernorm", "true"}, {"--activation", "gelu_tanh"}))},
    {NAMED("mpt", "MptForCausalLM", "transformer.", "wte", "lm_head"), .tie = HF_TIED, .ignored = no_buffers,
     .written = hf_no_ids, .object = "attn_config",
     .harmless =
         "embedding_fraction=1 embedding_fraction=1.0 init_device init_config verbose learned_pos_emb model_type "
         "attn_impl fc_type=torch use_pad_tok_in_ffn rope=false rope_theta rope_impl rope_dail_config rope_hf_config "
         "kv_n_heads=@n_heads sliding_window_size=-1 fused_qkv=true",
     ROWS(OWN_ROWS(SAME("embedding.word_embeddings", "transformer.wte"), SAME(OURS "input_layernorm", MPT "norm_1"),
                   SAME(OURS "self_attention.linear_qkv", MPT "attn.Wqkv"),
                   SAME(OURS "self_attention.linear_proj", MPT "attn.out_proj"),
                   SAME(OURS "pre_mlp_layernorm", MPT "norm_2"), SAME(OURS "mlp.linear_fc1", MPT "ffn.up_proj"),
                   SAME(OURS "mlp.linear_fc2", MPT "ffn.down_proj"),
                   SAME("decoder.final_layernorm", "transformer.norm_f"), SAME("output_layer", "lm_head"))),
     KEYS(OWN_KEYS(
         NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("n_layers", "--num-layers"),
         NUMBER("d_model", "--hidden-size"), NUMBER("n_heads", "--num-attention-heads"), ONLY("expansion_ratio", "4"),
         NUMBER("max_seq_len", "--max-position-embeddings", .fallback = "2048"),
         NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
         NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0"),
         NUMBER("emb_pdrop", "--hidden-dropout", .is_written = true),
         NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"), ONLY("no_bias", "true"),
         READ_ONLY("logit_scale", "null"),
         MAP("norm_type", NULL, "low_precision_layernorm= layernorm=", .fallback = "layernorm", .is_read = true),
         ONLY(ATTENTION("alibi"), "true"), ONLY(ATTENTION("alibi_bias_max"), "8"),
         READ_ONLY(ATTENTION("attn_type"), "multihead_attention"), READ_ONLY(ATTENTION("clip_qkv"), "null"),
         READ_ONLY(ATTENTION("prefix_lm"), "false"), READ_ONLY(ATTENTION("qk_ln"), "false"),
         READ_ONLY(ATTENTION("attn_uses_sequence_id"), "false"),
         NUMBER(ATTENTION("softmax_scale"), "--softmax-scale", .fallback = "-", .has_null = true, .has_none = true),
         // transformers 5 only accepts integers.
         NUMBER(ATTENTION("attn_pdrop"), "--attention-dropout", .fallback = "0", .is_read = true))),
     FLAGS(alibi, OWN_FLAGS({"--no-norm-bias", "true"}, {"--disable-bias-linear", "true"}, {"--activation", "gelu"}))},
    {0},
};
