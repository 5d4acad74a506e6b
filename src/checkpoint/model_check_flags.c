// Whether two configurations describe the same model, by what their flags mean together: --swiglu and --activation silu
// with a gate are the same. See model_check.h.
#include "checkpoint/model_check.h"

#include "model/choices.h"
#include "parallel/mesh.h"
#include <stdlib.h>
#include <string.h>

struct fact {
    const char *flag;
    double from, to;
};
struct flag_word {
    const char *flag, *from, *to;
};

#define FIELD(flag, name)                                                                                              \
    { flag, (double)from->name, (double)to->name }
#define MEANING(flag, function)                                                                                        \
    { flag, (double)function(from), (double)function(to) }
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_relative(const struct config *config) {
    return strcmp(config->position_embedding_type, "relative") == 0;
}

static bool is_bert(const struct config *config) {
    return config_form(config) == CONFIG_BERT;
}

// A table of token types that is all zero is as none; whether it is, the tensors say.
static bool has_types_alike(const struct config *from, const struct config *to) {
    return config_token_types(from) == config_token_types(to) || config_token_types(from) == 0;
}

static void tell_facts(const struct fact *facts, size_t count, struct buffer *out) {
    for (size_t i = 0; i < count; i++)
        if (facts[i].from != facts[i].to)
            buffer_printf(out, "%s%s %.17g became %.17g", out->length > 0 ? "; " : "", facts[i].flag, facts[i].from,
                          facts[i].to);
}

// A width that no layer has says nothing.
static int64_t dense_width(const struct config *config) {
    bool has_dense = config->num_experts == 0 || config_expert_layers(config) < config->num_layers;
    return has_dense ? config->ffn_hidden_size : 0;
}

// Widths of latent attention, 0 without it.
static int64_t latent_q_rank(const struct config *config) {
    return config->multi_latent_attention ? config->q_lora_rank : 0;
}
static int64_t latent_kv_rank(const struct config *config) {
    return config->multi_latent_attention ? config->kv_lora_rank : 0;
}
static int64_t latent_positions(const struct config *config) {
    return config->multi_latent_attention ? config->qk_pos_emb_head_dim : 0;
}

// What experts compute with; flags about them say nothing without them.
static void add_experts(const struct config *from, const struct config *to, struct buffer *out) {
    const struct fact facts[] = {
        MEANING("--moe-ffn-hidden-size", config_expert_width),
        FIELD("--moe-router-topk", moe_router_topk),
        FIELD("--moe-router-pre-softmax", moe_router_pre_softmax),
        MEANING("--moe-router-topk-scaling-factor", config_router_factor),
        FIELD("--moe-router-num-groups", moe_router_num_groups),
        FIELD("--moe-router-group-topk", moe_router_group_topk),
        MEANING("--moe-router-group-best", config_group_best),
        FIELD("--moe-shared-expert-intermediate-size", moe_shared_expert_intermediate_size),
        FIELD("--moe-shared-expert-gate", moe_shared_expert_gate),
        FIELD("--moe-router-enable-expert-bias", moe_router_enable_expert_bias),
    };
    tell_facts(facts, COUNT(facts), out);
    if (strcmp(from->moe_router_score_function, to->moe_router_score_function) != 0)
        buffer_printf(out, "%s--moe-router-score-function %s became %s", out->length > 0 ? "; " : "",
                      from->moe_router_score_function, to->moe_router_score_function);
    bool *before = config_list_expert_layers(from), *after = config_list_expert_layers(to);
    int64_t layers = from->num_layers < to->num_layers ? from->num_layers : to->num_layers;
    if (memcmp(before, after, (size_t)layers * sizeof *before) != 0)
        buffer_printf(out, "%s--moe-layer-freq %s became %s", out->length > 0 ? "; " : "", from->moe_layer_freq,
                      to->moe_layer_freq);
    free(before);
    free(after);
}

static void add_facts(const struct config *from, const struct config *to, struct buffer *out) {
    const struct fact facts[] = {
        MEANING("--encoder-num-layers", config_encoder_layers),
        MEANING("--decoder-num-layers", config_decoder_layers),
        FIELD("--hidden-size", hidden_size),
        MEANING("--word-embedding-size", config_word_embedding_size),
        MEANING("--ffn-hidden-size", dense_width),
        FIELD("--num-attention-heads", num_attention_heads),
        FIELD("--kv-channels", kv_channels),
        MEANING("--num-query-groups", config_query_groups),
        FIELD("--padded-vocab-size", padded_vocab_size),
        FIELD("--max-position-embeddings", max_position_embeddings),
        FIELD("--position-offset", position_offset),
        FIELD("--norm-epsilon", norm_epsilon),
        FIELD("--no-norm-bias", no_norm_bias),
        FIELD("--embed-layernorm", embed_layernorm),
        FIELD("--qk-layernorm", qk_layernorm),
        FIELD("--qk-layernorm-all-heads", qk_layernorm_all_heads),
        FIELD("--qk-layernorm-per-head", qk_layernorm_per_head),
        FIELD("--qk-layernorm-after-rope", qk_layernorm_after_rope),
        FIELD("--parallel-residual", parallel_residual),
        FIELD("--parallel-residual-one-norm", parallel_residual_one_norm),
        FIELD("--embedding-multiplier", embedding_multiplier),
        FIELD("--residual-multiplier", residual_multiplier),
        FIELD("--logits-scaling", logits_scaling),
        MEANING("--no-rope-freq", config_no_rope_freq),
        MEANING("--gated-linear-unit", config_is_gated),
        FIELD("--scale-alibi", scale_alibi),
        FIELD("--glu-linear-offset", glu_linear_offset),
        FIELD("--activation-func-clamp-value", activation_func_clamp_value),
        MEANING("--add-qkv-bias", config_has_qkv_bias),
        MEANING("--add-attention-bias", config_has_attention_bias),
        MEANING("--add-mlp-bias", config_has_mlp_bias),
        MEANING("--add-output-bias", config_has_output_bias),
        FIELD("--untie-embeddings-and-output-weights", untie_embeddings_and_output_weights),
        FIELD("--scale-tied-output", scale_tied_output),
        MEANING("--bert-no-binary-head", !config_has_binary_head),
        FIELD("--sliding-window", sliding_window),
        FIELD("--rotary-base-local", rotary_base_local),
        FIELD("--attn-logit-softcapping", attn_logit_softcapping),
        FIELD("--final-logit-softcapping", final_logit_softcapping),
        MEANING("--use-rope-scaling", config_scales_rope),
        FIELD("--num-experts", num_experts),
        FIELD("--mtp-num-layers", mtp_num_layers),
        FIELD("--multi-latent-attention", multi_latent_attention),
        MEANING("--q-lora-rank", latent_q_rank),
        MEANING("--kv-lora-rank", latent_kv_rank),
        MEANING("--qk-pos-emb-head-dim", latent_positions),
        MEANING("--v-head-dim", config_value_channels),
        MEANING("--latent-norm-epsilon", config_latent_epsilon),
        FIELD("--latent-rotary-halves", latent_rotary_halves),
    };
    tell_facts(facts, COUNT(facts), out);
    if (from->num_experts > 0 && to->num_experts > 0)
        add_experts(from, to, out);
    if (from->sliding_window == to->sliding_window && !config_same_windows(from, to))
        buffer_printf(out, "%slayers with windows differ (--window-attn-skip-freq)", out->length > 0 ? "; " : "");
    if (!has_types_alike(from, to))
        buffer_printf(out, "%s--num-token-types %lld became %lld", out->length > 0 ? "; " : "",
                      (long long)config_token_types(from), (long long)config_token_types(to));
}

static void add_words(const struct config *from, const struct config *to, bool has_head, struct buffer *out) {
    const struct flag_word words[] = {
        {"--model", from->model, to->model},
        {"--normalization", from->normalization, to->normalization},
        {"--softmax-type", from->softmax_type, to->softmax_type},
        {"--norm-placement", from->norm_placement, to->norm_placement},
        {"--position-embedding-type", from->position_embedding_type, to->position_embedding_type},
        {"--activation", config_activation(from), config_activation(to)},
        {"--lm-head-activation", is_bert(from) && has_head ? config_head_activation(from) : "",
         is_bert(to) && has_head ? config_head_activation(to) : ""},
        {"--rope-scaling-type", config_scales_rope(from) ? from->rope_scaling_type : "",
         config_scales_rope(to) ? to->rope_scaling_type : ""},
    };
    for (size_t i = 0; i < COUNT(words); i++)
        if (strcmp(words[i].from, words[i].to) != 0)
            buffer_printf(out, "%s%s %s became %s", out->length > 0 ? "; " : "", words[i].flag, words[i].from,
                          words[i].to);
}

// What the layers compute with: rotary frequencies and the scale of scores, in the precision they have there.
static void add_choices(const struct config *from, const struct config *to, struct buffer *out) {
    struct mesh mesh = {0};
    (void)mesh_place(&mesh, 0, 1, NULL);
    struct choices a, b;
    choices_set(&a, from, &mesh);
    choices_set(&b, to, &mesh);
    if (a.scale != b.scale)
        buffer_printf(out, "%sthe scale of attention scores %g became %g", out->length > 0 ? "; " : "", (double)a.scale,
                      (double)b.scale);
    if (a.rope.pairs != b.rope.pairs || a.rope.is_interleaved != b.rope.is_interleaved ||
        a.rope.factor != b.rope.factor || a.rope.short_length != b.rope.short_length ||
        memcmp(a.rope.long_frequencies, b.rope.long_frequencies, sizeof a.rope.long_frequencies) != 0 ||
        memcmp(a.rope.frequencies, b.rope.frequencies, (size_t)a.rope.pairs * sizeof a.rope.frequencies[0]) != 0)
        buffer_printf(out, "%srotary frequencies differ (--rotary-base, scaling or interpolation)",
                      out->length > 0 ? "; " : "");
    if (config_scales_rope(from) && from->rope_scaling_factor != to->rope_scaling_factor)
        buffer_printf(out, "%s--rope-scaling-factor %g became %g", out->length > 0 ? "; " : "",
                      from->rope_scaling_factor, to->rope_scaling_factor);
    if (is_relative(from) && is_relative(to) &&
        (from->relative_attention_num_buckets != to->relative_attention_num_buckets ||
         from->relative_attention_max_distance != to->relative_attention_max_distance))
        buffer_printf(out, "%sbuckets of relative positions differ", out->length > 0 ? "; " : "");
}

void model_check_flags(const struct config *from, const struct config *to, bool allows_near, struct buffer *out) {
    add_words(from, to, !allows_near, out);
    add_facts(from, to, out);
    if (out->length == 0)
        add_choices(from, to, out);
}
