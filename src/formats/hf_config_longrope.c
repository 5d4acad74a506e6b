// LongRoPE in config.json of Phi-3: two lists of factors, and the length above which the second applies.
#include "base/error.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A number above 0; 0 if it is absent or null.
static int positive_of(const struct json *scaling, const char *key, double *value) {
    const struct json *member = json_member(scaling, key);
    *value = 0;
    if (!member || member->type == JSON_NULL)
        return 0;
    if (member->type != JSON_NUMBER || !isfinite(member->number) || member->number <= 0)
        return error_set("\"%s\" of its rotary scaling is not a number above 0", key);
    *value = member->number;
    return 0;
}

// The width of a head is not completed yet.
static int64_t pairs_of(const struct config *config) {
    int64_t head = config->kv_channels > 0           ? config->kv_channels
                   : config->num_attention_heads > 0 ? config->hidden_size / config->num_attention_heads
                                                     : 0;
    return (int64_t)((double)head * config->rotary_percent) / 2;
}

// One factor for each rotated pair. Factors that are all 1 count as none.
static int take_factors(const struct json *scaling, bool is_short, struct config *config) {
    const char *key = is_short ? "short_factor" : "long_factor";
    const char *flag = is_short ? "--rope-short-factor" : "--rope-long-factor";
    int64_t pairs = pairs_of(config);
    const struct json *list = json_member(scaling, key);
    if (!list || list->type != JSON_ARRAY || list->count == 0)
        return error_set("its rotary scaling \"longrope\" has no list \"%s\"", key);
    struct buffer text = {0};
    int result = 0;
    bool is_plain = true;
    for (size_t i = 0; i < list->count && result == 0; i++) {
        const struct json *item = &list->items[i];
        struct json_writer writer = {.out = &text};
        if (item->type != JSON_NUMBER || !isfinite(item->number) || item->number <= 0) {
            result = error_set("\"%s\" of its rotary scaling has something else than numbers above 0", key);
            break;
        }
        if (i > 0)
            buffer_append_string(&text, ",");
        json_double(&writer, item->number);
        is_plain = is_plain && item->number == 1;
    }
    if (result == 0 && list->count != (size_t)pairs)
        result = error_set("\"%s\" of its rotary scaling has %zu numbers; it needs %lld, one for each pair of channels "
                           "that is rotated",
                           key, list->count, (long long)pairs);
    if (result == 0 && !(is_plain && is_short))
        result = config_take(config, flag, buffer_string(&text));
    buffer_free(&text);
    return result;
}

static int check_members(const struct json *scaling) {
    static const char *const known[] = {"rope_type",
                                        "type",
                                        "rope_theta",
                                        "short_factor",
                                        "long_factor",
                                        "factor",
                                        "attention_factor",
                                        "original_max_position_embeddings",
                                        "partial_rotary_factor"};
    for (size_t i = 0; i < scaling->count; i++) {
        size_t j = 0;
        while (j < sizeof known / sizeof known[0] && strcmp(scaling->keys[i].string, known[j]) != 0)
            j++;
        if (j == sizeof known / sizeof known[0] && scaling->items[i].type != JSON_NULL)
            return error_set("its rotary scaling \"longrope\" has a \"%.64s\", which is not supported",
                             scaling->keys[i].string);
    }
    return 0;
}

// transformers reads the original length beside the scaling (default 4096), whatever the scaling contains.
int hf_read_longrope(const struct json *root, const struct json *scaling, struct config *config) {
    int64_t length = 0;
    double factor, attention;
    TRY(check_members(scaling));
    TRY(hf_whole_of(root, "original_max_position_embeddings", 4096, &length));
    if (length < 2)
        return error_set("its \"original_max_position_embeddings\" is below 2, which is not supported");
    TRY(positive_of(scaling, "factor", &factor));
    TRY(positive_of(scaling, "attention_factor", &attention));
    if (factor == 0)
        factor = (double)config->max_position_embeddings / (double)length;
    TRY(config_take(config, "--use-rope-scaling", "true"));
    TRY(config_take(config, "--rope-scaling-type", "longrope"));
    TRY(config_take_number(config, "--rope-original-length", length));
    TRY(hf_config_set_real(config, "--rope-scaling-factor", fmax(factor, 1)));
    if (attention > 0)
        TRY(hf_config_set_real(config, "--yarn-attention-factor", attention));
    TRY(take_factors(scaling, true, config));
    return take_factors(scaling, false, config);
}

static void append_factors(struct json_writer *json, const char *key, const char *text, int64_t pairs) {
    json_key(json, key);
    json_begin_array(json);
    double *factors = memory_alloc(sizeof *factors * (size_t)pairs);
    bool is_given = config_rope_factors(text, factors, pairs) == pairs;
    for (int64_t i = 0; i < pairs; i++)
        json_double(json, is_given ? factors[i] : 1);
    free(factors);
    json_end_array(json);
}

// Older releases of transformers accept only the type and the lists, so members that follow from the lengths are left
// out.
void hf_append_longrope(const struct config *config, struct json_writer *json) {
    int64_t pairs = pairs_of(config);
    double factor = (double)config->max_position_embeddings / (double)config->rope_original_length;
    json_begin_object(json);
    json_key(json, "type");
    json_cstring(json, "longrope");
    append_factors(json, "short_factor", config->rope_short_factor, pairs);
    append_factors(json, "long_factor", config->rope_long_factor, pairs);
    if (config->rope_scaling_factor != fmax(factor, 1)) {
        json_key(json, "factor");
        json_double(json, config->rope_scaling_factor);
    }
    if (config->yarn_attention_factor > 0) {
        json_key(json, "attention_factor");
        json_double(json, config->yarn_attention_factor);
    }
    json_end_object(json);
}
