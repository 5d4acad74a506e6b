// Flags to config.json. See hf_config.h.
#include "formats/hf_config.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// Members are collected first, so that each is written once and those of the base file can be replaced.
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
    OWNED_BY(buffer_free) struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_cstring(&json, text);
    return memory_string(buffer_string(&out));
}

// A double as JSON: 10000.0 must stay a double.
static char *real_text(double value) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    struct json_writer json = {.out = &out};
    json_double(&json, value);
    if (!strpbrk(buffer_string(&out), ".e"))
        buffer_append_string(&out, ".0");
    return memory_string(buffer_string(&out));
}

static void append_real(struct json_writer *json, const char *key, double value) {
    OWNED char *text = real_text(value);
    json_key(json, key);
    json_number(json, text);
}

static char *number_text(const struct config *config, const struct hf_key *key) {
    struct flag_table table = config_flag_table(0);
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED char *flag = memory_printf("%.*s", (int)strcspn(key->flags, "/"), key->flags);
    // Null stands for a flag that was not given, whatever its effective value.
    if (key->has_null)
        flag_format(flag_find(&table, flag), config, &text);
    else
        hf_append_effective(config, flag, &text);
    char *copy = NULL;
    bool is_zero = strcmp(buffer_string(&text), "0") == 0;
    if (key->has_null && is_zero)
        copy = memory_string("null");
    else if (key->instead > 0 && is_zero)
        copy = memory_printf("%d", key->instead);
    else if (key->is_inverse)
        copy = real_text(1 / strtod(buffer_string(&text), NULL));
    else if (flag_find(&table, flag)->type == FLAG_DOUBLE)
        copy = real_text(strtod(buffer_string(&text), NULL));
    else
        copy = memory_printf("%lld", strtoll(buffer_string(&text), NULL, 10) + key->added);
    return copy;
}

// A second name of a flag keeps the base's value as long as the first name's value is unchanged.
static bool keeps_base(const struct hf_config_write *write, const struct hf_key *key) {
    bool is_kept = false;
    struct hf_key first;
    if (!write->base || !hf_config_member(write->base, key->key))
        return false;
    for (size_t i = 0; hf_key_at(write->family, i, &first); i++) {
        const struct json *before = hf_config_member(write->base, first.key);
        if (first.is_written || !first.flags || strcmp(first.flags, key->flags) != 0 || !before)
            continue;
        OWNED char *now = number_text(write->config, &first);
        is_kept = before->type == JSON_NUMBER && before->number == strtod(now, NULL);
    }
    return is_kept;
}

// Whether the original model is of this family: members it omits have the class's defaults.
static bool is_of_family(const struct json *base, const struct hf_family *family) {
    const struct json *type = base ? json_member(base, "model_type") : NULL;
    return type && type->type == JSON_STRING && strcmp(type->string, family->model_type) == 0;
}

// The weights' initialization belongs to the original model, whatever a later run says.
static bool keeps_origin(const struct hf_config_write *write, const struct hf_key *key) {
    return key->flags && strcmp(key->flags, "--init-method-std") == 0 && write->base &&
           (hf_config_member(write->base, key->key) || is_of_family(write->base, write->family));
}

// Several numbers may have our value as their inverse; the original one is kept.
static bool keeps_inverse(const struct hf_config_write *write, const struct hf_key *key) {
    const struct json *before = write->base && key->is_inverse ? hf_config_member(write->base, key->key) : NULL;
    OWNED_BY(buffer_free) struct buffer text = {0};
    if (before)
        hf_append_effective(write->config, key->flags, &text);
    return before && before->type == JSON_NUMBER && 1 / before->number == strtod(buffer_string(&text), NULL);
}

static void set_key(struct members *members, const struct hf_config_write *write, const struct hf_key *key) {
    const char *dot = strchr(key->key, '.'), *name = dot ? dot + 1 : key->key;
    if ((key->is_written && keeps_base(write, key)) || keeps_origin(write, key) || keeps_inverse(write, key))
        return;
    if (key->kind == HF_MAP) {
        const struct json *before = write->base ? hf_config_member(write->base, key->key) : NULL;
        OWNED char *theirs =
            hf_find_theirs(write->config, key, before && before->type == JSON_STRING ? before->string : NULL);
        CHECK(theirs != NULL);
        bool is_bare =
            strcmp(theirs, "true") == 0 || strcmp(theirs, "false") == 0 || theirs[strspn(theirs, "0123456789")] == 0;
        set_member(members, name, is_bare ? memory_string(theirs) : quoted(theirs));
    } else if (key->kind == HF_SWITCH) {
        OWNED_BY(buffer_free) struct buffer text = {0};
        hf_append_effective(write->config, key->flags, &text);
        set_member(members, name, memory_string(buffer_string(&text)));
    } else {
        set_member(members, name, number_text(write->config, key));
    }
}

// Rotary scaling; members with default values are left out.
static void append_scaling(const struct config *config, struct json_writer *json, bool has_base) {
    json_begin_object(json);
    json_put_string(json, "rope_type", CONFIG_NAME(model.rope_scaling_type, config->model.rope_scaling_type));
    append_real(json, "factor", config->model.rope_scaling_factor);
    bool is_llama3 = config->model.rope_scaling_type == ROPE_SCALING_LLAMA3;
    if (is_llama3) {
        append_real(json, "low_freq_factor", config->model.rope_low_freq_factor);
        append_real(json, "high_freq_factor", config->model.rope_high_freq_factor);
    }
    if (config->model.rope_scaling_type == ROPE_SCALING_YARN) {
        if (config->model.yarn_beta_fast != 32)
            append_real(json, "beta_fast", config->model.yarn_beta_fast);
        if (config->model.yarn_beta_slow != 1)
            append_real(json, "beta_slow", config->model.yarn_beta_slow);
        if (config->model.yarn_attention_factor > 0)
            append_real(json, "attention_factor", config->model.yarn_attention_factor);
        if (config->model.no_yarn_correction_range_round_to_int)
            json_put_bool(json, "truncate", false);
    }
    if (config->model.rope_scaling_type != ROPE_SCALING_DYNAMIC)
        json_put_int(json, "original_max_position_embeddings", config->model.rope_original_length);
    if (has_base)
        append_real(json, "rope_theta", config->model.rotary_base);
    json_end_object(json);
}

// Keeps the base's alpha scaling if it still gives the model's rotary base; false if not.
static bool keep_alpha(struct members *members, const struct hf_config_write *write) {
    bool is_there = write->family->has_rope_alpha && is_of_family(write->base, write->family);
    // If the model also has another scaling, that is written, with the stretched base.
    if (config_scales_rope(&write->config->model) || write->config->model.rotary_seq_len_interpolation_factor != 1)
        return false;
    const struct json *scaling = is_there ? hf_alpha_scaling(write->base) : NULL;
    const struct json *inner = scaling ? json_member(scaling, "rope_theta") : NULL;
    const struct json *theta = inner ? inner : scaling ? json_member(write->base, "rope_theta") : NULL;
    double base = theta && theta->type == JSON_NUMBER ? theta->number : 10000;
    if (!scaling || hf_alpha_base(write->base, write->config, base) != write->config->model.rotary_base)
        return false;
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_value(&json, scaling);
    set_member(members, "rope_theta", real_text(base));
    set_member(members, "rope_scaling", memory_string(buffer_string(&text)));
    return true;
}

// rope_theta and rope_scaling, which every release reads; the base's newer rope_parameters could contradict them.
static void set_rope(struct members *members, const struct hf_config_write *write) {
    const struct hf_family *family = write->family;
    const struct config *config = write->config;
    bool has_part = hf_default(family, "partial_rotary_factor");
    if (family->rotary_channels_key) {
        set_member(members, family->rotary_channels_key,
                   memory_printf("%lld", (long long)config_rotary_channels(&config->model)));
        if (!has_part)
            return;
    }
    if (!family->has_no_flat_rope)
        set_member(members, family->rotary_base_key ? family->rotary_base_key : "rope_theta",
                   real_text(config->model.rotary_base));
    if (hf_default(family, "rope_local_base_freq") && !family->has_nested_rope)
        set_member(members, "rope_local_base_freq", real_text(hf_local_base(config)));
    if (has_part)
        set_member(members, family->rotary_part_key ? family->rotary_part_key : "partial_rotary_factor",
                   real_text(config->model.rotary_percent));
    if (!family->has_no_groups)
        set_member(members, hf_groups_key(family),
                   memory_printf("%lld", (long long)config_query_groups(&config->model)));
    if (config_has_longrope(&config->model))
        set_member(members, "original_max_position_embeddings",
                   memory_printf("%lld", (long long)config->model.rope_original_length));
    if (family->has_no_flat_rope)
        return;
    // A scaling that changes nothing is not written: transformers would divide by 0.
    if (keep_alpha(members, write))
        return;
    if (config_scales_rope(&config->model)) {
        OWNED_BY(buffer_free) struct buffer text = {0};
        struct json_writer json = {.out = &text};
        if (config_has_longrope(&config->model))
            hf_append_longrope(config, &json);
        else
            append_scaling(config, &json, false);
        set_member(members, "rope_scaling", memory_string(buffer_string(&text)));
    } else if (config->model.rotary_seq_len_interpolation_factor != 1) {
        OWNED char *factor = real_text(config->model.rotary_seq_len_interpolation_factor);
        set_member(members, "rope_scaling", memory_printf("{\"rope_type\": \"linear\", \"factor\": %s}", factor));
    } else {
        set_member(members, "rope_scaling",
                   memory_string(family->needs_rope_scaling ? "{\"rope_type\": \"default\"}" : "null"));
    }
}

// Rotary positions in the form of transformers 5: layers with a window have their own object, and are not scaled.
static void set_nested_rope(struct members *members, const struct config *config) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_key(&json, "full_attention");
    if (config_scales_rope(&config->model)) {
        append_scaling(config, &json, true);
    } else {
        json_begin_object(&json);
        json_key(&json, "rope_type");
        bool is_linear = config->model.rotary_seq_len_interpolation_factor != 1;
        json_cstring(&json, is_linear ? "linear" : "default");
        if (is_linear)
            append_real(&json, "factor", config->model.rotary_seq_len_interpolation_factor);
        append_real(&json, "rope_theta", config->model.rotary_base);
        json_end_object(&json);
    }
    json_key(&json, "sliding_attention");
    json_begin_object(&json);
    json_put_string(&json, "rope_type", "default");
    append_real(&json, "rope_theta", hf_local_base(config));
    json_end_object(&json);
    json_end_object(&json);
    set_member(members, "rope_parameters", memory_string(buffer_string(&text)));
}

static void set_own(struct members *members, const struct hf_member *own, size_t count) {
    for (size_t i = 0; i < count; i++)
        set_member(members, own[i].key, own[i].value);
}

static void set_no_rope_layers(struct members *members, const struct config *config) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (int64_t i = 0; i < config->model.num_layers; i++)
        buffer_printf(&text, "%s%d", i > 0 ? ", " : "[", config_layer_skips_rope(&config->model, i) ? 0 : 1);
    buffer_append_string(&text, "]");
    set_member(members, "no_rope_layers", memory_string(buffer_string(&text)));
    if (config->model.no_rope_freq > 0)
        set_member(members, "no_rope_layer_interval", memory_printf("%lld", (long long)config->model.no_rope_freq));
}

static bool has_member(const struct members *members, const char *key) {
    for (size_t i = 0; i < members->count; i++)
        if (strcmp(members->items[i].key, key) == 0)
            return true;
    return false;
}

// sliding_window_pattern is only read where layer_types is not known.
static void set_layer_types(struct members *members, const struct hf_config_write *write) {
    const struct config *config = write->config;
    const char *freq = config->model.window_attn_skip_freq;
    set_member(members, "layer_types", hf_windows_types(config));
    const struct json *pattern = write->base ? json_member(write->base, "sliding_window_pattern") : NULL;
    if (pattern && pattern->type != JSON_STRING)  // as a string it names kinds of layers, as layer_types does
        set_member(members, "sliding_window_pattern", memory_string(freq && !strchr(freq, '[') ? freq : "null"));
}

// For a family with a switch for windows; if it is off, the other members about windows stay.
static void set_window_switch(struct members *members, const struct config *config) {
    bool is_on = config->model.sliding_window > 0;
    set_member(members, "use_sliding_window", memory_string(is_on ? "true" : "false"));
    if (is_on)
        set_member(members, "sliding_window", memory_printf("%lld", (long long)config->model.sliding_window));
    if (is_on || has_member(members, "layer_types"))
        set_member(members, "layer_types", hf_windows_types(config));
}

static void set_sparse_layers(struct members *members, const struct hf_config_write *write) {
    const struct hf_family *family = write->family;
    bool is_kept = family->sparse != HF_SPARSE_FIRST && is_of_family(write->base, family) &&
                   hf_sparse_are(family, write->base, write->config);
    struct hf_member own[HF_OWN_MEMBERS];
    if (!is_kept)
        set_own(members, own, hf_sparse_members(family, write->config, own));
}

static void append_members(const struct members *members, const char *indent, struct buffer *out) {
    buffer_append_string(out, "{\n");
    for (size_t i = 0; i < members->count; i++) {
        OWNED char *key = quoted(members->items[i].key);
        buffer_printf(out, "%s  %s: %s%s\n", indent, key, members->items[i].value, i + 1 < members->count ? "," : "");
    }
    buffer_printf(out, "%s}", indent);
}

static void free_members(struct members *members) {
    for (size_t i = 0; i < members->count; i++) {
        free(members->items[i].key);
        free(members->items[i].value);
    }
    free(members->items);
}

// From a file of another family only harmless members are kept: the others may mean something else here, or nothing.
static void set_base(struct members *members, const struct hf_config_write *write, const struct json *base) {
    bool is_own = is_of_family(write->base, write->family);
    for (size_t i = 0; base && i < base->count; i++) {
        const char *key = base->keys[i].string;
        // Derived from other members, which may have changed (T5's activation follows from feed_forward_proj).
        // Quantized matrices are written unquantized.
        if (strcmp(key, "rope_parameters") == 0 || strcmp(key, "quantization_config") == 0 ||
            strcmp(key, "dense_act_fn") == 0 || strcmp(key, "is_gated_act") == 0 ||
            (!is_own && !hf_members_is_harmless(key)))
            continue;
        OWNED_BY(buffer_free) struct buffer text = {0};
        struct json_writer json = {.out = &text};
        json_value(&json, &base->items[i]);
        set_member(members, key, memory_string(buffer_string(&text)));
    }
}

// The keys of the family that are members of the object `name`.
static void set_object(struct members *members, const struct hf_config_write *write, const char *name) {
    const struct json *base = write->base ? json_member(write->base, name) : NULL;
    size_t length = strlen(name);
    struct members inner = {0};
    OWNED_BY(buffer_free) struct buffer text = {0};
    set_base(&inner, write, base && base->type == JSON_OBJECT ? base : NULL);
    struct hf_key key;
    for (size_t i = 0; hf_key_at(write->family, i, &key); i++)
        if (!key.is_read && strncmp(key.key, name, length) == 0 && key.key[length] == '.')
            set_key(&inner, write, &key);
    append_members(&inner, "  ", &text);
    set_member(members, name, memory_string(buffer_string(&text)));
    free_members(&inner);
}

// The tokenizer overrides the family's default ids: an id that it lacks would be another token's.
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
    // For lower versions, transformers takes a tokenizer of over 100,000 tokens for an old, faulty one of Mistral's.
    if (ids->is_known)
        set_member(members, "transformers_version", quoted("5.0.0"));
}

static void set_members(struct members *members, const struct hf_config_write *write) {
    const struct hf_family *family = write->family;
    const struct config *config = write->config;
    static const struct hf_flag no_ids[] = {
        {"bos_token_id", "null"}, {"eos_token_id", "null"}, {"pad_token_id", "null"}, {0}};
    const struct hf_flag *written = family->written ? family->written : no_ids;
    for (; written->flag && !is_of_family(write->base, family); written++)
        set_member(members, written->flag, memory_string(written->value));
    set_base(members, write, write->base);
    if (!write->has_base_ids)
        set_ids(members, &write->ids);
    if (config->model.form == CONFIG_T5 && config->data.decoder_start_token >= 0)
        set_member(members, "decoder_start_token_id",
                   memory_printf("%lld", (long long)config->data.decoder_start_token));
    bool is_mlm = family->architecture_mlm && !config_has_binary_head(&config->model);
    set_member(members, "model_type", quoted(family->model_type));
    set_member(members, "architectures",
               memory_printf("[\"%s\"]", is_mlm ? family->architecture_mlm : family->architecture));
    set_member(members, "torch_dtype", quoted(write->dtype));
    if (family->architecture_mlm && config_activation(&config->model) != config_head_activation(&config->model))
        log_info(
            "note: the head has %s and the blocks have %s; %s has one activation for both, so its logits will differ",
            CONFIG_NAME(model.activation, config_head_activation(&config->model)),
            CONFIG_NAME(model.activation, config_activation(&config->model)), family->model_type);
    if (write->base && json_member(write->base, "dtype"))  // its new name
        set_member(members, "dtype", quoted(write->dtype));
    struct hf_key key;
    for (size_t i = 0; hf_key_at(family, i, &key); i++)
        if (!key.is_read && !strchr(key.key, '.'))
            set_key(members, write, &key);
    if (family->object)
        set_object(members, write, family->object);
    struct hf_member own[HF_OWN_MEMBERS];
    if (family->sparse != HF_SPARSE_ALL)
        set_sparse_layers(members, write);
    if (family->group_best > 0)
        set_own(members, own, hf_routed_members(family, config, own));
    if (family->has_latents)
        set_own(members, own, hf_latent_members(config, own));
    else if (family->has_rope)
        set_rope(members, write);
    if (family->has_no_rope_layers)
        set_no_rope_layers(members, config);
    if (hf_default(family, "query_pre_attn_scalar"))
        set_member(members, "query_pre_attn_scalar", memory_printf("%.0f", hf_query_scalar(config)));
    if (family->window_freq)
        set_layer_types(members, write);
    if (family->window_switch)
        set_window_switch(members, config);
    if (family->has_nested_rope)
        set_nested_rope(members, config);
    if (family->has_multi_query)
        set_member(members, "multi_query", memory_string(config_query_groups(&config->model) == 1 ? "true" : "false"));
    bool is_tied = !config->model.untie_embeddings_and_output_weights && !hf_config_doubles_head(family, config);
    set_member(members, "tie_word_embeddings", memory_string(is_tied ? "true" : "false"));
    if (family->tie == HF_TIED_SCALED)
        set_member(members, "scale_decoder_outputs", memory_string(config->model.scale_tied_output ? "true" : "false"));
}

// transformers before release 5 scales the output of every tied T5.
bool hf_config_doubles_head(const struct hf_family *family, const struct config *config) {
    return family->tie == HF_TIED_SCALED && !config->model.untie_embeddings_and_output_weights &&
           !config->model.scale_tied_output;
}

void hf_config_write(const struct hf_config_write *write, struct buffer *out) {
    struct members members = {0};
    set_members(&members, write);
    append_members(&members, "", out);
    buffer_append_string(out, "\n");
    free_members(&members);
}
