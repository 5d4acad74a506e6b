// Names of Megatron's parameters. See megatron_folder.h.
#include "formats/megatron_folder.h"

#include "base/memory.h"
#include <stddef.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *skip(const char *text, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

// Names inside a layer: the beginning of theirs and of ours. Of several names of theirs, today's is written.
static const struct {
    const char *theirs, *ours;
    bool is_written;
} of_layer[] = {
    {"input_layernorm.", "input_layernorm.", false},
    {"input_norm.", "input_layernorm.", false},
    {"self_attention.linear_qkv.layer_norm_", "input_layernorm.", true},
    {"self_attention.linear_qkv.", "self_attention.linear_qkv.", true},
    {"self_attention.query_key_value.", "self_attention.linear_qkv.", false},
    {"attention.query_key_value.", "self_attention.linear_qkv.", false},
    {"self_attention.linear_proj.", "self_attention.linear_proj.", true},
    {"self_attention.dense.", "self_attention.linear_proj.", false},
    {"attention.dense.", "self_attention.linear_proj.", false},
    {"pre_cross_attn_layernorm.", "pre_cross_attn_layernorm.", false},
    {"cross_attention.linear_q.", "cross_attention.linear_q.", false},
    {"inter_attention.query.", "cross_attention.linear_q.", false},
    {"cross_attention.linear_kv.", "cross_attention.linear_kv.", false},
    {"inter_attention.key_value.", "cross_attention.linear_kv.", false},
    {"cross_attention.linear_proj.", "cross_attention.linear_proj.", false},
    {"inter_attention.dense.", "cross_attention.linear_proj.", false},
    {"post_inter_attention_layernorm.", "pre_mlp_layernorm.", false},
    {"post_inter_attention_norm.", "pre_mlp_layernorm.", false},
    {"self_attention.q_layernorm.", "self_attention.q_layernorm.", true},
    {"self_attention.k_layernorm.", "self_attention.k_layernorm.", true},
    {"pre_mlp_layernorm.", "pre_mlp_layernorm.", false},
    {"post_attention_layernorm.", "pre_mlp_layernorm.", false},
    {"post_attention_norm.", "pre_mlp_layernorm.", false},
    {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm.", true},
    {"mlp.linear_fc1.", "mlp.linear_fc1.", true},
    {"mlp.dense_h_to_4h.", "mlp.linear_fc1.", false},
    {"mlp.linear_fc2.", "mlp.linear_fc2.", true},
    {"mlp.dense_4h_to_h.", "mlp.linear_fc2.", false},
    {"mlp.router.", "mlp.router.", true},
    {"mlp.shared_experts.linear_fc1.", "mlp.shared_experts.linear_fc1.", true},
    {"mlp.shared_experts.linear_fc2.", "mlp.shared_experts.linear_fc2.", true},
};

// Buffers, scales of Transformer Engine, and the second copy of a tied embedding.
static const char *const ignored[] = {
    "_extra_state",          "inv_freq",       "word_embeddings_for_head.", "rotary_pos_emb",
    "attention.masked_bias", "attention.bias", "_tokens_per_expert"};

static bool is_ignored_name(const char *name) {
    for (size_t i = 0; i < COUNT(ignored); i++)
        if (strstr(name, ignored[i]))
            return true;
    return false;
}

// A norm is named after the sublayer before it: in a decoder with a memory, cross attention comes after attention.
static const char *norm_across(const char *rest) {
    const char *end = skip(rest, "post_attention_layernorm.");
    return end ? end : skip(rest, "post_attention_norm.");
}

static const char *const same_parts[] = {"mlp.router.expert_bias", "mlp.shared_experts.gate_weight"};

// Converts the part of a name after the layer; `before` is our prefix, which ends with a dot.
static char *part_name(const char *rest, const char *before) {
    for (size_t i = 0; i < COUNT(of_layer); i++) {
        const char *end = skip(rest, of_layer[i].theirs);
        if (end && (strcmp(end, "weight") == 0 || strcmp(end, "bias") == 0))
            return memory_printf("%s%s%s", before, of_layer[i].ours, end);
    }
    for (size_t i = 0; i < COUNT(same_parts); i++)
        if (strcmp(rest, same_parts[i]) == 0)
            return memory_printf("%s%s", before, same_parts[i]);
    return NULL;
}

char *megatron_their_part(const char *part, const char *before) {
    for (size_t i = 0; i < COUNT(of_layer); i++)
        if (of_layer[i].is_written && skip(part, of_layer[i].ours))
            return memory_printf("%s%s%s", before, of_layer[i].theirs, skip(part, of_layer[i].ours));
    if (skip(part, "mlp.experts."))
        return memory_printf("%smlp.experts.experts.%s", before, skip(part, "mlp.experts."));
    for (size_t i = 0; i < COUNT(same_parts); i++)
        if (strcmp(part, same_parts[i]) == 0)
            return memory_printf("%s%s", before, part);
    return NULL;
}

// Experts' matrices: "local_experts.3.linear_fc1.weight" (one by one), "linear_fc1.weight3" (grouped), "weight1" and
// "weight2" (packed), and in distributed checkpoints "experts.linear_fc1.weight" with all of them, or
// "experts.3.linear_fc1.weight".
static char *expert_name(const char *rest, const char *before, struct megatron_found *found) {
    static const char *const parts[] = {"linear_fc1.weight", "linear_fc1.bias", "linear_fc2.weight", "linear_fc2.bias"};
    const char *of = skip(rest, "mlp.experts.");
    if (!of)
        return NULL;
    found->is_packed = strcmp(of, "weight1") == 0 || strcmp(of, "weight2") == 0;
    if (found->is_packed)
        return memory_printf("%smlp.experts.linear_fc%c.weight", before, of[6]);
    const char *inner = skip(of, "local_experts.") ? skip(of, "local_experts.") : skip(of, "experts.");
    size_t digits = inner ? strspn(inner, "0123456789") : 0;
    if (digits > 0 && digits < 7 && inner[digits] == '.') {
        found->expert = strtoll(inner, NULL, 10);
        inner += digits + 1;
    }
    of = inner ? inner : of;
    for (size_t i = 0; i < COUNT(parts); i++) {
        const char *end = skip(of, parts[i]);
        size_t behind = end ? strspn(end, "0123456789") : 0;
        if (!end || end[behind] || behind > 6 || (behind > 0 && found->expert >= 0))
            continue;
        if (behind > 0)
            found->expert = strtoll(end, NULL, 10);
        return memory_printf("%smlp.experts.%s", before, parts[i]);
    }
    return NULL;
}

static char *layer_name(const char *rest, const char *stack, int64_t layer, bool has_cross,
                        struct megatron_found *found) {
    if (has_cross && norm_across(rest))
        return memory_printf("%s.layers.%" PRId64 ".pre_cross_attn_layernorm.%s", stack, layer, norm_across(rest));
    OWNED char *before = memory_printf("%s.layers.%" PRId64 ".", stack, layer);
    char *name = part_name(rest, before);
    return name ? name : expert_name(rest, before, found);
}

// A depth of multi-token prediction, "mtp.layers.0.…": numbers do not depend on the stage. Its layer has two names.
static char *depth_name(const char *theirs) {
    static const char *const layers[] = {"transformer_layer.", "mtp_model_layer."};
    const char *number = skip(theirs, "mtp.layers.");
    size_t digits = number ? strspn(number, "0123456789") : 0;
    if (digits == 0 || digits > 6 || number[digits] != '.')
        return NULL;
    const char *rest = number + digits + 1;
    if (skip(rest, "enorm.") || skip(rest, "hnorm.") || skip(rest, "eh_proj.") || skip(rest, "final_layernorm."))
        return memory_string(theirs);
    for (size_t i = 0; i < COUNT(layers); i++)
        if (skip(rest, layers[i])) {
            OWNED char *before = memory_printf("mtp.layers.%.*s.transformer_layer.", (int)digits, number);
            return part_name(skip(rest, layers[i]), before);
        }
    return NULL;
}

// Converts the name after "decoder.", "encoder." or "transformer.". A GPT's only stack is a decoder under any of these
// names, a BERT's an encoder.
static char *stack_name(const char *rest, const struct megatron_place *place, struct megatron_found *found) {
    const char *of = skip(rest, "layers.");
    const char *final = skip(rest, "final_layernorm.") ? skip(rest, "final_layernorm.") : skip(rest, "final_norm.");
    bool is_decoder = place->form == CONFIG_GPT || found->stack == MEGATRON_DECODER;
    const char *stack = is_decoder ? "decoder" : "encoder";
    if (final)
        return memory_printf("%s.final_layernorm.%s", stack, final);
    size_t digits = of ? strspn(of, "0123456789") : 0;
    if (digits == 0 || digits > 6 || of[digits] != '.')
        return NULL;
    found->layer = strtoll(of, NULL, 10);
    return layer_name(of + digits + 1, stack, found->layer + place->first_layer[found->stack],
                      found->stack == MEGATRON_DECODER, found);
}

// BERT's heads and T5's, and T5's tables of distances.
static char *head_name(const char *theirs) {
    if (strcmp(theirs, "lm_head.output_layer.weight") == 0 || strcmp(theirs, "lm_head.output_layer.bias") == 0)
        return memory_string(skip(theirs, "lm_head."));
    if (strcmp(theirs, "position_embeddings.weight") == 0)  // a second name in core's T5
        return memory_string("embedding.position_embeddings.weight");
    if (strcmp(theirs, "encoder_relative_pos_emb.relative_attention_bias.weight") == 0)
        return memory_string("encoder.relative_attention_bias.weight");
    if (strcmp(theirs, "decoder_relative_pos_emb.relative_attention_bias.weight") == 0)
        return memory_string("decoder.relative_attention_bias.weight");
    const char *norm =
        skip(theirs, "lm_head.layernorm.") ? skip(theirs, "lm_head.layernorm.") : skip(theirs, "lm_head.layer_norm.");
    if (norm)
        return memory_printf("lm_head.layer_norm.%s", norm);
    if (strcmp(theirs, "lm_head.bias") == 0 || strcmp(theirs, "output_layer.bias") == 0)
        return memory_string("output_layer.bias");
    bool is_same = skip(theirs, "lm_head.dense.") || skip(theirs, "binary_head.") || skip(theirs, "pooler.dense.");
    return is_same ? memory_string(theirs) : NULL;
}

static char *our_name(const char *theirs, const struct megatron_place *place, struct megatron_found *found) {
    static const char *const stacks[] = {"decoder.", "encoder.", "transformer."};
    while (skip(theirs, "module.") || skip(theirs, "language_model."))
        theirs = strchr(theirs, '.') + 1;
    if (skip(theirs, "embedding.") || strcmp(theirs, "output_layer.weight") == 0)
        return memory_string(theirs);
    if (place->form == CONFIG_T5 && skip(theirs, "decoder."))
        found->stack = MEGATRON_DECODER;
    for (size_t i = 0; i < COUNT(stacks); i++)
        if (skip(theirs, stacks[i]))
            return stack_name(skip(theirs, stacks[i]), place, found);
    return place->form != CONFIG_GPT ? head_name(theirs) : depth_name(theirs);
}

struct megatron_found megatron_name(const char *theirs, const struct megatron_place *place) {
    struct megatron_found found = {
        .is_ignored = is_ignored_name(theirs), .layer = -1, .stack = MEGATRON_FIRST, .expert = -1};
    if (!found.is_ignored)
        found.ours = our_name(theirs, place, &found);
    return found;
}

enum megatron_split megatron_split(const char *ours, bool is_gated) {
    if (strstr(ours, ".linear_qkv."))
        return SPLIT_QKV;
    if (strstr(ours, ".linear_kv."))
        return SPLIT_KV;
    if (strstr(ours, ".linear_q."))
        return SPLIT_ROWS;
    if (strstr(ours, ".linear_fc1."))
        return is_gated ? SPLIT_GATED : SPLIT_ROWS;
    if (name_ends(ours, "linear_proj.weight") || name_ends(ours, "linear_fc2.weight"))
        return SPLIT_COLUMNS;
    if (strstr(ours, "word_embeddings") || strstr(ours, "output_layer") || strstr(ours, ".eh_proj."))
        return SPLIT_ROWS;
    return SPLIT_WHOLE;
}

void megatron_shard_shape(enum megatron_split split, int64_t ranks, int64_t *shape) {
    if (split != SPLIT_WHOLE)
        shape[split == SPLIT_COLUMNS ? 1 : 0] /= ranks;
}
