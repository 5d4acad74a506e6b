// Flags to config.json, and which family can express them. See hf_config.h.
#include "checkpoint/hf_config.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Flags that shape a model: one that a family does not mention must have its default there.
static const char *const shaping[] = {"--model",
                                      "--normalization",
                                      "--norm-placement",
                                      "--qk-layernorm",
                                      "--position-embedding-type",
                                      "--position-offset",
                                      "--rotary-percent",
                                      "--rotary-interleaved",
                                      "--sliding-window",
                                      "--softmax-scale",
                                      "--activation",
                                      "--gated-linear-unit",
                                      "--disable-bias-linear",
                                      "--add-qkv-bias",
                                      "--add-output-bias",
                                      "--num-token-types",
                                      "--bert-no-binary-head",
                                      "--kv-channels",
                                      "--num-query-groups",
                                      "--add-attention-bias",
                                      "--add-mlp-bias",
                                      "--lm-head-activation",
                                      "--word-embedding-size"};

static void append_bool(struct buffer *out, bool value) {
    buffer_append_string(out, value ? "true" : "false");
}

// What a flag comes to together with the others, as text.
static void append_effective(const struct config *config, const char *flag, struct buffer *out) {
    struct flag_table table = config_flag_table(0);
    bool is_silu = strcmp(config_activation(config), "silu") == 0;
    if (strcmp(flag, "--activation") == 0)
        buffer_append_string(out, config_activation(config));
    else if (strcmp(flag, "--lm-head-activation") == 0)
        buffer_append_string(out, config_head_activation(config));
    else if (strcmp(flag, "--word-embedding-size") == 0)
        buffer_printf(out, "%lld", (long long)config_word_embedding_size(config));
    else if (strcmp(flag, "--gated-linear-unit") == 0)
        append_bool(out, config_is_gated(config));
    else if (strcmp(flag, "--swiglu") == 0)
        append_bool(out, is_silu && config_is_gated(config));
    else if (strcmp(flag, "--num-token-types") == 0)
        buffer_printf(out, "%lld", (long long)config_token_types(config));
    else if (strcmp(flag, "--decoder-num-layers") == 0)
        buffer_printf(out, "%lld", (long long)config_decoder_layers(config));
    else if (strcmp(flag, "--num-query-groups") == 0)
        buffer_printf(out, "%lld", (long long)config_query_groups(config));
    else if (strcmp(flag, "--bert-no-binary-head") == 0)
        append_bool(out, !config_has_binary_head(config));
    else
        flag_format(flag_find(&table, flag), config, out);
}

static bool is_value(const struct config *config, const char *flag, const char *value) {
    struct buffer text = {0};
    append_effective(config, flag, &text);
    char *end_a = NULL, *end_b = NULL;
    double a = strtod(buffer_string(&text), &end_a), b = strtod(value, &end_b);
    bool are_numbers = text.length > 0 && *end_a == '\0' && *end_b == '\0' && *value;
    bool is_same = are_numbers ? a == b : strcmp(buffer_string(&text), value) == 0;
    buffer_free(&text);
    return is_same;
}

// The word of a map whose flags all have the values it gives them, to be freed; NULL if there is none. Of several
// it is the `preferred` one, which may be NULL, else the first.
static char *find_theirs(const struct config *config, const struct hf_key *key, const char *preferred) {
    char *found = NULL;
    for (const char *word = key->map; *word;) {
        size_t total = strcspn(word, " "), name = strcspn(word, "=");
        char *values = memory_printf("%.*s", (int)(total - name - 1), word + name + 1);
        char *flags = memory_string(key->flags ? key->flags : ""), *value_rest = values, *flag_rest = flags;
        bool is_found = true;
        for (const char *flag = strsep(&flag_rest, "/"); flag && *flag; flag = strsep(&flag_rest, "/")) {
            const char *value = strsep(&value_rest, "/");
            is_found = is_found && value && is_value(config, flag, value);
        }
        free(values);
        free(flags);
        bool is_preferred = preferred && strlen(preferred) == name && strncmp(preferred, word, name) == 0;
        if (is_found && (is_preferred || !found)) {
            free(found);
            found = memory_printf("%.*s", (int)name, word);
        }
        word += total + strspn(word + total, " ");
    }
    return found;
}

static bool is_among(const char *flags, const char *flag) {
    size_t length = strlen(flag);
    for (const char *at = flags; at && (at = strstr(at, flag)); at += length)
        if (at[length] == '\0' || at[length] == '/')
            return true;
    return false;
}

static bool has_flag(const struct hf_family *family, const char *flag) {
    for (size_t i = 0; i < family->flag_count; i++)
        if (strcmp(family->flags[i].flag, flag) == 0)
            return true;
    return false;
}

static bool is_mentioned(const struct hf_family *family, const char *flag) {
    if (has_flag(family, flag))
        return true;
    for (size_t i = 0; i < family->key_count; i++)
        if (is_among(family->keys[i].flags, flag))
            return true;
    // SwiGLU says the activation too; rotary families have groups; BERT's heads are in its name.
    if (strcmp(flag, "--activation") == 0 || strcmp(flag, "--gated-linear-unit") == 0)
        return has_flag(family, "--swiglu");
    if (strcmp(flag, "--num-query-groups") == 0)
        return family->has_rope || family->has_multi_query;
    if (strcmp(flag, "--rotary-percent") == 0)
        return family->rotary_part != NULL;
    return strcmp(flag, "--bert-no-binary-head") == 0 && family->architecture_mlm;
}

// Whether a flag that the family does not mention is as if it were not there.
static bool is_plain(const struct config *config, const char *flag) {
    if (strcmp(flag, "--kv-channels") == 0)
        return config->kv_channels * config->num_attention_heads == config->hidden_size;
    if (strcmp(flag, "--num-query-groups") == 0)
        return config_query_groups(config) == config->num_attention_heads;
    if (strcmp(flag, "--num-token-types") == 0)
        return config_token_types(config) == 0;
    if (strcmp(flag, "--bert-no-binary-head") == 0)
        return !config_has_binary_head(config);
    if (strcmp(flag, "--lm-head-activation") == 0)
        return config_form(config) != CONFIG_BERT;
    if (strcmp(flag, "--word-embedding-size") == 0)
        return config_word_embedding_size(config) == config->hidden_size;
    struct config defaults;
    config_defaults(&defaults);
    struct buffer text = {0};
    append_effective(&defaults, flag, &text);
    bool is_same = is_value(config, flag, buffer_string(&text));
    buffer_free(&text);
    config_free(&defaults);
    return is_same;
}

// What stretches rotary frequencies and is not among the family's kinds; NULL if nothing is.
static const char *find_rope_obstacle(const struct hf_family *family, const struct config *config) {
    if (!family->has_rope)
        return NULL;
    if (config->use_rope_scaling && !hf_family_has_rope_kind(family, config->rope_scaling_type))
        return "--rope-scaling-type";
    bool is_linear = config->rotary_seq_len_interpolation_factor != 1;
    return is_linear && !hf_family_has_rope_kind(family, "linear") ? "--rotary-seq-len-interpolation-factor" : NULL;
}

// The first flag that the family cannot express; NULL if it can express them all.
static const char *find_obstacle(const struct hf_family *family, const struct config *config) {
    for (size_t i = 0; i < family->flag_count; i++) {
        // Dropout is how a model is trained and not what it is.
        bool is_dropout = strstr(family->flags[i].flag, "-dropout") != NULL;
        if (!is_dropout && !is_value(config, family->flags[i].flag, family->flags[i].value))
            return family->flags[i].flag;
    }
    for (size_t i = 0; i < family->key_count; i++) {
        if (family->keys[i].kind != HF_MAP || !family->keys[i].flags)
            continue;
        char *theirs = find_theirs(config, &family->keys[i], NULL);
        if (!theirs)
            return family->keys[i].flags;
        free(theirs);
    }
    int64_t groups = config_query_groups(config);
    if (family->has_multi_query && groups != 1 && groups != config->num_attention_heads)
        return "--num-query-groups";
    const char *rope = find_rope_obstacle(family, config);
    if (rope)
        return rope;
    for (size_t i = 0; i < sizeof shaping / sizeof shaping[0]; i++)
        if (!is_mentioned(family, shaping[i]) && !is_plain(config, shaping[i]))
            return shaping[i];
    return NULL;
}

const struct hf_family *hf_config_family(const struct config *config, const char *wanted) {
    struct buffer reasons = {0};
    const struct hf_family *family = NULL;
    for (size_t i = 0; (family = hf_family_at(i)); i++) {
        if (wanted && strcmp(family->model_type, wanted) != 0)
            continue;
        const char *obstacle = find_obstacle(family, config);
        if (!obstacle)
            break;
        // Of another form altogether: nobody asks why.
        if (!wanted && strcmp(obstacle, "--model") == 0)
            continue;
        struct buffer value = {0};
        if (!strchr(obstacle, '/'))
            append_effective(config, obstacle, &value);
        buffer_printf(&reasons, "%s%s has no %s %s", reasons.length > 0 ? "; " : "", family->model_type, obstacle,
                      buffer_string(&value));
        buffer_free(&value);
    }
    if (!family && wanted && reasons.length == 0) {
        char *known = hf_family_list();
        error_set_code(EXIT_CODE_USAGE, "the family %s is not known; there are %s", wanted, known);
        free(known);
    } else if (!family) {
        error_set("no family of Hugging Face's can express this model: %s; one that is to go there is trained from "
                  "a --preset of its family, beside which sizes may be given",
                  buffer_string(&reasons));
    }
    buffer_free(&reasons);
    return family;
}

// ---- writing ----

// Members are collected first, so that each stands once and what the base file says can be replaced.
struct member {
    char *key, *value;  // the value as JSON text
};
struct members {
    struct member *items;
    size_t count;
};

static void set_member(struct members *members, const char *key, char *value) {
    for (size_t i = 0; i < members->count; i++) {
        if (strcmp(members->items[i].key, key) == 0) {
            free(members->items[i].value);
            members->items[i].value = value;
            return;
        }
    }
    members->items = memory_realloc(members->items, (members->count + 1) * sizeof members->items[0]);
    members->items[members->count++] = (struct member){memory_string(key), value};
}

static char *quoted(const char *text) {
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_cstring(&json, text);
    char *copy = memory_string(buffer_string(&out));
    buffer_free(&out);
    return copy;
}

// A double as JSON: 10000.0 has to stay one.
static char *real_text(double value) {
    struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_double(&json, value);
    if (!strpbrk(buffer_string(&out), ".e"))
        buffer_append_string(&out, ".0");
    char *copy = memory_string(buffer_string(&out));
    buffer_free(&out);
    return copy;
}

static void append_real(struct json_writer *json, const char *key, double value) {
    char *text = real_text(value);
    json_key(json, key);
    json_number(json, text);
    free(text);
}

static char *number_text(const struct config *config, const struct hf_key *key) {
    struct flag_table table = config_flag_table(0);
    struct buffer text = {0};
    char *flag = memory_printf("%.*s", (int)strcspn(key->flags, "/"), key->flags);
    append_effective(config, flag, &text);
    char *copy = NULL;
    if (key->has_null && strcmp(buffer_string(&text), "0") == 0)
        copy = memory_string("null");
    else if (flag_find(&table, flag)->type == FLAG_DOUBLE)
        copy = real_text(strtod(buffer_string(&text), NULL));
    else
        copy = memory_printf("%lld", strtoll(buffer_string(&text), NULL, 10) + key->added);
    buffer_free(&text);
    free(flag);
    return copy;
}

static void set_key(struct members *members, const struct hf_config_write *write, const struct hf_key *key) {
    if (key->kind == HF_MAP) {
        const struct json *before = write->base ? json_member(write->base, key->key) : NULL;
        char *theirs = find_theirs(write->config, key, before && before->type == JSON_STRING ? before->string : NULL);
        CHECK(theirs != NULL);
        bool is_bare =
            strcmp(theirs, "true") == 0 || strcmp(theirs, "false") == 0 || theirs[strspn(theirs, "0123456789")] == 0;
        set_member(members, key->key, is_bare ? memory_string(theirs) : quoted(theirs));
        free(theirs);
    } else if (key->kind == HF_SWITCH) {
        struct buffer text = {0};
        append_effective(write->config, key->flags, &text);
        set_member(members, key->key, memory_string(buffer_string(&text)));
        buffer_free(&text);
    } else {
        set_member(members, key->key, number_text(write->config, key));
    }
}

// How rotary frequencies are stretched; what has its default is left out.
static void append_scaling(const struct config *config, struct json_writer *json) {
    json_begin_object(json);
    json_key(json, "rope_type");
    json_cstring(json, config->rope_scaling_type);
    append_real(json, "factor", config->rope_scaling_factor);
    bool is_llama3 = strcmp(config->rope_scaling_type, "llama3") == 0;
    if (is_llama3) {
        append_real(json, "low_freq_factor", config->rope_low_freq_factor);
        append_real(json, "high_freq_factor", config->rope_high_freq_factor);
    }
    if (strcmp(config->rope_scaling_type, "yarn") == 0) {
        if (config->yarn_beta_fast != 32)
            append_real(json, "beta_fast", config->yarn_beta_fast);
        if (config->yarn_beta_slow != 1)
            append_real(json, "beta_slow", config->yarn_beta_slow);
        if (config->yarn_attention_factor > 0)
            append_real(json, "attention_factor", config->yarn_attention_factor);
    }
    if (strcmp(config->rope_scaling_type, "dynamic") != 0) {
        json_key(json, "original_max_position_embeddings");
        json_int(json, config->rope_original_length);
    }
    json_end_object(json);
}

// rope_theta and rope_scaling, which every release reads; a newer rope_parameters of the base would speak against them.
static void set_rope(struct members *members, const struct config *config) {
    set_member(members, "rope_theta", real_text((double)config->rotary_base));
    set_member(members, "num_key_value_heads", memory_printf("%lld", (long long)config_query_groups(config)));
    if (config->use_rope_scaling) {
        struct buffer text = {0};
        struct json_writer json = {.out = &text};
        append_scaling(config, &json);
        set_member(members, "rope_scaling", memory_string(buffer_string(&text)));
        buffer_free(&text);
    } else if (config->rotary_seq_len_interpolation_factor != 1) {
        char *factor = real_text(config->rotary_seq_len_interpolation_factor);
        set_member(members, "rope_scaling", memory_printf("{\"rope_type\": \"linear\", \"factor\": %s}", factor));
        free(factor);
    } else {
        set_member(members, "rope_scaling", memory_string("null"));
    }
}

static void append_json(const struct json *value, struct json_writer *json) {
    switch (value->type) {
    case JSON_NULL:
        json_null(json);
        break;
    case JSON_FALSE:
    case JSON_TRUE:
        json_bool(json, value->type == JSON_TRUE);
        break;
    case JSON_STRING:
        json_string(json, value->string, value->length);
        break;
    case JSON_NUMBER:
        json_number(json, value->string);
        break;
    case JSON_ARRAY:
        json_begin_array(json);
        for (size_t i = 0; i < value->count; i++)
            append_json(&value->items[i], json);
        json_end_array(json);
        break;
    case JSON_OBJECT:
        json_begin_object(json);
        for (size_t i = 0; i < value->count; i++) {
            json_key(json, value->keys[i].string);
            append_json(&value->items[i], json);
        }
        json_end_object(json);
        break;
    }
}

static void set_base(struct members *members, const struct json *base) {
    for (size_t i = 0; base && i < base->count; i++) {
        if (strcmp(base->keys[i].string, "rope_parameters") == 0)
            continue;
        struct buffer text = {0};
        struct json_writer json = {.out = &text};
        append_json(&base->items[i], &json);
        set_member(members, base->keys[i].string, memory_string(buffer_string(&text)));
        buffer_free(&text);
    }
}

static bool has_member(const struct members *members, const char *key) {
    for (size_t i = 0; i < members->count; i++)
        if (strcmp(members->items[i].key, key) == 0)
            return true;
    return false;
}

// What the tokenizer says goes before what the family's own tokenizers have: an id that it lacks is another token's.
static void set_ids(struct members *members, const struct hf_token_ids *ids) {
    const struct {
        const char *key;
        int32_t id;
    } rows[] = {{"bos_token_id", ids->bos},
                {"eos_token_id", ids->eos},
                {"pad_token_id", ids->pad},
                {"decoder_start_token_id", ids->decoder_start}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && ids->is_known; i++) {
        if (rows[i].id >= 0)
            set_member(members, rows[i].key, memory_printf("%d", rows[i].id));
        else if (has_member(members, rows[i].key))
            set_member(members, rows[i].key, memory_string("null"));
    }
}

static void set_members(struct members *members, const struct hf_config_write *write) {
    const struct hf_family *family = write->family;
    const struct config *config = write->config;
    for (size_t i = 0; i < family->written_count; i++)
        set_member(members, family->written[i].flag, memory_string(family->written[i].value));
    set_base(members, write->base);
    if (!write->has_base_ids)
        set_ids(members, &write->ids);
    bool is_mlm = family->architecture_mlm && !config_has_binary_head(config);
    set_member(members, "model_type", quoted(family->model_type));
    set_member(members, "architectures",
               memory_printf("[\"%s\"]", is_mlm ? family->architecture_mlm : family->architecture));
    set_member(members, "torch_dtype", quoted(write->dtype));
    if (family->architecture_mlm && strcmp(config_activation(config), config_head_activation(config)) != 0)
        log_info(
            "note: the head has %s and the blocks have %s; %s has that of the blocks everywhere, so its logits will "
            "differ in the fourth digit",
            config_head_activation(config), config_activation(config), family->model_type);
    if (write->base && json_member(write->base, "dtype"))  // its new name
        set_member(members, "dtype", quoted(write->dtype));
    for (size_t i = 0; i < family->key_count; i++)
        if (!family->keys[i].is_read)
            set_key(members, write, &family->keys[i]);
    if (family->has_rope)
        set_rope(members, config);
    if (family->rotary_part)
        set_member(members, "partial_rotary_factor", real_text(config->rotary_percent));
    if (family->has_multi_query)
        set_member(members, "multi_query", memory_string(config_query_groups(config) == 1 ? "true" : "false"));
    bool is_tied = !config->untie_embeddings_and_output_weights, is_t5 = strcmp(family->model_type, "t5") == 0;
    set_member(members, "tie_word_embeddings", memory_string(is_tied ? "true" : "false"));
    if (is_t5)
        set_member(members, "scale_decoder_outputs", memory_string(config->scale_tied_output ? "true" : "false"));
}

void hf_config_write(const struct hf_config_write *write, struct buffer *out) {
    struct members members = {0};
    set_members(&members, write);
    buffer_append_string(out, "{\n");
    for (size_t i = 0; i < members.count; i++) {
        char *key = quoted(members.items[i].key);
        buffer_printf(out, "  %s: %s%s\n", key, members.items[i].value, i + 1 < members.count ? "," : "");
        free(key);
        free(members.items[i].key);
        free(members.items[i].value);
    }
    buffer_append_string(out, "}\n");
    free(members.items);
}
