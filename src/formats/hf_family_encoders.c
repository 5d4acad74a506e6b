// Models with an encoder: BERT, RoBERTa and its kin, T5, mT5 and UMT5. See hf_family.h.
#include "formats/hf_parts.h"

// ---- BERT and RoBERTa ----

#define BERT_ROWS(name, layer)                                                                                         \
    SAME("embedding.word_embeddings", name "embeddings.word_embeddings"),                                              \
        SAME("embedding.position_embeddings", name "embeddings.position_embeddings"),                                  \
        SAME("embedding.tokentype_embeddings", name "embeddings.token_type_embeddings"),                               \
        SAME_BIAS("embedding.layernorm", name "embeddings.LayerNorm"),                                                 \
        JOINED_BIAS(ENCODER "self_attention.linear_qkv", layer "attention.self.query", layer "attention.self.key",     \
                    layer "attention.self.value"),                                                                     \
        SAME_BIAS(ENCODER "self_attention.linear_proj", layer "attention.output.dense"),                               \
        SAME_BIAS(ENCODER "post_attention_layernorm", layer "attention.output.LayerNorm"),                             \
        SAME_BIAS(ENCODER "mlp.linear_fc1", layer "intermediate.dense"),                                               \
        SAME_BIAS(ENCODER "mlp.linear_fc2", layer "output.dense"),                                                     \
        SAME_BIAS(ENCODER "post_mlp_layernorm", layer "output.LayerNorm")

#define LAYER "bert.encoder.layer.*."
static const struct hf_row bert_rows[] = {
    BERT_ROWS("bert.", LAYER),
    SAME_BIAS("lm_head.dense", "cls.predictions.transform.dense"),
    SAME_BIAS("lm_head.layer_norm", "cls.predictions.transform.LayerNorm"),
    SAME("output_layer", "cls.predictions.decoder"),
    ROW("output_layer.bias", HF_SAME, "cls.predictions.bias"),
    SAME_BIAS("pooler.dense", "bert.pooler.dense"),
    SAME_BIAS("binary_head", "cls.seq_relationship"),
    {0},
};
static const struct hf_row roberta_rows[] = {
    BERT_ROWS("roberta.", "roberta.encoder.layer.*."),     SAME_BIAS("lm_head.dense", "lm_head.dense"),
    SAME_BIAS("lm_head.layer_norm", "lm_head.layer_norm"), SAME("output_layer", "lm_head.decoder"),
    ROW("output_layer.bias", HF_SAME, "lm_head.bias"),     {0},
};
// Without the sentence head, a pooler is unused here.
static const char *const bert_buffers[] = {"bert.embeddings.position_ids", "cls.predictions.decoder.bias",
                                           "bert.pooler.…", "cls.seq_relationship.…", NULL};
static const char *const roberta_buffers[] = {"roberta.embeddings.position_ids", "lm_head.decoder.bias",
                                              "roberta.pooler.…", NULL};
static const struct hf_key bert_sizes[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),      NUMBER("num_hidden_layers", "--num-layers"),
    NUMBER("hidden_size", "--hidden-size"),           NUMBER("num_attention_heads", "--num-attention-heads"),
    NUMBER("intermediate_size", "--ffn-hidden-size"), {0},
};
static const struct hf_key bert_others[] = {
    NUMBER("layer_norm_eps", "--norm-epsilon", .fallback = "1e-12"),
    NUMBER("attention_probs_dropout_prob", "--attention-dropout", .fallback = "0.1"),
    NUMBER("hidden_dropout_prob", "--hidden-dropout", .fallback = "0.1"),
    NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
    ONLY("position_embedding_type", "absolute"),
    ONLY("is_decoder", "false"),
    {0},
};
static const struct hf_flag bert[] = {{"--model", "bert"}, {0}};
static const struct hf_flag norms_after[] = {{"--norm-placement", "post"}, {0}};

// Of the blocks and of the head.
#define BERT_ACTIVATIONS                                                                                               \
    "gelu=gelu/gelu gelu_new=gelu_tanh/gelu_tanh gelu_pytorch_tanh=gelu_tanh/gelu_tanh "                               \
    "gelu_fast=gelu_tanh/gelu_tanh relu=relu/relu silu=silu/silu swish=silu/silu"

// BERT's head has the activation of its blocks, RoBERTa's always the exact GELU. Megatron's BERT may combine that head
// with the tanh form in its blocks, which their BERT can only approximate.
#define BERT(type, class)                                                                                              \
    .model_type = type, .architecture = class "ForPreTraining", .architecture_mlm = class "ForMaskedLM",               \
    .prefix = "bert.", .embedding = "bert.embeddings.word_embeddings.weight",                                          \
    .head = "cls.predictions.decoder.weight", .tie = HF_TIED_ALWAYS, .ignored = bert_buffers,                          \
    .harmless = "directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head "  \
                "pooler_type cell structure pre_trained training emb_size=@hidden_size",                               \
    .written = OWN_FLAGS({"pad_token_id", "0"}),                                                                       \
    KEYS(bert_sizes, OWN_KEYS(NUMBER("type_vocab_size", "--num-token-types", .fallback = "2", .instead = 2)),          \
         bert_others,                                                                                                  \
         OWN_KEYS(NUMBER("max_position_embeddings", "--max-position-embeddings"),                                      \
                  MAP("hidden_act", "--activation/--lm-head-activation", BERT_ACTIVATIONS,                             \
                      .near = "gelu_new=gelu_tanh/gelu", .fallback = "gelu")))
#define ROBERTA(type, class)                                                                                           \
    .model_type = type, .architecture = class, .prefix = "roberta.",                                                   \
    .embedding = "roberta.embeddings.word_embeddings.weight", .head = "lm_head.decoder.weight", .tie = HF_TIED_ALWAYS, \
    .ignored = roberta_buffers, .written = roberta_ids, ROWS(roberta_rows),                                            \
    KEYS(bert_sizes, one_type, bert_others, roberta_keys), FLAGS(bert, norms_after, roberta_flags)
static const struct hf_flag roberta_ids[] = {{"bos_token_id", "0"}, {"eos_token_id", "2"}, {0}};
static const struct hf_flag roberta_flags[] = {
    {"--position-offset", "2"}, {"--bert-no-binary-head", "true"}, {"--lm-head-activation", "gelu"}, {0}};
static const struct hf_key one_type[] = {NUMBER("type_vocab_size", "--num-token-types", .fallback = "2", .instead = 1),
                                         {0}};
static const struct hf_key roberta_keys[] = {
    MAP("hidden_act", "--activation",
        "gelu=gelu gelu_new=gelu_tanh " TANH_NAMES "relu=relu relu2=squared_relu silu=silu swish=silu",
        .fallback = "gelu"),
    NUMBER("max_position_embeddings", "--max-position-embeddings", .added = 2),
    ONLY("pad_token_id", "1"),
    {0},
};

#define DISTILLED "distilbert.transformer.layer.*."

// ---- T5 ----

#define T5E "encoder.block.*.layer."
#define T5D "decoder.block.*.layer."
#define TABLE "relative_attention_bias"
#define T5_STACK(stack, layer, mlp)                                                                                    \
    SAME(stack "self_attention." TABLE, layer "0.SelfAttention." TABLE),                                               \
        SAME(stack "input_layernorm", layer "0.layer_norm"),                                                           \
        JOINED(stack "self_attention.linear_qkv", layer "0.SelfAttention.q", layer "0.SelfAttention.k",                \
               layer "0.SelfAttention.v"),                                                                             \
        SAME(stack "self_attention.linear_proj", layer "0.SelfAttention.o"),                                           \
        SAME(stack "pre_mlp_layernorm", layer mlp "layer_norm"),                                                       \
        GATED(stack "mlp.linear_fc1", layer mlp "DenseReluDense.wi_0", layer mlp "DenseReluDense.wi_1"),               \
        SAME(stack "mlp.linear_fc1", layer mlp "DenseReluDense.wi"),                                                   \
        SAME(stack "mlp.linear_fc2", layer mlp "DenseReluDense.wo")
static const struct hf_row t5_rows[] = {
    SAME("embedding.word_embeddings", "shared"),
    SAME("encoder." TABLE, "encoder.block.0.layer.0.SelfAttention." TABLE),
    SAME("decoder." TABLE, "decoder.block.0.layer.0.SelfAttention." TABLE),
    T5_STACK(ENCODER, T5E, "1."),
    SAME("encoder.final_layernorm", "encoder.final_layer_norm"),
    T5_STACK(OURS, T5D, "2."),
    SAME(OURS "pre_cross_attn_layernorm", T5D "1.layer_norm"),
    SAME(OURS "cross_attention.linear_q", T5D "1.EncDecAttention.q"),
    GATED(OURS "cross_attention.linear_kv", T5D "1.EncDecAttention.k", T5D "1.EncDecAttention.v"),
    SAME(OURS "cross_attention.linear_proj", T5D "1.EncDecAttention.o"),
    SAME("decoder.final_layernorm", "decoder.final_layer_norm"),
    SAME("output_layer", "lm_head"),
    {0},
};
static const char *const t5_copies[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
                                        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", NULL};
static const struct hf_key t5_keys[] = {
    NUMBER("vocab_size", "--padded-vocab-size"),
    NUMBER("d_model", "--hidden-size"),
    NUMBER("num_layers", "--encoder-num-layers/--num-layers"),
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
        "gated-swish=silu/true gated-relu=relu/true gelu=gelu/false gelu_new=gelu_tanh/false silu=silu/false "
        "swish=silu/false",
        .fallback = "gated-gelu"),
    NUMBER("decoder_start_token_id", "--decoder-start-token", .fallback = "0", .is_read = true),
    {0},
};
static const struct hf_flag t5_flags[] = {{"--model", "t5"},
                                          {"--normalization", "RMSNorm"},
                                          {"--disable-bias-linear", "true"},
                                          {"--position-embedding-type", "relative"},
                                          {"--softmax-scale", "1"},
                                          {0}};
static const struct hf_flag t5_ids[] = {
    {"is_encoder_decoder", "true"}, {"pad_token_id", "0"}, {"eos_token_id", "1"}, {"decoder_start_token_id", "0"}, {0}};
#define LIKE_T5(type, class)                                                                                           \
    .model_type = type, .architecture = class, .prefix = "", .embedding = "shared.weight", .head = "lm_head.weight",   \
    .ignored = t5_copies, .written = t5_ids, ROWS(t5_rows)

const struct hf_family hf_family_encoders[] = {
    {BERT("bert", "Bert"), ROWS(bert_rows), FLAGS(bert, norms_after)},
    {BERT("megatron-bert", "MegatronBert"),
     ROWS(OWN_ROWS(SAME_BIAS(ENCODER "input_layernorm", LAYER "attention.ln"),
                   SAME_BIAS(ENCODER "pre_mlp_layernorm", LAYER "ln"),
                   SAME_BIAS("encoder.final_layernorm", "bert.encoder.ln")),
          bert_rows),
     FLAGS(bert)},
    // BERT's layers under other names, without token types and a sentence head. Whether its positions began as sines
    // does not matter: they are stored.
    {NAMED("distilbert", "DistilBertForMaskedLM", "distilbert.", "embeddings.word_embeddings", "vocab_projector"),
     .tie = HF_TIED_ALWAYS, .ignored = (const char *const[]){"distilbert.embeddings.position_ids", NULL},
     .written = OWN_FLAGS({"pad_token_id", "0"}),
     .harmless = "sinusoidal_pos_embds qa_dropout seq_classif_dropout tie_weights_",
     ROWS(OWN_ROWS(SAME("embedding.word_embeddings", "distilbert.embeddings.word_embeddings"),
                   SAME("embedding.position_embeddings", "distilbert.embeddings.position_embeddings"),
                   SAME_BIAS("embedding.layernorm", "distilbert.embeddings.LayerNorm"),
                   JOINED_BIAS(ENCODER "self_attention.linear_qkv", DISTILLED "attention.q_lin",
                               DISTILLED "attention.k_lin", DISTILLED "attention.v_lin"),
                   SAME_BIAS(ENCODER "self_attention.linear_proj", DISTILLED "attention.out_lin"),
                   SAME_BIAS(ENCODER "post_attention_layernorm", DISTILLED "sa_layer_norm"),
                   SAME_BIAS(ENCODER "mlp.linear_fc1", DISTILLED "ffn.lin1"),
                   SAME_BIAS(ENCODER "mlp.linear_fc2", DISTILLED "ffn.lin2"),
                   SAME_BIAS(ENCODER "post_mlp_layernorm", DISTILLED "output_layer_norm"),
                   SAME_BIAS("lm_head.dense", "vocab_transform"), SAME_BIAS("lm_head.layer_norm", "vocab_layer_norm"),
                   SAME_BIAS("output_layer", "vocab_projector"))),
     KEYS(OWN_KEYS(NUMBER("vocab_size", "--padded-vocab-size"), NUMBER("n_layers", "--num-layers", .fallback = "6"),
                   NUMBER("dim", "--hidden-size", .fallback = "768"),
                   NUMBER("n_heads", "--num-attention-heads", .fallback = "12"),
                   NUMBER("hidden_dim", "--ffn-hidden-size", .fallback = "3072"),
                   NUMBER("max_position_embeddings", "--max-position-embeddings", .fallback = "512"),
                   NUMBER("attention_dropout", "--attention-dropout", .fallback = "0.1"),
                   NUMBER("dropout", "--hidden-dropout", .fallback = "0.1"),
                   NUMBER("initializer_range", "--init-method-std", .fallback = "0.02"),
                   MAP("activation", "--activation/--lm-head-activation", BERT_ACTIVATIONS, .fallback = "gelu"))),
     FLAGS(bert, norms_after,
           OWN_FLAGS({"--num-token-types", "0"}, {"--bert-no-binary-head", "true"}, {"--norm-epsilon", "1e-12"}))},
    {ROBERTA("roberta", "RobertaForMaskedLM")},
    {ROBERTA("xlm-roberta", "XLMRobertaForMaskedLM")},
    {ROBERTA("camembert", "CamembertForMaskedLM")},
    {LIKE_T5("t5", "T5ForConditionalGeneration"), .tie = HF_TIED_SCALED, KEYS(t5_keys),
     DEFAULTS({"feed_forward_proj", "relu"}), FLAGS(t5_flags)},
    {LIKE_T5("mt5", "MT5ForConditionalGeneration"), .tie = HF_TIED_NEVER, KEYS(t5_keys),
     FLAGS(t5_flags, OWN_FLAGS({"--untie-embeddings-and-output-weights", "true"}))},
    // Like mT5, with biases of relative positions in every layer. A tied model scales its output. One with its own
    // output matrix does not, as in transformers 4, which computes what the models were trained with; transformers 5
    // scales it as well.
    {LIKE_T5("umt5", "UMT5ForConditionalGeneration"), .tie = HF_TIED_AND_SCALED, .harmless = "scalable_attention",
     KEYS(t5_keys, OWN_KEYS(MAP("tie_word_embeddings", "--untie-embeddings-and-output-weights/--scale-tied-output",
                                "true=false/true false=true/false", .fallback = "true"))),
     FLAGS(t5_flags, OWN_FLAGS({"--relative-attention-per-layer", "true"}))},
    {0},
};
