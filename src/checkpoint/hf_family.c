// The tables. Names of tensors and members are transformers'; ours are those of docs/internals/models.md.
#include "checkpoint/hf_family.h"

#include "base/buffer.h"
#include "base/memory.h"
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SAME(ours, theirs)                                                                                             \
    {                                                                                                                  \
        ours ".weight", HF_SAME, {                                                                                     \
            theirs ".weight"                                                                                           \
        }                                                                                                              \
    }
#define SAME_BIAS(ours, theirs)                                                                                        \
    SAME(ours, theirs), {                                                                                              \
        ours ".bias", HF_SAME, {                                                                                       \
            theirs ".bias"                                                                                             \
        }                                                                                                              \
    }
#define TURNED(ours, theirs)                                                                                           \
    {ours ".weight", HF_TRANSPOSE, {theirs ".weight"}}, {                                                              \
        ours ".bias", HF_SAME, {                                                                                       \
            theirs ".bias"                                                                                             \
        }                                                                                                              \
    }
#define JOINED(ours, a, b, c)                                                                                          \
    {                                                                                                                  \
        ours ".weight", HF_JOIN, {                                                                                     \
            a ".weight", b ".weight", c ".weight"                                                                      \
        }                                                                                                              \
    }
#define JOINED_BIAS(ours, a, b, c)                                                                                     \
    JOINED(ours, a, b, c), {                                                                                           \
        ours ".bias", HF_JOIN, {                                                                                       \
            a ".bias", b ".bias", c ".bias"                                                                            \
        }                                                                                                              \
    }

#define NUMBER(name, flag, ...)                                                                                        \
    { .key = name, .kind = HF_NUMBER, .flags = flag, __VA_ARGS__ }
#define SWITCH(name, flag, ...)                                                                                        \
    { .key = name, .kind = HF_SWITCH, .flags = flag, __VA_ARGS__ }
#define MAP(name, flag, values, ...)                                                                                   \
    { .key = name, .kind = HF_MAP, .flags = flag, .map = values, __VA_ARGS__ }
#define ONLY(name, value)                                                                                              \
    { .key = name, .kind = HF_MAP, .map = value "=", .fallback = value }

// Other names of gelu_new's formula; a model keeps the one it came with.
#define TANH_NAMES "gelu_pytorch_tanh=gelu_tanh gelu_fast=gelu_tanh "

// ---- GPT-2 ----

#define GPT2 "transformer.h.*."
#define OURS "decoder.layers.*."
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
static const struct hf_key gpt2_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("n_layer", "--num-layers"),
    NUMBER("n_embd", "--hidden-size"),
    NUMBER("n_head", "--num-attention-heads"),
    NUMBER("n_positions", "--max-position-embeddings"),
    NUMBER("n_inner", "--ffn-hidden-size", .fallback = "-"),
    NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-05"),
    NUMBER("attn_pdrop", "--attention-dropout", .fallback = "0.1"),
    NUMBER("resid_pdrop", "--hidden-dropout", .fallback = "0.1"),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    MAP("activation_function", "--activation",
        "gelu_new=gelu_tanh " TANH_NAMES "gelu=gelu relu=relu relu2=squared_relu silu=silu swish=silu",
        .fallback = "gelu_new"),
    ONLY("scale_attn_weights", "true"),
    ONLY("scale_attn_by_inverse_layer_idx", "false"),
    ONLY("add_cross_attention", "false"),
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

// ---- Llama and Mistral ----

#define LLAMA "model.layers.*."
static const struct hf_row llama_rows[] = {
    SAME("embedding.word_embeddings", "model.embed_tokens"),
    SAME(OURS "input_layernorm", LLAMA "input_layernorm"),
    JOINED_BIAS(OURS "self_attention.linear_qkv", LLAMA "self_attn.q_proj", LLAMA "self_attn.k_proj",
                LLAMA "self_attn.v_proj"),
    SAME_BIAS(OURS "self_attention.linear_proj", LLAMA "self_attn.o_proj"),
    SAME(OURS "self_attention.q_layernorm", LLAMA "self_attn.q_norm"),
    SAME(OURS "self_attention.k_layernorm", LLAMA "self_attn.k_norm"),
    SAME(OURS "pre_mlp_layernorm", LLAMA "post_attention_layernorm"),
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {LLAMA "mlp.gate_proj.weight", LLAMA "mlp.up_proj.weight"}},
    {OURS "mlp.linear_fc1.bias", HF_JOIN, {LLAMA "mlp.gate_proj.bias", LLAMA "mlp.up_proj.bias"}},
    SAME_BIAS(OURS "mlp.linear_fc2", LLAMA "mlp.down_proj"),
    SAME("decoder.final_layernorm", "model.norm"),
    SAME("output_layer", "lm_head"),
};
static const char *const llama_ignored[] = {LLAMA "self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq", NULL};
#define LLAMA_KEYS                                                                                                     \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("num_hidden_layers", "--num-layers"),                          \
        NUMBER("hidden_size", "--hidden-size"), NUMBER("num_attention_heads", "--num-attention-heads"),                \
        NUMBER("head_dim", "--kv-channels", .fallback = "-"), NUMBER("intermediate_size", "--ffn-hidden-size"),        \
        NUMBER("max_position_embeddings", "--max-position-embeddings"),                                                \
        NUMBER("rms_norm_eps", "--norm-epsilon", .fallback = "1e-06"),                                                 \
        NUMBER("attention_dropout", "--attention-dropout", .fallback = "0"),                                           \
        NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"), ONLY("hidden_act", "silu")
static const struct hf_key llama_keys[] = {
    LLAMA_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    SWITCH("mlp_bias", "--add-mlp-bias", .fallback = "false"),
};
static const struct hf_key mistral_keys[] = {
    LLAMA_KEYS,
    NUMBER("sliding_window", "--sliding-window", .fallback = "0", .has_null = true),
};
static const struct hf_key qwen2_keys[] = {LLAMA_KEYS, ONLY("use_sliding_window", "false")};
static const struct hf_flag qwen2_flags[] = {{"--model", "gpt"},         {"--normalization", "RMSNorm"},
                                             {"--swiglu", "true"},       {"--disable-bias-linear", "true"},
                                             {"--add-qkv-bias", "true"}, {"--position-embedding-type", "rope"},
                                             {"--hidden-dropout", "0"}};
static const struct hf_key qwen3_keys[] = {
    LLAMA_KEYS,
    SWITCH("attention_bias", "--add-attention-bias", .fallback = "false"),
    ONLY("use_sliding_window", "false"),
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

// ---- BERT and RoBERTa ----

#define ENCODER "encoder.layers.*."
#define BERT_ROWS(name, layer)                                                                                         \
    SAME("embedding.word_embeddings", name "embeddings.word_embeddings"),                                              \
        SAME("embedding.position_embeddings", name "embeddings.position_embeddings"),                                  \
        SAME("embedding.tokentype_embeddings", name "embeddings.token_type_embeddings"),                               \
        JOINED_BIAS(ENCODER "self_attention.linear_qkv", layer "attention.self.query", layer "attention.self.key",     \
                    layer "attention.self.value"),                                                                     \
        SAME_BIAS(ENCODER "self_attention.linear_proj", layer "attention.output.dense"),                               \
        SAME_BIAS(ENCODER "mlp.linear_fc1", layer "intermediate.dense"),                                               \
        SAME_BIAS(ENCODER "mlp.linear_fc2", layer "output.dense")
#define NORMS_BEHIND(name, layer)                                                                                      \
    SAME_BIAS("embedding.layernorm", name "embeddings.LayerNorm"),                                                     \
        SAME_BIAS(ENCODER "post_attention_layernorm", layer "attention.output.LayerNorm"),                             \
        SAME_BIAS(ENCODER "post_mlp_layernorm", layer "output.LayerNorm")
#define BERT_HEADS                                                                                                     \
    SAME_BIAS("lm_head.dense", "cls.predictions.transform.dense"),                                                     \
        SAME_BIAS("lm_head.layer_norm", "cls.predictions.transform.LayerNorm"),                                        \
        SAME("output_layer", "cls.predictions.decoder"), {"output_layer.bias", HF_SAME, {"cls.predictions.bias"}},     \
        SAME_BIAS("pooler.dense", "bert.pooler.dense"), SAME_BIAS("binary_head", "cls.seq_relationship")

#define LAYER "bert.encoder.layer.*."
static const struct hf_row bert_rows[] = {BERT_ROWS("bert.", LAYER), NORMS_BEHIND("bert.", LAYER), BERT_HEADS};
static const struct hf_row megatron_bert_rows[] = {
    BERT_ROWS("bert.", LAYER),
    SAME_BIAS(ENCODER "input_layernorm", LAYER "attention.ln"),
    SAME_BIAS(ENCODER "pre_mlp_layernorm", LAYER "ln"),
    SAME_BIAS("encoder.final_layernorm", "bert.encoder.ln"),
    BERT_HEADS,
};
static const struct hf_row roberta_rows[] = {
    BERT_ROWS("roberta.", "roberta.encoder.layer.*."), NORMS_BEHIND("roberta.", "roberta.encoder.layer.*."),
    SAME_BIAS("lm_head.dense", "lm_head.dense"),       SAME_BIAS("lm_head.layer_norm", "lm_head.layer_norm"),
    SAME("output_layer", "lm_head.decoder"),           {"output_layer.bias", HF_SAME, {"lm_head.bias"}},
};
// A pooler without the sentence head belongs to no task here.
static const char *const bert_ignored[] = {"bert.embeddings.position_ids", "cls.predictions.decoder.bias",
                                           "bert.pooler.…", "cls.seq_relationship.…", NULL};
static const char *const roberta_ignored[] = {"roberta.embeddings.position_ids", "lm_head.decoder.bias",
                                              "roberta.pooler.…", NULL};
#define BERT_KEYS                                                                                                      \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("num_hidden_layers", "--num-layers"),                          \
        NUMBER("hidden_size", "--hidden-size"), NUMBER("num_attention_heads", "--num-attention-heads"),                \
        NUMBER("intermediate_size", "--ffn-hidden-size"),                                                              \
        NUMBER("type_vocab_size", "--num-token-types", .fallback = "2"),                                               \
        NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-12"),                                               \
        NUMBER("attention_probs_dropout_prob", "--attention-dropout", .fallback = "0.1"),                              \
        NUMBER("hidden_dropout_prob", "--hidden-dropout", .fallback = "0.1"),                                          \
        NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),                                          \
        ONLY("position_embedding_type", "absolute"), ONLY("is_decoder", "false")
// BERT's head has the activation of its blocks, RoBERTa's always the exact GELU. Megatron's BERT may have that beside
// the tanh form in its blocks, which is as near as theirs comes to it.
static const struct hf_key bert_keys[] = {BERT_KEYS, NUMBER("max_position_embeddings", "--max-position-embeddings"),
                                          MAP("hidden_act", "--activation/--lm-head-activation",
                                              "gelu=gelu/gelu gelu_new=gelu_tanh/gelu_tanh "
                                              "gelu_pytorch_tanh=gelu_tanh/gelu_tanh gelu_fast=gelu_tanh/gelu_tanh "
                                              "relu=relu/relu silu=silu/silu swish=silu/silu gelu_new=gelu_tanh/gelu",
                                              .fallback = "gelu")};
static const struct hf_key roberta_keys[] = {
    BERT_KEYS,
    MAP("hidden_act", "--activation",
        "gelu=gelu gelu_new=gelu_tanh " TANH_NAMES "relu=relu relu2=squared_relu silu=silu swish=silu",
        .fallback = "gelu"),
    NUMBER("max_position_embeddings", "--max-position-embeddings", .added = 2), ONLY("pad_token_id", "1")};
static const struct hf_flag megatron_bert_flags[] = {{"--model", "bert"}};
static const struct hf_flag bert_flags[] = {{"--model", "bert"}, {"--norm-placement", "post"}};
static const struct hf_flag roberta_flags[] = {{"--model", "bert"},
                                               {"--norm-placement", "post"},
                                               {"--position-offset", "2"},
                                               {"--bert-no-binary-head", "true"},
                                               {"--lm-head-activation", "gelu"}};
static const struct hf_flag bert_written[] = {{"pad_token_id", "0"}};
static const struct hf_flag roberta_written[] = {{"bos_token_id", "0"}, {"eos_token_id", "2"}};

// ---- T5 ----

#define T5E "encoder.block.*.layer."
#define T5D "decoder.block.*.layer."
static const struct hf_row t5_rows[] = {
    SAME("embedding.word_embeddings", "shared"),
    SAME("encoder.relative_attention_bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"),
    SAME("decoder.relative_attention_bias", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"),
    SAME(ENCODER "input_layernorm", T5E "0.layer_norm"),
    JOINED(ENCODER "self_attention.linear_qkv", T5E "0.SelfAttention.q", T5E "0.SelfAttention.k",
           T5E "0.SelfAttention.v"),
    SAME(ENCODER "self_attention.linear_proj", T5E "0.SelfAttention.o"),
    SAME(ENCODER "pre_mlp_layernorm", T5E "1.layer_norm"),
    {ENCODER "mlp.linear_fc1.weight",
     HF_JOIN,
     {T5E "1.DenseReluDense.wi_0.weight", T5E "1.DenseReluDense.wi_1.weight"}},
    SAME(ENCODER "mlp.linear_fc1", T5E "1.DenseReluDense.wi"),
    SAME(ENCODER "mlp.linear_fc2", T5E "1.DenseReluDense.wo"),
    SAME("encoder.final_layernorm", "encoder.final_layer_norm"),
    SAME(OURS "input_layernorm", T5D "0.layer_norm"),
    JOINED(OURS "self_attention.linear_qkv", T5D "0.SelfAttention.q", T5D "0.SelfAttention.k", T5D "0.SelfAttention.v"),
    SAME(OURS "self_attention.linear_proj", T5D "0.SelfAttention.o"),
    SAME(OURS "pre_cross_attn_layernorm", T5D "1.layer_norm"),
    SAME(OURS "cross_attention.linear_q", T5D "1.EncDecAttention.q"),
    {OURS "cross_attention.linear_kv.weight",
     HF_JOIN,
     {T5D "1.EncDecAttention.k.weight", T5D "1.EncDecAttention.v.weight"}},
    SAME(OURS "cross_attention.linear_proj", T5D "1.EncDecAttention.o"),
    SAME(OURS "pre_mlp_layernorm", T5D "2.layer_norm"),
    {OURS "mlp.linear_fc1.weight", HF_JOIN, {T5D "2.DenseReluDense.wi_0.weight", T5D "2.DenseReluDense.wi_1.weight"}},
    SAME(OURS "mlp.linear_fc1", T5D "2.DenseReluDense.wi"),
    SAME(OURS "mlp.linear_fc2", T5D "2.DenseReluDense.wo"),
    SAME("decoder.final_layernorm", "decoder.final_layer_norm"),
    SAME("output_layer", "lm_head"),
};
static const char *const t5_ignored[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                                         "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
                                         NULL};
static const struct hf_key t5_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("d_model", "--hidden-size"),
    NUMBER("num_layers", "--num-layers"),
    NUMBER("num_decoder_layers", "--decoder-num-layers", .fallback = "-"),
    NUMBER("num_heads", "--num-attention-heads"),
    NUMBER("d_kv", "--kv-channels"),
    NUMBER("d_ff", "--ffn-hidden-size"),
    NUMBER("n_positions", "--max-position-embeddings", .fallback = "512"),
    NUMBER("relative_attention_num_buckets", "--relative-attention-num-buckets", .fallback = "32"),
    NUMBER("relative_attention_max_distance", "--relative-attention-max-distance", .fallback = "128"),
    NUMBER("dropout_rate", "--hidden-dropout/--attention-dropout", .fallback = "0.1"),
    NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-06"),
    MAP("feed_forward_proj", "--activation/--gated-linear-unit",
        "relu=relu/false gated-gelu=gelu_tanh/true gated-gelu_new=gelu_tanh/true gated-silu=silu/true "
        "gated-relu=relu/true "
        "gelu=gelu/false gelu_new=gelu_tanh/false silu=silu/false",
        .fallback = "relu"),
};
static const struct hf_flag t5_flags[] = {{"--model", "t5"},
                                          {"--normalization", "RMSNorm"},
                                          {"--disable-bias-linear", "true"},
                                          {"--position-embedding-type", "relative"},
                                          {"--softmax-scale", "1"}};
static const struct hf_flag t5_written[] = {
    {"is_encoder_decoder", "true"}, {"pad_token_id", "0"}, {"eos_token_id", "1"}, {"decoder_start_token_id", "0"}};

#define TABLES(name, ignored_list, written_list, flag_list)                                                            \
    .rows = name##_rows, .row_count = COUNT(name##_rows), .keys = name##_keys, .key_count = COUNT(name##_keys),        \
    .ignored = ignored_list, .flags = flag_list, .flag_count = COUNT(flag_list), .written = written_list,              \
    .written_count = COUNT(written_list)

#define LIKE_LLAMA(type, class)                                                                                        \
    .model_type = type, .architecture = class, .prefix = "model.", .embedding = "model.embed_tokens.weight",           \
    .head = "lm_head.weight", .tie = "false", .has_rope = true, .rows = llama_rows, .row_count = COUNT(llama_rows),    \
    .ignored = llama_ignored, .written = llama_written, .written_count = COUNT(llama_written)

static const struct hf_family families[] = {
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .prefix = "transformer.",
     .embedding = "transformer.wte.weight",
     .head = "lm_head.weight",
     .tie = "true",
     TABLES(gpt2, gpt2_ignored, gpt2_written, gpt2_flags)},
    {.model_type = "opt",
     .architecture = "OPTForCausalLM",
     .prefix = "model.",
     .embedding = "model.decoder.embed_tokens.weight",
     .head = "lm_head.weight",
     .tie = "true",
     TABLES(opt, nothing_ignored, opt_written, opt_flags)},
    {LIKE_LLAMA("llama", "LlamaForCausalLM"), .keys = llama_keys, .key_count = COUNT(llama_keys), .flags = llama_flags,
     .flag_count = COUNT(llama_flags)},
    {LIKE_LLAMA("mistral", "MistralForCausalLM"), .keys = mistral_keys, .key_count = COUNT(mistral_keys),
     .flags = llama_flags, .flag_count = COUNT(llama_flags)},
    {LIKE_LLAMA("qwen2", "Qwen2ForCausalLM"), .keys = qwen2_keys, .key_count = COUNT(qwen2_keys), .flags = qwen2_flags,
     .flag_count = COUNT(qwen2_flags)},
    {LIKE_LLAMA("qwen3", "Qwen3ForCausalLM"), .keys = qwen3_keys, .key_count = COUNT(qwen3_keys), .flags = qwen3_flags,
     .flag_count = COUNT(qwen3_flags)},
    {.model_type = "bert",
     .architecture = "BertForPreTraining",
     .architecture_mlm = "BertForMaskedLM",
     .prefix = "bert.",
     .embedding = "bert.embeddings.word_embeddings.weight",
     .head = "cls.predictions.decoder.weight",
     .tie = "true",
     TABLES(bert, bert_ignored, bert_written, bert_flags)},
    {.model_type = "megatron-bert",
     .architecture = "MegatronBertForPreTraining",
     .architecture_mlm = "MegatronBertForMaskedLM",
     .prefix = "bert.",
     .embedding = "bert.embeddings.word_embeddings.weight",
     .head = "cls.predictions.decoder.weight",
     .tie = "true",
     .rows = megatron_bert_rows,
     .row_count = COUNT(megatron_bert_rows),
     .ignored = bert_ignored,
     .keys = bert_keys,
     .key_count = COUNT(bert_keys),
     .flags = megatron_bert_flags,
     .flag_count = COUNT(megatron_bert_flags),
     .written = bert_written,
     .written_count = COUNT(bert_written)},
    {.model_type = "roberta",
     .architecture = "RobertaForMaskedLM",
     .prefix = "roberta.",
     .embedding = "roberta.embeddings.word_embeddings.weight",
     .head = "lm_head.decoder.weight",
     .tie = "true",
     TABLES(roberta, roberta_ignored, roberta_written, roberta_flags)},
    {.model_type = "t5",
     .architecture = "T5ForConditionalGeneration",
     .prefix = "",
     .embedding = "shared.weight",
     .head = "lm_head.weight",
     .tie = "true",
     TABLES(t5, t5_ignored, t5_written, t5_flags)},
};

const struct hf_family *hf_family_at(size_t i) {
    return i < COUNT(families) ? &families[i] : NULL;
}

const struct hf_family *hf_family_find(const char *model_type) {
    for (size_t i = 0; i < COUNT(families); i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

char *hf_family_list(void) {
    struct buffer text = {0};
    for (size_t i = 0; i < COUNT(families); i++)
        buffer_printf(&text, "%s%s", i > 0 ? ", " : "", families[i].model_type);
    char *list = memory_string(buffer_string(&text));
    buffer_free(&text);
    return list;
}
