// The tables. The file's tensor names are those of llama.cpp's src/llama-arch.cpp, ours those of
// docs/internals/models.md; llama.cpp's src/models defines what an architecture computes.
#include "formats/gguf_model.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "formats/names.h"
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ROW(our, ...)                                                                                                  \
    {                                                                                                                  \
        .ours = our, .theirs = { __VA_ARGS__ }                                                                         \
    }
#define WEIGHT(ours, theirs) ROW(ours ".weight", theirs ".weight")
#define BOTH(ours, theirs) WEIGHT(ours, theirs), ROW(ours ".bias", theirs ".bias")

#define DECODER "decoder.layers.*."
#define ENCODER "encoder.layers.*."
#define QKV(stack, block)                                                                                              \
    ROW(stack "self_attention.linear_qkv.weight", block "attn_q.weight", block "attn_k.weight",                        \
        block "attn_v.weight"),                                                                                        \
        ROW(stack "self_attention.linear_qkv.bias", block "attn_q.bias", block "attn_k.bias", block "attn_v.bias")
// Rows common to decoders: norms before the sublayers, and one after the last.
#define DECODER_ROWS                                                                                                   \
    WEIGHT("embedding.word_embeddings", "token_embd"), BOTH(DECODER "input_layernorm", "blk.*.attn_norm"),             \
        BOTH(DECODER "self_attention.linear_proj", "blk.*.attn_output"),                                               \
        BOTH(DECODER "pre_mlp_layernorm", "blk.*.ffn_norm"), BOTH(DECODER "mlp.linear_fc2", "blk.*.ffn_down"),         \
        BOTH("decoder.final_layernorm", "output_norm"), WEIGHT("output_layer", "output")
#define FUSED_QKV BOTH(DECODER "self_attention.linear_qkv", "blk.*.attn_qkv")
#define PLAIN_MLP BOTH(DECODER "mlp.linear_fc1", "blk.*.ffn_up")
#define GATED_MLP(stack, block)                                                                                        \
    ROW(stack "mlp.linear_fc1.weight", block "ffn_gate.weight", block "ffn_up.weight"),                                \
        ROW(stack "mlp.linear_fc1.bias", block "ffn_gate.bias", block "ffn_up.bias")

static const struct gguf_row gpt2_rows[] = {
    DECODER_ROWS, WEIGHT("embedding.position_embeddings", "position_embd"), FUSED_QKV, PLAIN_MLP, {0}};
static const struct gguf_row llama_rows[] = {DECODER_ROWS, QKV(DECODER, "blk.*."), GATED_MLP(DECODER, "blk.*."), {0}};
// Experts are stored one after the other; these models have no dense layers' MLPs.
#define EXPERTS                                                                                                        \
    WEIGHT(DECODER "mlp.router", "blk.*.ffn_gate_inp"),                                                                \
        ROW(DECODER "mlp.experts.linear_fc1.weight", "blk.*.ffn_gate_exps.weight", "blk.*.ffn_up_exps.weight"),        \
        WEIGHT(DECODER "mlp.experts.linear_fc2", "blk.*.ffn_down_exps")
#define HEAD_NORMS                                                                                                     \
    WEIGHT(DECODER "self_attention.q_layernorm", "blk.*.attn_q_norm"),                                                 \
        WEIGHT(DECODER "self_attention.k_layernorm", "blk.*.attn_k_norm")
static const struct gguf_row qwen3_rows[] = {
    DECODER_ROWS, QKV(DECODER, "blk.*."), GATED_MLP(DECODER, "blk.*."), HEAD_NORMS, {0}};
static const struct gguf_row mixtral_rows[] = {DECODER_ROWS, QKV(DECODER, "blk.*."), EXPERTS, {0}};
static const struct gguf_row qwen3moe_rows[] = {DECODER_ROWS, QKV(DECODER, "blk.*."), EXPERTS, HEAD_NORMS, {0}};
#define SHARED_EXPERTS                                                                                                 \
    ROW(DECODER "mlp.shared_experts.linear_fc1.weight", "blk.*.ffn_gate_shexp.weight", "blk.*.ffn_up_shexp.weight"),   \
        WEIGHT(DECODER "mlp.shared_experts.linear_fc2", "blk.*.ffn_down_shexp")
static const struct gguf_row qwen2moe_rows[] = {
    DECODER_ROWS,
    QKV(DECODER, "blk.*."),
    EXPERTS,
    SHARED_EXPERTS,
    ROW(DECODER "mlp.shared_experts.gate_weight", "blk.*.ffn_gate_inp_shexp.weight"),
    {0},
};
// The norm before gpt-oss's MLPs is called post_attention_norm.
static const struct gguf_row oss_rows[] = {
    WEIGHT(DECODER "pre_mlp_layernorm", "blk.*.post_attention_norm"),
    DECODER_ROWS,
    QKV(DECODER, "blk.*."),
    EXPERTS,
    ROW(DECODER "mlp.router.bias", "blk.*.ffn_gate_inp.bias"),
    ROW(DECODER "mlp.experts.linear_fc1.bias", "blk.*.ffn_gate_exps.bias", "blk.*.ffn_up_exps.bias"),
    ROW(DECODER "mlp.experts.linear_fc2.bias", "blk.*.ffn_down_exps.bias"),
    ROW(DECODER "self_attention.softmax_offset", "blk.*.attn_sinks.weight"),
    {0},
};
#define ROUTED                                                                                                         \
    DECODER_ROWS, GATED_MLP(DECODER, "blk.*."), EXPERTS, SHARED_EXPERTS,                                               \
        ROW(DECODER "mlp.router.expert_bias", "blk.*.exp_probs_b.bias")
static const struct gguf_row glm4moe_rows[] = {
    WEIGHT(DECODER "pre_mlp_layernorm", "blk.*.post_attention_norm"), QKV(DECODER, "blk.*."), HEAD_NORMS, ROUTED, {0}};
static const struct gguf_row deepseek2_rows[] = {
    ROUTED,
    WEIGHT(DECODER "self_attention.linear_q_proj", "blk.*.attn_q"),
    WEIGHT(DECODER "self_attention.linear_q_down_proj", "blk.*.attn_q_a"),
    WEIGHT(DECODER "self_attention.q_layernorm", "blk.*.attn_q_a_norm"),
    WEIGHT(DECODER "self_attention.linear_q_up_proj", "blk.*.attn_q_b"),
    WEIGHT(DECODER "self_attention.linear_kv_down_proj", "blk.*.attn_kv_a_mqa"),
    WEIGHT(DECODER "self_attention.kv_layernorm", "blk.*.attn_kv_a_norm"),
    ROW(DECODER "self_attention.linear_kv_up_proj.weight", "blk.*.attn_k_b.weight", "blk.*.attn_v_b.weight"),
    {0},
};
// Depths that predict further tokens are for training.
static const char *const depths_dropped[] = {"mtp.…", NULL};
// Its ffn_up has the gate above it.
static const struct gguf_row glm4_rows[] = {
    DECODER_ROWS,
    QKV(DECODER, "blk.*."),
    WEIGHT(DECODER "mlp.linear_fc1", "blk.*.ffn_up"),
    WEIGHT(DECODER "post_attention_layernorm", "blk.*.post_attention_norm"),
    WEIGHT(DECODER "post_mlp_layernorm", "blk.*.post_ffw_norm"),
    {0},
};
static const struct gguf_row plain_rows[] = {DECODER_ROWS, QKV(DECODER, "blk.*."), PLAIN_MLP, {0}};
// Its ffn_up has the gate above it.
static const struct gguf_row phi3_rows[] = {
    DECODER_ROWS, QKV(DECODER, "blk.*."), WEIGHT(DECODER "mlp.linear_fc1", "blk.*.ffn_up"), {0}};
static const struct gguf_row bert_rows[] = {
    WEIGHT("embedding.word_embeddings", "token_embd"),
    WEIGHT("embedding.position_embeddings", "position_embd"),
    WEIGHT("embedding.tokentype_embeddings", "token_types"),
    BOTH("embedding.layernorm", "token_embd_norm"),
    QKV(ENCODER, "blk.*."),
    BOTH(ENCODER "self_attention.linear_proj", "blk.*.attn_output"),
    BOTH(ENCODER "post_attention_layernorm", "blk.*.attn_output_norm"),
    BOTH(ENCODER "mlp.linear_fc1", "blk.*.ffn_up"),
    BOTH(ENCODER "mlp.linear_fc2", "blk.*.ffn_down"),
    BOTH(ENCODER "post_mlp_layernorm", "blk.*.layer_output_norm"),
    {0},
};
// BERT's output is its hidden states; heads are for training.
static const char *const bert_dropped[] = {"lm_head.…", "output_layer.…", "pooler.…", "binary_head.…", NULL};
#define T5_STACK(stack, block)                                                                                         \
    WEIGHT(stack "input_layernorm", block "attn_norm"), QKV(stack, block),                                             \
        WEIGHT(stack "self_attention.relative_attention_bias", block "attn_rel_b"),                                    \
        WEIGHT(stack "self_attention.linear_proj", block "attn_o"),                                                    \
        WEIGHT(stack "pre_mlp_layernorm", block "ffn_norm"), GATED_MLP(stack, block),                                  \
        WEIGHT(stack "mlp.linear_fc1", block "ffn_up"), WEIGHT(stack "mlp.linear_fc2", block "ffn_down")
static const struct gguf_row t5_rows[] = {
    WEIGHT("embedding.word_embeddings", "token_embd"),
    T5_STACK(ENCODER, "enc.blk.*."),
    WEIGHT("encoder.relative_attention_bias", "enc.blk.0.attn_rel_b"),
    WEIGHT("encoder.final_layernorm", "enc.output_norm"),
    T5_STACK(DECODER, "dec.blk.*."),
    WEIGHT("decoder.relative_attention_bias", "dec.blk.0.attn_rel_b"),
    WEIGHT(DECODER "pre_cross_attn_layernorm", "dec.blk.*.cross_attn_norm"),
    WEIGHT(DECODER "cross_attention.linear_q", "dec.blk.*.cross_attn_q"),
    ROW(DECODER "cross_attention.linear_kv.weight", "dec.blk.*.cross_attn_k.weight", "dec.blk.*.cross_attn_v.weight"),
    WEIGHT(DECODER "cross_attention.linear_proj", "dec.blk.*.cross_attn_o"),
    WEIGHT("decoder.final_layernorm", "dec.output_norm"),
    WEIGHT("output_layer", "output"),
    {0},
};

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
// ggml's GELU is the tanh form, looked up in fp16; it differs from the exact one by less than fp16's rounding.
static const char *const gelu[] = {"gelu_tanh", "gelu", NULL};
static const char *const swiglu[] = {"silu gated", NULL};

static const struct gguf_architecture architectures[] = {
    {"gpt2", LIST("gpt2"), gelu, gpt2_rows, NULL, 0},
    {"llama", LIST("llama", "mistral"), swiglu, llama_rows, NULL,
     GGUF_ROPE | GGUF_INTERLEAVED | GGUF_ROPE_FACTORS | GGUF_WIDE_HEADS | GGUF_RMS_NORM | GGUF_GROUPS |
         GGUF_OUTPUT_BIAS},
    {"qwen2", LIST("qwen2"), swiglu, llama_rows, NULL, GGUF_ROPE | GGUF_RMS_NORM | GGUF_GROUPS},
    {"qwen3", LIST("qwen3"), swiglu, qwen3_rows, NULL, GGUF_ROPE | GGUF_WIDE_HEADS | GGUF_RMS_NORM | GGUF_GROUPS},
    {"llama", LIST("mixtral"), swiglu, mixtral_rows, NULL,
     GGUF_ROPE | GGUF_INTERLEAVED | GGUF_ROPE_FACTORS | GGUF_WIDE_HEADS | GGUF_RMS_NORM | GGUF_GROUPS | GGUF_EXPERTS |
         GGUF_SUMS_TO_ONE},
    {"qwen3moe", LIST("qwen3_moe"), swiglu, qwen3moe_rows, NULL,
     GGUF_ROPE | GGUF_WIDE_HEADS | GGUF_RMS_NORM | GGUF_GROUPS | GGUF_EXPERTS | GGUF_SUMS_TO_ONE | GGUF_DENSE_WIDTH},
    {"olmoe", LIST("olmoe"), swiglu, qwen3moe_rows, NULL,
     GGUF_ROPE | GGUF_RMS_NORM | GGUF_GROUPS | GGUF_KEY_HEADS | GGUF_OUTPUT | GGUF_EXPERTS},
    {"qwen2moe", LIST("qwen2_moe"), swiglu, qwen2moe_rows, NULL,
     GGUF_ROPE | GGUF_RMS_NORM | GGUF_GROUPS | GGUF_OUTPUT | GGUF_EXPERTS | GGUF_DENSE_WIDTH | GGUF_SHARED},
    {"gpt-oss", LIST("gpt_oss"), LIST("quick_gelu gated"), oss_rows, NULL,
     GGUF_ROPE | GGUF_WIDE_HEADS | GGUF_RMS_NORM | GGUF_GROUPS | GGUF_OUTPUT_BIAS | GGUF_OUTPUT | GGUF_EXPERTS |
         GGUF_SUMS_TO_ONE | GGUF_DENSE_WIDTH | GGUF_WINDOWS | GGUF_BIASES},
    {"glm4", LIST("glm4"), swiglu, glm4_rows, NULL,
     GGUF_ROPE | GGUF_PARTIAL_ROPE | GGUF_WIDE_HEADS | GGUF_RMS_NORM | GGUF_GROUPS},
    {"glm4moe", LIST("glm4_moe"), swiglu, glm4moe_rows, depths_dropped,
     GGUF_ROPE | GGUF_PARTIAL_ROPE | GGUF_WIDE_HEADS | GGUF_RMS_NORM | GGUF_GROUPS | GGUF_EXPERTS | GGUF_DENSE_WIDTH |
         GGUF_ROUTED},
    {"deepseek2", LIST("deepseek_v2", "deepseek_v3"), swiglu, deepseek2_rows, depths_dropped,
     GGUF_ROPE | GGUF_PARTIAL_ROPE | GGUF_WIDE_HEADS | GGUF_RMS_NORM | GGUF_EXPERTS | GGUF_DENSE_WIDTH | GGUF_ROUTED |
         GGUF_LATENTS},
    {"starcoder2", LIST("starcoder2"), gelu, plain_rows, NULL, GGUF_ROPE | GGUF_GROUPS | GGUF_OUTPUT_BIAS},
    {"phi3", LIST("phi3"), swiglu, phi3_rows, NULL, GGUF_ROPE | GGUF_PARTIAL_ROPE | GGUF_RMS_NORM | GGUF_GROUPS},
    {"stablelm", LIST("stablelm"), swiglu, qwen3_rows, NULL, GGUF_ROPE | GGUF_PARTIAL_ROPE | GGUF_GROUPS | GGUF_OUTPUT},
    {"nemotron", LIST("nemotron"), LIST("squared_relu"), plain_rows, NULL,
     GGUF_ROPE | GGUF_PARTIAL_ROPE | GGUF_GROUPS | GGUF_OUTPUT_BIAS | GGUF_OUTPUT},
    {"starcoder", LIST("gpt_bigcode"), gelu, gpt2_rows, NULL, GGUF_GROUPS},
    {"bert", LIST("bert", "roberta", "xlm-roberta", "camembert"), gelu, bert_rows, bert_dropped, 0},
    {"t5", LIST("t5", "mt5", "umt5"), LIST("relu", "gelu_tanh gated"), t5_rows, NULL, GGUF_WIDE_HEADS | GGUF_RMS_NORM},
};

bool gguf_has(const struct gguf_architecture *architecture, enum gguf_ability ability) {
    return architecture->abilities & ability;
}

const struct gguf_architecture *gguf_architecture_of(const char *family) {
    for (size_t i = 0; i < COUNT(architectures); i++)
        for (const char *const *runs = architectures[i].families; *runs; runs++)
            if (strcmp(*runs, family) == 0)
                return &architectures[i];
    return NULL;
}

char *gguf_family_list(void) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (size_t i = 0; i < COUNT(architectures); i++)
        for (const char *const *runs = architectures[i].families; *runs; runs++)
            buffer_printf(&text, "%s%s", text.length > 0 ? ", " : "", *runs);
    return memory_string(buffer_string(&text));
}

bool gguf_is_latent(const struct gguf_row *row) {
    return strstr(row->ours, ".linear_kv_up_proj.") != NULL;
}

bool gguf_is_expert_bias(const char *name) {
    size_t length = strlen(name);
    return strstr(name, ".mlp.experts.") && length > 5 && strcmp(name + length - 5, ".bias") == 0;
}

// A row with several names fits only a parameter with that many segments: T5's gated MLP has two, the plain one one.
struct gguf_match gguf_match(const struct gguf_architecture *architecture, const struct param *param) {
    int64_t layer;
    for (const char *const *pattern = architecture->dropped; pattern && *pattern; pattern++)
        if (name_match(*pattern, param->name, &layer))
            return (struct gguf_match){.is_dropped = true};
    for (const struct gguf_row *row = architecture->rows; row->ours; row++) {
        struct gguf_match match = {.row = row};
        while (match.pieces < GGUF_MAX_PIECES && match.row->theirs[match.pieces])
            match.pieces++;
        bool fits = match.pieces == 1 || gguf_is_latent(match.row) || param->shard.segment_count == match.pieces;
        if (fits && name_match(match.row->ours, param->name, &match.layer))
            return match;
    }
    return (struct gguf_match){0};
}
