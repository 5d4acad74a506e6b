// Rotary positions of config.json to flags. transformers 5 keeps everything in rope_parameters; before, rope_theta
// stood by itself and rope_scaling beside it, and release 5 reads that too. Where releases read a number from different
// places, the places must agree. See hf_config.h.
#include "formats/hf_config.h"

#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char scaling_key[] = "rope_scaling", parameters_key[] = "rope_parameters";
static const char theta_key[] = "rope_theta", part_key[] = "partial_rotary_factor";
static const char original_key[] = "original_max_position_embeddings", local_key[] = "rope_local_base_freq";

// ---- where it stands ----

// The object; NULL if it is absent, null or empty.
static int find_object(const struct json *root, const char *key, const struct json **object) {
    const struct json *value = hf_member_of(root, key);
    *object = value && value->count > 0 ? value : NULL;
    return value && value->type != JSON_OBJECT ? error_set("its \"%s\" is not an object with a \"rope_type\"", key) : 0;
}

static const char *default_of(const struct hf_family *family, const char *key, const char *fallback) {
    const char *own = hf_default(family, key);
    return own ? own : fallback;
}

static const char *kind_of(const struct json *rope) {
    const struct json *kind =
        hf_member_of(rope, "rope_type") ? hf_member_of(rope, "rope_type") : hf_member_of(rope, "type");
    return kind && kind->type == JSON_STRING ? kind->string : "default";
}

// All members must be known and have their type, and both names of the kind must agree.
static int check_members(const struct json *rope, const char *name) {
    static const char numbers[] = " rope_theta factor partial_rotary_factor original_max_position_embeddings "
                                  "attention_factor beta_fast beta_slow mscale mscale_all_dim low_freq_factor "
                                  "high_freq_factor alpha ";
    static const char others[] = " rope_type type truncate short_factor long_factor finetuned ";
    const struct json *kind = hf_member_of(rope, "rope_type"), *old = hf_member_of(rope, "type");
    for (size_t i = 0; i < rope->count; i++) {
        const struct json *value = &rope->items[i];
        const char *key = rope->keys[i].string;
        bool is_number = hf_has_word(numbers, key), is_name = strcmp(key, "rope_type") == 0 || strcmp(key, "type") == 0;
        if (value->type == JSON_NULL)
            continue;
        if (!is_number && !hf_has_word(others, key))
            return error_set("its \"%s\" has a \"%.64s\", which is not supported", name, key);
        if (is_number && value->type != JSON_NUMBER)
            return error_set("\"%s\" of its rotary scaling is not a number", key);
        if (is_name && value->type != JSON_STRING)
            return error_set("its \"%s\" is not an object with a \"rope_type\"", name);
    }
    if (kind && old && strcmp(kind->string, old->string) != 0)
        return error_set("its \"%s\" has the \"rope_type\" \"%.64s\" and the \"type\" \"%.64s\"; releases of "
                         "transformers read different ones, so it is not supported: leave one out",
                         name, kind->string, old->string);
    return 0;
}

// Members present in both objects must be equal.
static int check_both(const struct json *scaling, const struct json *all) {
    bool is_same = strcmp(kind_of(scaling), kind_of(all)) == 0;
    const char *key = "rope_type";
    for (size_t i = 0; i < scaling->count && is_same; i++) {
        const struct json *a = &scaling->items[i], *b = json_member(all, scaling->keys[i].string);
        key = scaling->keys[i].string;
        is_same = !b || a->type != b->type || a->type != JSON_NUMBER || a->number == b->number;
    }
    return is_same ? 0
                   : error_set("its \"rope_scaling\" and \"rope_parameters\" say different values of \"%.64s\"; such a "
                               "model is not supported: leave one out",
                               key);
}

// A number inside an object must equal the one beside it, or else the default.
static int check_agrees(const char *name, const struct json *inner, const struct json *outer, const char *fallback) {
    bool is_compared = outer || fallback;
    if (!inner || inner->type != JSON_NUMBER || !is_compared)
        return 0;
    if (outer && outer->type != JSON_NUMBER)
        return error_set("its \"%s\" is not a number", name);
    double beside = outer ? outer->number : fallback ? strtod(fallback, NULL) : 0;
    if (inner->number == beside)
        return 0;
    return error_set("its \"%s\" is %g in one place and %g in another, or by default; releases of transformers read "
                     "different ones, so it is not supported: state it once, beside the rotary scaling",
                     name, inner->number, beside);
}

static int check_places(const struct hf_family *family, const struct json *root, const struct json *rope,
                        bool is_scaling) {
    const char *base_key = family->rotary_base_key ? family->rotary_base_key : theta_key;
    const char *share_key = family->rotary_part_key ? family->rotary_part_key : part_key;
    const char *base = default_of(family, theta_key, "10000"), *part = default_of(family, part_key, "1");
    const struct json *original = hf_member_of(root, original_key), *own = hf_member_of(rope, original_key);
    TRY(check_members(rope, is_scaling ? scaling_key : parameters_key));
    TRY(check_agrees(base_key, hf_member_of(rope, theta_key), hf_member_of(root, base_key), is_scaling ? base : NULL));
    TRY(check_agrees(share_key, hf_member_of(rope, part_key), hf_member_of(root, share_key), is_scaling ? part : NULL));
    const char *kind = kind_of(rope);
    bool has_length = strcmp(kind, "yarn") == 0 || strcmp(kind, "llama3") == 0;
    if (!original || !has_length || !hf_family_has_rope_kind(family, kind))
        return 0;
    own = own ? own : hf_member_of(root, "max_position_embeddings");
    return check_agrees(original_key, own, original, NULL);
}

int hf_rope_find(const struct hf_family *family, const struct json *root, const struct json *all,
                 const struct json **rope) {
    const struct json *scaling;
    TRY(find_object(root, scaling_key, &scaling));
    if (scaling)
        TRY(check_places(family, root, scaling, true));
    if (all)
        TRY(check_places(family, root, all, false));
    if (scaling && all)
        TRY(check_both(scaling, all));
    *rope = scaling ? scaling : all;
    return 0;
}

// 0 if it is not a number: absent, null.
static double real_of(const struct json *object, const char *key) {
    const struct json *value = hf_member_of(object, key);
    return value && value->type == JSON_NUMBER ? value->number : 0;
}

// ---- alpha ----

// Rotary scaling by a number that stretches the base: Hunyuan calls it "dynamic", but it does not depend on the length.
// The members stay in config.json as long as they give the base of the model.

static const struct json *object_of(const struct json *root, const char *key) {
    const struct json *value = json_member(root, key);
    return value && value->type == JSON_OBJECT && value->count > 0 ? value : NULL;
}

static bool is_dynamic(const struct json *scaling, const char *key) {
    const struct json *kind = json_member(scaling, key);
    return kind && kind->type == JSON_STRING && strcmp(kind->string, "dynamic") == 0;
}

const struct json *hf_alpha_scaling(const struct json *root) {
    const struct json *scaling = object_of(root, "rope_scaling");
    scaling = scaling ? scaling : object_of(root, "rope_parameters");
    bool is_there = scaling && (is_dynamic(scaling, "rope_type") || is_dynamic(scaling, "type"));
    return is_there && real_of(scaling, "alpha") != 0 ? scaling : NULL;
}

double hf_alpha_base(const struct json *root, const struct config *config, double base) {
    double head = config->model.kv_channels > 0
                      ? (double)config->model.kv_channels
                      : floor((double)config->model.hidden_size / (double)config->model.num_attention_heads);
    return base * pow(real_of(hf_alpha_scaling(root), "alpha"), head / (head - 2));
}

// ---- LongRoPE: two lists of factors, and the length above which the second applies ----

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
    int64_t head = config->model.kv_channels > 0 ? config->model.kv_channels
                   : config->model.num_attention_heads > 0
                       ? config->model.hidden_size / config->model.num_attention_heads
                       : 0;
    return (int64_t)((double)head * config->model.rotary_percent) / 2;
}

// One factor for each rotated pair. Factors that are all 1 count as none.
static int take_factors(const struct json *scaling, bool is_short, struct config *config) {
    const char *key = is_short ? "short_factor" : "long_factor";
    const char *flag = is_short ? "--rope-short-factor" : "--rope-long-factor";
    int64_t pairs = pairs_of(config);
    const struct json *list = json_member(scaling, key);
    if (!list || list->type != JSON_ARRAY || list->count == 0)
        return error_set("its rotary scaling \"longrope\" has no list \"%s\"", key);
    OWNED_BY(buffer_free) struct buffer text = {0};
    bool is_plain = true;
    for (size_t i = 0; i < list->count; i++) {
        const struct json *item = &list->items[i];
        struct json_writer writer = {.out = &text};
        if (item->type != JSON_NUMBER || !isfinite(item->number) || item->number <= 0)
            return error_set("\"%s\" of its rotary scaling has something else than numbers above 0", key);
        if (i > 0)
            buffer_append_string(&text, ",");
        json_double(&writer, item->number);
        is_plain = is_plain && item->number == 1;
    }
    if (list->count != (size_t)pairs)
        return error_set("\"%s\" of its rotary scaling has %zu numbers; it needs %lld, one for each pair of channels "
                         "that is rotated",
                         key, list->count, (long long)pairs);
    return is_plain && is_short ? 0 : config_take(config, flag, buffer_string(&text));
}

static int check_longrope(const struct json *scaling) {
    static const char known[] = "rope_type type rope_theta short_factor long_factor factor attention_factor "
                                "original_max_position_embeddings partial_rotary_factor";
    for (size_t i = 0; i < scaling->count; i++)
        if (!hf_has_word(known, scaling->keys[i].string) && scaling->items[i].type != JSON_NULL)
            return error_set("its rotary scaling \"longrope\" has a \"%.64s\", which is not supported",
                             scaling->keys[i].string);
    return 0;
}

// transformers reads the original length beside the scaling (default 4096), whatever the scaling contains.
static int read_longrope(const struct json *root, const struct json *scaling, struct config *config) {
    int64_t length = 0;
    double factor, attention;
    TRY(check_longrope(scaling));
    TRY(hf_whole_of(root, "original_max_position_embeddings", 4096, &length));
    if (length < 2)
        return error_set("its \"original_max_position_embeddings\" is below 2, which is not supported");
    TRY(positive_of(scaling, "factor", &factor));
    TRY(positive_of(scaling, "attention_factor", &attention));
    if (factor == 0)
        factor = (double)config->model.max_position_embeddings / (double)length;
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
    OWNED double *factors = memory_alloc(sizeof *factors * (size_t)pairs);
    bool is_given = config_rope_factors(text, factors, pairs) == pairs;
    for (int64_t i = 0; i < pairs; i++)
        json_double(json, is_given ? factors[i] : 1);
    json_end_array(json);
}

// Older releases of transformers accept only the type and the lists, so members that follow from the lengths are left
// out.
void hf_append_longrope(const struct config *config, struct json_writer *json) {
    int64_t pairs = pairs_of(config);
    double factor = (double)config->model.max_position_embeddings / (double)config->model.rope_original_length;
    json_begin_object(json);
    json_put_string(json, "type", "longrope");
    append_factors(json, "short_factor", config->model.rope_short_factor, pairs);
    append_factors(json, "long_factor", config->model.rope_long_factor, pairs);
    if (config->model.rope_scaling_factor != fmax(factor, 1))
        json_put_double(json, "factor", config->model.rope_scaling_factor);
    if (config->model.yarn_attention_factor > 0)
        json_put_double(json, "attention_factor", config->model.yarn_attention_factor);
    json_end_object(json);
}

// ---- kinds ----

static int set_from(struct config *config, const char *flag, const struct json *object, const char *key) {
    const struct json *value = hf_member_of(object, key);
    if (!value || value->type != JSON_NUMBER)
        return error_set("its rotary scaling has no \"%s\"", key);
    return hf_config_set_number(config, flag, value->string);
}

// The original length stands beside the scaling or in it; if absent, it is the model's length.
static int read_original_length(const struct json *root, const struct json *scaling, struct config *config) {
    static const char key[] = "original_max_position_embeddings";
    const struct json *all = hf_member_of(root, key) ? root : hf_member_of(scaling, key) ? scaling : NULL;
    if (all)
        return set_from(config, "--rope-original-length", all, key);
    return set_from(config, "--rope-original-length", root, "max_position_embeddings");
}

// YaRN's factor for queries and keys; `scale` is a member of its own for each of the two kinds of channels.
static double yarn_magnitude(double factor, double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

static int read_yarn(const struct json *scaling, struct config *config) {
    const struct json *truncate = json_member(scaling, "truncate"), *factor_given = hf_member_of(scaling, "factor");
    // Any value that is false in Python.
    if (truncate && (truncate->type == JSON_FALSE || truncate->type == JSON_NULL ||
                     (truncate->type == JSON_NUMBER && truncate->number == 0)))
        TRY(hf_config_set(config, "--no-yarn-correction-range-round-to-int", "true"));
    double factor = real_of(scaling, "factor"), attention = real_of(scaling, "attention_factor");
    double magnitude = real_of(scaling, "mscale"), all = real_of(scaling, "mscale_all_dim");
    double fast = real_of(scaling, "beta_fast"), slow = real_of(scaling, "beta_slow");
    if ((factor_given && factor <= 0) || (hf_member_of(scaling, "attention_factor") && attention <= 0))
        return error_set("\"factor\" or \"attention_factor\" of its rotary scaling is not a number above 0");
    if (factor == 0)
        factor = (double)config->model.max_position_embeddings / (double)config->model.rope_original_length;
    TRY(hf_config_set_real(config, "--rope-scaling-factor", factor));
    if (attention == 0 && magnitude != 0 && all != 0)
        attention = yarn_magnitude(factor, magnitude) / yarn_magnitude(factor, all);
    if (attention != 0)
        TRY(hf_config_set_real(config, "--yarn-attention-factor", attention));
    if (fast != 0)
        TRY(hf_config_set_real(config, "--yarn-beta-fast", fast));
    return slow != 0 ? hf_config_set_real(config, "--yarn-beta-slow", slow) : 0;
}

// GPT-J gives the number of rotated channels; as a fraction of a head it must convert back to that number.
static int read_rotary_channels(const struct hf_family *family, const struct json *root, struct config *config) {
    double channels = real_of(root, family->rotary_channels_key);
    double head = floor((double)config->model.hidden_size / (double)config->model.num_attention_heads);
    head = config->model.kv_channels > 0 ? (double)config->model.kv_channels : head;
    if (!(channels >= 2 && channels <= head && channels == floor(channels)))
        return error_set("its \"%s\" is not a number of channels from 2 to %g", family->rotary_channels_key, head);
    double part = channels / head;
    return hf_config_set_real(config, "--rotary-percent", floor(head * part) < channels ? nextafter(part, 2) : part);
}

// How many of a head's channels are rotated. Most families rotate them all: transformers ignores the member there, or
// fails on it.
static int read_part(const struct hf_family *family, const struct json *root, const struct json *rope,
                     struct config *config) {
    const char *key = family->rotary_part_key ? family->rotary_part_key : part_key;
    const struct json *part = hf_member_of(rope, part_key) ? hf_member_of(rope, part_key) : hf_member_of(root, key);
    if (part && part->type != JSON_NUMBER)
        return error_set("its \"%s\" is not a number", key);
    bool has_channels = family->rotary_channels_key && hf_member_of(root, family->rotary_channels_key);
    const char *usual = hf_default(family, part_key);
    if (family->rotary_channels_key && (!usual || (!part && has_channels)))
        return read_rotary_channels(family, root, config);
    if (usual)
        return hf_config_set_number(config, "--rotary-percent", part ? part->string : usual);
    return part && part->number != 1 ? error_set("its \"%s\" is not 1, which this family does not support", key) : 0;
}

// Layers with a window have their own rotary base: in `local` (part of rope_parameters) or in a member of its own.
static int read_local_base(const struct hf_family *family, const struct json *root, const struct json *local,
                           struct config *config) {
    const char *key = family->has_nested_rope ? theta_key : local_key;
    const struct json *inner = hf_member_of(local, theta_key), *outer = hf_member_of(root, key);
    if (local)
        TRY(check_members(local, "sliding_attention"));
    if (strcmp(kind_of(local), "default") != 0)
        return error_set("its layers with a window have rotary scaling, which is not supported");
    const struct json *base = inner ? inner : outer;
    if (base && base->type != JSON_NUMBER)
        return error_set("its rotary base of layers with a window is not a number");
    if (!family->has_nested_rope)
        TRY(check_agrees(key, inner, outer, NULL));
    else if (!inner)  // then release 5 takes the default, and release 4 the outer member
        TRY(check_agrees(key, outer, NULL, hf_default(family, local_key)));
    if (config->model.sliding_window == 0)
        return 0;
    return hf_config_set_number(config, "--rotary-base-local", base ? base->string : hf_default(family, local_key));
}

// rope_parameters of layers with a window and of those without one.
static int check_nested(const struct hf_family *family, const struct json *root, const struct json *all) {
    static const char *const kinds[] = {"sliding_attention", "full_attention"};
    static const char *const flat[] = {theta_key, scaling_key, part_key};
    for (size_t i = 0; all && i < all->count; i++)
        if (strcmp(all->keys[i].string, kinds[0]) != 0 && strcmp(all->keys[i].string, kinds[1]) != 0)
            return error_set("its \"rope_parameters\" have a \"%.64s\"; in this family they have only "
                             "\"full_attention\" and \"sliding_attention\"",
                             all->keys[i].string);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct json *part = hf_member_of(hf_member_of(all, kinds[i]), part_key);
        if (all && family->has_no_flat_rope && !hf_member_of(all, kinds[i]))
            return error_set("its \"rope_parameters\" have no \"%s\"", kinds[i]);
        if (part && (part->type != JSON_NUMBER || part->number != 1))
            return error_set("its \"partial_rotary_factor\" of %s layers is not 1, which this family does not support",
                             kinds[i]);
    }
    for (size_t i = 0; family->has_no_flat_rope && i < sizeof flat / sizeof flat[0]; i++)
        if (hf_member_of(root, flat[i]))
            return error_set("it has a \"%s\", which transformers does not read in this family: put it into "
                             "\"rope_parameters\"",
                             flat[i]);
    return 0;
}

// `rope` and `all` may be NULL.
static int read_base(const struct hf_family *family, const struct json *root, const struct json *rope,
                     const struct json *all, struct config *config) {
    const char *key = family->rotary_base_key ? family->rotary_base_key : theta_key;
    const struct json *theta = hf_member_of(rope, theta_key);
    theta = theta                                                           ? theta
            : hf_default(family, local_key) && hf_member_of(all, theta_key) ? hf_member_of(all, theta_key)
                                                                            : hf_member_of(root, key);
    if (theta && theta->type != JSON_NUMBER)
        return error_set("its \"%s\" is not a number", key);
    if (!theta && family->needs_rotary_base)
        return error_set("it has no \"%s\", for which releases of transformers have different defaults; state it", key);
    const char *text = theta ? theta->string : default_of(family, theta_key, "10000");
    if (!family->has_rope_alpha || !hf_alpha_scaling(root))
        return hf_config_set_number(config, "--rotary-base", text);
    double base = hf_alpha_base(root, config, strtod(text, NULL));
    if (!isfinite(base))
        return error_set(
            "its rotary scaling has an \"alpha\" that gives no base: it must be above 0, and heads must have "
            "more than 2 channels");
    return hf_config_set_real(config, "--rotary-base", base);
}

static int read_kind(const struct hf_family *family, const struct json *root, const struct json *scaling,
                     struct config *config) {
    const char *name = kind_of(scaling);
    if (family->needs_rope_scaling && !hf_member_of(scaling, "rope_type") && !hf_member_of(scaling, "type"))
        return error_set("it does not say its rotary scaling (a \"rope_type\" in \"rope_scaling\" or "
                         "\"rope_parameters\")");
    if (family->has_longrope && strcmp(name, "su") == 0)  // the first models' name for it
        name = "longrope";
    if (!hf_family_has_rope_kind(family, name))
        return error_set("its rotary scaling \"%.64s\" is not supported for %s, only %s", name, family->model_type,
                         family->rope_kinds ? family->rope_kinds : "default linear dynamic llama3 yarn");
    if (strcmp(name, "default") == 0 || (family->has_rope_alpha && hf_alpha_scaling(root)))
        return 0;
    if (strcmp(name, "linear") == 0)
        return set_from(config, "--rotary-seq-len-interpolation-factor", scaling, "factor");
    if (family->has_longrope && strcmp(name, "longrope") == 0)
        return read_longrope(root, scaling, config);
    bool is_llama3 = strcmp(name, "llama3") == 0, is_yarn = strcmp(name, "yarn") == 0;
    if (!is_llama3 && !is_yarn && strcmp(name, "dynamic") != 0)
        return error_set(
            "its rotary scaling \"%.64s\" is not supported (default, linear, dynamic, llama3 and yarn are)", name);
    TRY(hf_config_set(config, "--use-rope-scaling", "true"));
    TRY(hf_config_set(config, "--rope-scaling-type", name));
    if (is_llama3 || is_yarn)
        TRY(read_original_length(root, scaling, config));
    if (is_yarn)
        return read_yarn(scaling, config);
    TRY(set_from(config, "--rope-scaling-factor", scaling, "factor"));
    if (!is_llama3)
        return 0;
    TRY(set_from(config, "--rope-low-freq-factor", scaling, "low_freq_factor"));
    return set_from(config, "--rope-high-freq-factor", scaling, "high_freq_factor");
}

// Release 5 merges rope_scaling into a rope_type of "default", which stays if rope_scaling only has the older "type".
static int check_named(const struct json *root) {
    const struct json *scaling = hf_member_of(root, scaling_key);
    if (!scaling || hf_member_of(scaling, "rope_type") || strcmp(kind_of(scaling), "default") == 0)
        return 0;
    return error_set("its \"rope_scaling\" has a \"type\" and no \"rope_type\"; releases of transformers read that "
                     "differently in this family, so it is not supported: rename the member to \"rope_type\"");
}

int hf_rope_read(const struct hf_family *family, const struct json *root, struct config *config) {
    const struct json *all, *rope;
    TRY(find_object(root, parameters_key, &all));
    if (hf_default(family, local_key)) {
        TRY(check_nested(family, root, all));
        TRY(read_local_base(family, root, hf_member_of(all, "sliding_attention"), config));
        all = hf_member_of(all, "full_attention");
        TRY(all ? 0 : check_named(root));
    }
    TRY(hf_rope_find(family, root, all, &rope));
    TRY(read_base(family, root, rope, all, config));
    TRY(read_part(family, root, rope, config));
    return read_kind(family, root, rope, config);
}
