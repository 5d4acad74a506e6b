// All families. Their names of tensors and members are transformers'; ours are those of docs/internals/models.md.
#include "formats/hf_family.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "formats/hf_parts.h"
#include <string.h>

// Their order matters: the first family that can express a model is written.
static const struct hf_family *const tables[] = {
    hf_family_learned, hf_family_rotary,  hf_family_gemma, hf_family_parallel, hf_family_experts, hf_family_latent,
    hf_family_glm,     hf_family_glm_moe, hf_family_likes, hf_family_routed,   hf_family_alibi,   hf_family_encoders};
enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

const struct hf_family *hf_family_at(size_t i) {
    for (size_t t = 0; t < TABLE_COUNT; t++)
        for (const struct hf_family *family = tables[t]; family->model_type; family++)
            if (i-- == 0)
                return family;
    return NULL;
}

const struct hf_row *hf_row_at(const struct hf_family *family, size_t i) {
    for (const struct hf_row *const *part = family->rows; *part; part++)
        for (const struct hf_row *row = *part; row->ours; row++)
            if (i-- == 0)
                return row;
    return NULL;
}

const struct hf_flag *hf_flag_at(const struct hf_family *family, size_t i) {
    for (const struct hf_flag *const *part = family->flags; *part; part++)
        for (const struct hf_flag *flag = *part; flag->flag; flag++)
            if (i-- == 0)
                return flag;
    return NULL;
}

bool hf_has_flag(const struct hf_family *family, const char *flag) {
    const struct hf_flag *fixed;
    for (size_t i = 0; (fixed = hf_flag_at(family, i)); i++)
        if (strcmp(fixed->flag, flag) == 0)
            return true;
    return false;
}

const char *hf_default(const struct hf_family *family, const char *member) {
    for (const struct hf_flag *known = family->defaults; known && known->flag; known++)
        if (strcmp(known->flag, member) == 0)
            return known->value;
    return NULL;
}

bool hf_key_at(const struct hf_family *family, size_t i, struct hf_key *key) {
    for (const struct hf_key *const *part = family->keys; *part; part++)
        for (const struct hf_key *row = *part; row->key; row++)
            if (i-- == 0) {
                const char *fallback = hf_default(family, row->key);
                *key = *row;
                key->fallback = fallback ? fallback : row->fallback;
                return true;
            }
    return false;
}

// How many conditions hold; -1 if one fails.
static int count_conditions(const struct hf_family *family, const struct json *root) {
    int count = 0;
    for (; count < HF_MAX_CONDITIONS && family->conditions[count].flag; count++) {
        const struct json *value = root ? json_member(root, family->conditions[count].flag) : NULL;
        const char *text = !value                       ? ""
                           : value->type == JSON_TRUE   ? "true"
                           : value->type == JSON_FALSE  ? "false"
                           : value->type == JSON_NUMBER ? value->string
                                                        : "";
        if (strcmp(text, family->conditions[count].value) != 0)
            return -1;
    }
    return count;
}

const struct hf_family *hf_family_find(const char *model_type, const struct json *root) {
    const struct hf_family *family = NULL, *best = NULL;
    int most = -1;
    for (size_t i = 0; (family = hf_family_at(i)); i++) {
        int count = strcmp(family->model_type, model_type) == 0 ? count_conditions(family, root) : -1;
        if (count > most) {
            most = count;
            best = family;
        }
    }
    return best;
}

const char *hf_family_missing(const char *model_type) {
    static const char state[] = "state space layers", linear[] = "linear attention";
    static const char chunks[] = "layers with attention in chunks, and weights of experts on their inputs";
    static const char indexed[] = "attention to the tokens that an indexer chooses";
    static const char shared[] = "layers that share keys and values, and several residual streams";
    static const char images[] = "a tower for images beside its text model";
    static const struct {
        const char *model_type, *missing;
    } rows[] = {
        {"cohere2_moe", "experts beside attention"},
        {"granitemoehybrid", state},
        {"gpt_neo", "layers that alternate between global and local attention"},
        {"codegen", "queries, keys and values packed for four devices"},
        {"gemma3", "a tower for images beside its text model (a model of text alone is gemma3_text)"},
        {"olmo", "norms without weights"},
        {"nanochat", "norms without weights, and one behind the embedding"},
        {"apertus", "activations with numbers that are learned (xIELU)"},
        {"ministral3", "scores that are scaled by position"},
        {"chatglm", "names of weights of its own (the same GLM-4 with transformers' names is glm)"},
        {"phimoe", "routers that drop close scores"},
        {"dbrx", "limits of queries, keys and values"},
        {"switch_transformers", "experts in an encoder-decoder"},
        {"llama4", chunks},
        {"llama4_text", chunks},
        {"axk1", "norms behind experts beside layers without experts that have none"},
        {"ernie4_5_moe", "routers that choose by a softmax and a bias"},
        {"glm_moe_dsa", indexed},
        {"deepseek_v32", indexed},
        {"qwen3_next", linear},
        {"qwen3_5", linear},
        {"qwen3_5_moe", linear},
        {"kimi_linear", linear},
        {"minimax", linear},
        {"lfm2", "short convolutions"},
        {"gemma3n", shared},
        {"gemma3n_text", shared},
        {"mistral3", images},
        {"glm4v", images},
        {"glm4v_moe", images},
        {"qwen2_vl", images},
        {"qwen2_5_vl", images},
        {"qwen3_vl", images},
        {"qwen3_vl_moe", images},
        {"bamba", state},
        {"zamba2", state},
        {"mamba", state},
        {"mamba2", state},
        {"jamba", state},
        {"falcon_mamba", state},
        {"falcon_h1", state},
        {"nemotron_h", state},
        {"rwkv", "recurrent layers"},
        {"recurrent_gemma", "recurrent layers"},
        {"modernbert", "layers that alternate between global and local attention"},
        {"deberta-v2", "disentangled attention"},
        {"albert", "layers that share their weights"},
        {"electra", "a discriminator"},
        {"bart", "an encoder-decoder with learned positions and norms after sublayers"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].model_type, model_type) == 0)
            return rows[i].missing;
    return NULL;
}

const char *hf_groups_key(const struct hf_family *family) {
    return family->groups_key ? family->groups_key : "num_key_value_heads";
}

char *hf_family_list(void) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    const struct hf_family *family = NULL;
    for (size_t i = 0; (family = hf_family_at(i)); i++)
        if (!family->conditions[0].flag)
            buffer_printf(&text, "%s%s", i > 0 ? ", " : "", family->model_type);
    return memory_string(buffer_string(&text));
}

bool hf_has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (; words && *words; words += strspn(words, " ")) {
        size_t total = strcspn(words, " ");
        if (total == length && strncmp(words, word, length) == 0)
            return true;
        words += total;
    }
    return false;
}

bool hf_family_has_rope_kind(const struct hf_family *family, const char *kind) {
    return family->rope_kinds ? hf_has_word(family->rope_kinds, kind) : strcmp(kind, "longrope") != 0;
}
