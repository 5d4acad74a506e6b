// Models with an encoder: BERT, RoBERTa and its kin, T5, mT5 and UMT5. See hf_family.h.
#include "formats/hf_tables.h"

// ---- BERT and RoBERTa ----

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
// Without the sentence head, a pooler is unused here.
static const char *const bert_ignored[] = {"bert.embeddings.position_ids", "cls.predictions.decoder.bias",
                                           "bert.pooler.…", "cls.seq_relationship.…", NULL};
static const char *const roberta_ignored[] = {"roberta.embeddings.position_ids", "lm_head.decoder.bias",
                                              "roberta.pooler.…", NULL};
#define BERT_KEYS(types)                                                                                               \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("num_hidden_layers", "--num-layers"),                          \
        NUMBER("hidden_size", "--hidden-size"), NUMBER("num_attention_heads", "--num-attention-heads"),                \
        NUMBER("intermediate_size", "--ffn-hidden-size"),                                                              \
        NUMBER("type_vocab_size", "--num-token-types", .fallback = "2", .instead = types),                             \
        NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-12"),                                               \
        NUMBER("attention_probs_dropout_prob", "--attention-dropout", .fallback = "0.1"),                              \
        NUMBER("hidden_dropout_prob", "--hidden-dropout", .fallback = "0.1"),                                          \
        NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),                                          \
        ONLY("position_embedding_type", "absolute"), ONLY("is_decoder", "false")
// BERT's head has the activation of its blocks, RoBERTa's always the exact GELU. Megatron's BERT may combine that head
// with the tanh form in its blocks, which their BERT can only approximate.
static const struct hf_key bert_keys[] = {BERT_KEYS(2), NUMBER("max_position_embeddings", "--max-position-embeddings"),
                                          MAP("hidden_act", "--activation/--lm-head-activation",
                                              "gelu=gelu/gelu gelu_new=gelu_tanh/gelu_tanh "
                                              "gelu_pytorch_tanh=gelu_tanh/gelu_tanh gelu_fast=gelu_tanh/gelu_tanh "
                                              "relu=relu/relu silu=silu/silu swish=silu/silu",
                                              .near = "gelu_new=gelu_tanh/gelu", .fallback = "gelu")};
static const struct hf_key roberta_keys[] = {
    BERT_KEYS(1),
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
#define BIAS "relative_attention_bias"
static const struct hf_row t5_rows[] = {
    SAME("embedding.word_embeddings", "shared"),
    SAME("encoder." BIAS, "encoder.block.0.layer.0.SelfAttention." BIAS),
    SAME("decoder." BIAS, "decoder.block.0.layer.0.SelfAttention." BIAS),
    SAME(ENCODER "self_attention." BIAS, T5E "0.SelfAttention." BIAS),
    SAME(OURS "self_attention." BIAS, T5D "0.SelfAttention." BIAS),
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
#define T5_KEYS(feed_forward)                                                                                          \
    NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("d_model", "--hidden-size"),                                   \
        NUMBER("num_layers", "--encoder-num-layers/--num-layers"),                                                     \
        NUMBER("num_decoder_layers", "--decoder-num-layers", .fallback = "-"),                                         \
        NUMBER("num_heads", "--num-attention-heads"), NUMBER("d_kv", "--kv-channels"),                                 \
        NUMBER("d_ff", "--ffn-hidden-size"), NUMBER("n_positions", "--max-position-embeddings", .fallback = "512"),    \
        NUMBER("relative_attention_num_buckets", "--relative-attention-num-buckets", .fallback = "32"),                \
        NUMBER("relative_attention_max_distance", "--relative-attention-max-distance", .fallback = "128"),             \
        NUMBER("dropout_rate", "--hidden-dropout/--attention-dropout", .fallback = "0.1"),                             \
        NUMBER("layer_norm_epsilon", "--norm-epsilon", .fallback = "1e-06"),                                           \
        MAP("feed_forward_proj", "--activation/--gated-linear-unit",                                                   \
            "relu=relu/false gated-gelu=gelu_tanh/true gated-gelu_new=gelu_tanh/true gated-silu=silu/true "            \
            "gated-swish=silu/true gated-relu=relu/true gelu=gelu/false gelu_new=gelu_tanh/false silu=silu/false "     \
            "swish=silu/false",                                                                                        \
            .fallback = feed_forward),                                                                                 \
        NUMBER("decoder_start_token_id", "--decoder-start-token", .fallback = "0", .is_read = true)
static const struct hf_key t5_keys[] = {T5_KEYS("relu")};
static const struct hf_flag t5_flags[] = {{"--model", "t5"},
                                          {"--normalization", "RMSNorm"},
                                          {"--disable-bias-linear", "true"},
                                          {"--position-embedding-type", "relative"},
                                          {"--softmax-scale", "1"}};
static const struct hf_flag t5_written[] = {
    {"is_encoder_decoder", "true"}, {"pad_token_id", "0"}, {"eos_token_id", "1"}, {"decoder_start_token_id", "0"}};

// ---- mT5 ----

static const struct hf_key mt5_keys[] = {T5_KEYS("gated-gelu")};
static const struct hf_flag mt5_flags[] = {{"--model", "t5"},
                                           {"--normalization", "RMSNorm"},
                                           {"--disable-bias-linear", "true"},
                                           {"--position-embedding-type", "relative"},
                                           {"--softmax-scale", "1"},
                                           {"--untie-embeddings-and-output-weights", "true"}};

// ---- UMT5 ----

// Like mT5, with biases of relative positions in every layer. A tied model scales its output. One with its own output
// matrix does not, as in transformers 4, which computes what the models were trained with; transformers 5 scales it as
// well.
static const struct hf_key umt5_keys[] = {
    T5_KEYS("gated-gelu"),
    MAP("tie_word_embeddings", "--untie-embeddings-and-output-weights/--scale-tied-output",
        "true=false/true false=true/false", .fallback = "true"),
};
static const struct hf_flag umt5_flags[] = {{"--model", "t5"},
                                            {"--normalization", "RMSNorm"},
                                            {"--disable-bias-linear", "true"},
                                            {"--position-embedding-type", "relative"},
                                            {"--relative-attention-per-layer", "true"},
                                            {"--softmax-scale", "1"}};

#define LIKE_ROBERTA(type, class)                                                                                      \
    .model_type = type, .architecture = class, .prefix = "roberta.",                                                   \
    .embedding = "roberta.embeddings.word_embeddings.weight", .head = "lm_head.decoder.weight", .tie = "true",         \
    TABLES(roberta, roberta_ignored, roberta_written, roberta_flags)
#define LIKE_T5(type, class)                                                                                           \
    .model_type = type, .architecture = class, .prefix = "", .embedding = "shared.weight", .head = "lm_head.weight",   \
    .rows = t5_rows, .row_count = COUNT(t5_rows), .ignored = t5_ignored, .written = t5_written,                        \
    .written_count = COUNT(t5_written)

#define BERT_POOLER                                                                                                    \
    "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type "  \
    "cell structure pre_trained training emb_size=@hidden_size"

static const struct hf_family families[] = {
    {.model_type = "bert",
     .architecture = "BertForPreTraining",
     .architecture_mlm = "BertForMaskedLM",
     .prefix = "bert.",
     .embedding = "bert.embeddings.word_embeddings.weight",
     .head = "cls.predictions.decoder.weight",
     .tie = "true",
     .harmless = BERT_POOLER,
     TABLES(bert, bert_ignored, bert_written, bert_flags)},
    {.model_type = "megatron-bert",
     .architecture = "MegatronBertForPreTraining",
     .architecture_mlm = "MegatronBertForMaskedLM",
     .prefix = "bert.",
     .embedding = "bert.embeddings.word_embeddings.weight",
     .head = "cls.predictions.decoder.weight",
     .tie = "true",
     .harmless = BERT_POOLER,
     .rows = megatron_bert_rows,
     .row_count = COUNT(megatron_bert_rows),
     .ignored = bert_ignored,
     .keys = bert_keys,
     .key_count = COUNT(bert_keys),
     .flags = megatron_bert_flags,
     .flag_count = COUNT(megatron_bert_flags),
     .written = bert_written,
     .written_count = COUNT(bert_written)},
    {LIKE_ROBERTA("roberta", "RobertaForMaskedLM")},
    {LIKE_ROBERTA("xlm-roberta", "XLMRobertaForMaskedLM")},
    {LIKE_ROBERTA("camembert", "CamembertForMaskedLM")},
    {LIKE_T5("t5", "T5ForConditionalGeneration"), .tie = "true", .keys = t5_keys, .key_count = COUNT(t5_keys),
     .flags = t5_flags, .flag_count = COUNT(t5_flags)},
    {LIKE_T5("mt5", "MT5ForConditionalGeneration"), .tie = "never", .keys = mt5_keys, .key_count = COUNT(mt5_keys),
     .flags = mt5_flags, .flag_count = COUNT(mt5_flags)},
    {LIKE_T5("umt5", "UMT5ForConditionalGeneration"), .tie = "true", .harmless = "scalable_attention",
     .keys = umt5_keys, .key_count = COUNT(umt5_keys), .flags = umt5_flags, .flag_count = COUNT(umt5_flags)},
};

struct hf_families hf_families_encoders(void) {
    return (struct hf_families){families, COUNT(families)};
}
