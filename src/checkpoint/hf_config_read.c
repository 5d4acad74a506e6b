// config.json to flags. See hf_config.h.
#include "checkpoint/hf_config.h"

#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A flag is set once; a second member that says another value contradicts the first.
static int set_flag(struct config *config, const char *flag, const char *text) {
    struct flag_table table = config_flag_table(0);
    struct buffer before = {0}, after = {0};
    const struct flag *row = flag_find(&table, flag);
    if (!row)
        return error_set("this model needs %s, which this version does not support", flag);
    bool was_set = flag_source(&config->given, flag) != FLAG_FROM_DEFAULT;
    flag_format(row, config, &before);
    int result = flag_set(&table, config, flag, text, FLAG_FROM_FILE);
    flag_format(row, config, &after);
    if (result == 0 && was_set && strcmp(buffer_string(&before), buffer_string(&after)) != 0)
        result = error_set("two of its members set different values of %s, %s and %s; such a model is not supported",
                           flag, buffer_string(&before), buffer_string(&after));
    buffer_free(&before);
    buffer_free(&after);
    return result;
}

static const struct json *member(const struct json *object, const char *key) {
    const struct json *value = object ? json_member(object, key) : NULL;
    return value && value->type != JSON_NULL ? value : NULL;
}

const struct json *hf_config_member(const struct json *root, const char *key) {
    const char *dot = strchr(key, '.');
    if (!dot)
        return json_member(root, key);
    char *name = memory_printf("%.*s", (int)(dot - key), key);
    const struct json *inner = json_member(root, name);
    free(name);
    return inner && inner->type == JSON_OBJECT ? json_member(inner, dot + 1) : NULL;
}

// "12", "1e-05", "true", "gelu_new"; NULL if it is an array or an object.
static const char *text_of(const struct json *value) {
    if (value->type == JSON_TRUE || value->type == JSON_FALSE)
        return value->type == JSON_TRUE ? "true" : "false";
    bool is_text = value->type == JSON_NUMBER || value->type == JSON_STRING;
    return is_text && strlen(value->string) == value->length ? value->string : NULL;
}

static int set_real(struct config *config, const char *flag, double value) {
    char *text = memory_printf("%.17g", value);
    int result = set_flag(config, flag, text);
    free(text);
    return result;
}

// Whole numbers lose their fraction, because 10000.0 is one of ours too.
static int set_number(struct config *config, const char *flag, const char *text, int added) {
    char *end = NULL;
    double number = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !isfinite(number))
        return error_set("\"%.64s\" is not a number", text);
    char *whole = NULL;
    if (number == floor(number) && fabs(number) < 1e15)
        whole = memory_printf("%" PRId64, (int64_t)number - added);
    int result = set_flag(config, flag, whole ? whole : text);
    free(whole);
    return result;
}

// The number of one flag, or of several "--a/--b".
static int set_numbers(struct config *config, const struct hf_key *key, const char *text) {
    char *flags = memory_string(key->flags), *rest = flags;
    int result = 0;
    for (const char *flag = strsep(&rest, "/"); flag && result == 0; flag = strsep(&rest, "/"))
        result = set_number(config, flag, text, key->added);
    free(flags);
    return result;
}

// Finds "theirs=" among the map's words; *ours points behind it, *length to its end. False if it is not there.
static bool find_mapped(const char *map, const char *theirs, const char **ours, size_t *length) {
    size_t name = strlen(theirs);
    for (const char *word = map; *word;) {
        size_t total = strcspn(word, " ");
        if (total > name && strncmp(word, theirs, name) == 0 && word[name] == '=') {
            *ours = word + name + 1;
            *length = total - name - 1;
            return true;
        }
        word += total + strspn(word + total, " ");
    }
    return false;
}

// Names the values that are known: what stands before "=" in each word of the map.
static int refuse_value(const struct hf_key *key, const char *text) {
    struct buffer known = {0};
    for (const char *word = key->map; *word; word += strspn(word, " ")) {
        buffer_printf(&known, "%s%.*s", known.length > 0 ? ", " : "", (int)strcspn(word, "="), word);
        word += strcspn(word, " ");
    }
    int result = error_set("\"%.64s\" is not supported, only %s", text, buffer_string(&known));
    buffer_free(&known);
    return result;
}

static int set_mapped(struct config *config, const struct hf_key *key, const char *text) {
    const char *value = NULL;
    size_t length = 0;
    if (!find_mapped(key->map, text, &value, &length))
        return refuse_value(key, text);
    char *values = memory_printf("%.*s", (int)length, value), *flags = memory_string(key->flags ? key->flags : "");
    char *value_rest = values, *flag_rest = flags;
    int result = 0;
    for (const char *flag = strsep(&flag_rest, "/"); flag && *flag && result == 0; flag = strsep(&flag_rest, "/")) {
        const char *one = strsep(&value_rest, "/");
        CHECK(one != NULL);
        result = set_flag(config, flag, one);
    }
    free(values);
    free(flags);
    return result;
}

static int read_key(const struct hf_key *key, const struct json *root, struct config *config) {
    const struct json *any = hf_config_member(root, key->key);
    const struct json *value = any && any->type != JSON_NULL ? any : NULL;
    // A member that is null is not as one that is absent where null says something.
    const char *absent = key->has_null && any ? "0" : key->fallback, *text = value ? text_of(value) : absent;
    if (key->is_written)
        return 0;
    if (!text)
        return error_set("it has no \"%s\"", key->key);
    if (strcmp(text, "-") == 0 || (key->has_none && strcmp(text, "0") == 0))
        return 0;
    if (key->is_inverse) {
        double number = strtod(text, NULL);
        return number > 0 ? set_real(config, key->flags, 1 / number)
                          : error_set("\"%s\": \"%.64s\" is not a number above 0", key->key, text);
    }
    int result = key->kind == HF_MAP      ? set_mapped(config, key, text)
                 : key->kind == HF_SWITCH ? set_flag(config, key->flags, text)
                                          : set_numbers(config, key, text);
    if (result < 0)
        error_context("\"%s\"", key->key);
    return result;
}

static int set_from(struct config *config, const char *flag, const struct json *object, const char *key) {
    const struct json *value = member(object, key);
    if (!value || value->type != JSON_NUMBER)
        return error_set("its rotary scaling has no \"%s\"", key);
    return set_number(config, flag, value->string, 0);
}

// The length before it was stretched stands beside the scaling or in it; without it there was no stretching.
static int read_original_length(const struct json *root, const struct json *scaling, struct config *config) {
    static const char key[] = "original_max_position_embeddings";
    const struct json *all = member(root, key) ? root : member(scaling, key) ? scaling : NULL;
    if (all)
        return set_from(config, "--rope-original-length", all, key);
    return set_from(config, "--rope-original-length", root, "max_position_embeddings");
}

// 0 if it is not a number: absent, null.
static double real_of(const struct json *object, const char *key) {
    const struct json *value = member(object, key);
    return value && value->type == JSON_NUMBER ? value->number : 0;
}

// What YaRN multiplies queries and keys by, scaled by a member of its own for the two kinds of channels.
static double yarn_magnitude(double factor, double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

static int read_yarn(const struct json *scaling, struct config *config) {
    const struct json *truncate = member(scaling, "truncate");
    if (truncate && truncate->type == JSON_FALSE)
        TRY(set_flag(config, "--no-yarn-correction-range-round-to-int", "true"));
    double factor = real_of(scaling, "factor"), attention = real_of(scaling, "attention_factor");
    double magnitude = real_of(scaling, "mscale"), all = real_of(scaling, "mscale_all_dim");
    double fast = real_of(scaling, "beta_fast"), slow = real_of(scaling, "beta_slow");
    if (factor == 0)
        factor = (double)config->max_position_embeddings / (double)config->rope_original_length;
    TRY(set_real(config, "--rope-scaling-factor", factor));
    if (attention == 0 && magnitude != 0 && all != 0)
        attention = yarn_magnitude(factor, magnitude) / yarn_magnitude(factor, all);
    if (attention != 0)
        TRY(set_real(config, "--yarn-attention-factor", attention));
    if (fast != 0)
        TRY(set_real(config, "--yarn-beta-fast", fast));
    return slow != 0 ? set_real(config, "--yarn-beta-slow", slow) : 0;
}

// GPT-J gives the number of rotated channels; the part of a head that it is must come to that number again.
static int read_rotary_channels(const struct hf_family *family, const struct json *root, struct config *config) {
    double channels = real_of(root, family->rotary_channels_key);
    double head = floor((double)config->hidden_size / (double)config->num_attention_heads);
    head = config->kv_channels > 0 ? (double)config->kv_channels : head;
    if (!(channels >= 2 && channels <= head && channels == floor(channels)))
        return error_set("its \"%s\" is not a number of channels from 2 to %g", family->rotary_channels_key, head);
    double part = channels / head;
    return set_real(config, "--rotary-percent", floor(head * part) < channels ? nextafter(part, 2) : part);
}

// How many of a head's channels are rotated. Most families rotate them all: transformers ignores the member there, or
// fails on it.
static int read_rotary_part(const struct hf_family *family, const struct json *root, struct config *config) {
    static const char usual[] = "partial_rotary_factor";
    const char *key = family->rotary_part_key ? family->rotary_part_key : usual;
    const struct json *all = member(root, "rope_parameters");
    const struct json *part = member(all, usual) ? member(all, usual) : member(root, key);
    if (part && part->type != JSON_NUMBER)
        return error_set("its \"%s\" is not a number", key);
    bool has_channels = family->rotary_channels_key && member(root, family->rotary_channels_key);
    if (family->rotary_channels_key && (!family->rotary_part || (!part && has_channels)))
        return read_rotary_channels(family, root, config);
    if (family->rotary_part)
        return set_number(config, "--rotary-percent", part ? part->string : family->rotary_part, 0);
    return part && part->number != 1 ? error_set("its \"%s\" is not 1, which this family does not support", key) : 0;
}

// Layers with a window have rotary positions of their own, `local` in rope_parameters, or a member for their base.
static int read_local_base(const struct hf_family *family, const struct json *root, const struct json *local,
                           struct config *config) {
    const struct json *kind = member(local, "rope_type");
    const char *key = family->has_nested_rope ? "rope_theta" : "rope_local_base_freq";
    const struct json *base = local ? member(local, "rope_theta") : member(root, key);
    if (kind && (kind->type != JSON_STRING || strcmp(kind->string, "default") != 0))
        return error_set("its layers with a window have rotary scaling, which is not supported");
    if (base && base->type != JSON_NUMBER)
        return error_set("its rotary base of layers with a window is not a number");
    if (config->sliding_window == 0)
        return 0;
    return set_number(config, "--rotary-base-local", base ? base->string : family->local_base, 0);
}

// rope_parameters of layers with a window and of those without one.
static int check_nested_rope(const struct hf_family *family, const struct json *all) {
    static const char *const kinds[] = {"sliding_attention", "full_attention"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct json *part = member(member(all, kinds[i]), "partial_rotary_factor");
        if (all && family->has_no_flat_rope && !member(all, kinds[i]))
            return error_set("its \"rope_parameters\" have no \"%s\"", kinds[i]);
        if (part && part->number != 1)
            return error_set("its \"partial_rotary_factor\" of %s layers is not 1, which this family does not support",
                             kinds[i]);
    }
    return 0;
}

// `all` is rope_parameters, of layers without a window if those with one have their own; it may be NULL.
static int read_base(const struct hf_family *family, const struct json *root, const struct json *all,
                     struct config *config) {
    const char *key = family->rotary_base_key ? family->rotary_base_key : "rope_theta";
    const struct json *theta = member(all, "rope_theta") ? member(all, "rope_theta") : member(root, key);
    if (theta && theta->type != JSON_NUMBER)
        return error_set("its \"%s\" is not a number", key);
    const char *text = theta ? theta->string : family->rotary_base ? family->rotary_base : "10000";
    if (!family->has_rope_alpha || !hf_alpha_scaling(root))
        return set_number(config, "--rotary-base", text, 0);
    double base = hf_alpha_base(root, config, strtod(text, NULL));
    if (!isfinite(base))
        return error_set(
            "its rotary scaling has an \"alpha\" that gives no base: it must be above 0, and heads must have "
            "more than 2 channels");
    return set_real(config, "--rotary-base", base);
}

// transformers 5 has everything in rope_parameters; before, rope_theta stood by itself and rope_scaling beside it.
static int read_rope(const struct hf_family *family, const struct json *root, struct config *config) {
    const struct json *all = member(root, "rope_parameters"), *scaling = member(root, "rope_scaling");
    if (family->local_base) {
        TRY(check_nested_rope(family, all));
        TRY(read_local_base(family, root, member(all, "sliding_attention"), config));
        all = member(all, "full_attention");
    }
    TRY(read_base(family, root, all, config));
    TRY(read_rotary_part(family, root, config));
    scaling = scaling ? scaling : all;
    const struct json *kind = member(scaling, "rope_type") ? member(scaling, "rope_type") : member(scaling, "type");
    if ((scaling && scaling->type != JSON_OBJECT) || (kind && kind->type != JSON_STRING))
        return error_set("its rotary scaling is not an object with a \"rope_type\"");
    if (family->needs_rope_scaling && !kind)
        return error_set("it does not say its rotary scaling (a \"rope_type\" in \"rope_scaling\" or "
                         "\"rope_parameters\")");
    const char *name = kind ? kind->string : "default";
    if (family->has_longrope && strcmp(name, "su") == 0)  // as the first of these models called it
        name = "longrope";
    if (!hf_family_has_rope_kind(family, name))
        return error_set("its rotary scaling \"%.64s\" is not supported for %s, only %s", name, family->model_type,
                         family->rope_kinds);
    if (strcmp(name, "default") == 0 || (family->has_rope_alpha && hf_alpha_scaling(root)))
        return 0;
    if (strcmp(name, "linear") == 0)
        return set_from(config, "--rotary-seq-len-interpolation-factor", scaling, "factor");
    if (family->has_longrope && strcmp(name, "longrope") == 0)
        return hf_read_longrope(root, scaling, config);
    bool is_llama3 = strcmp(name, "llama3") == 0, is_yarn = strcmp(name, "yarn") == 0;
    if (!is_llama3 && !is_yarn && strcmp(name, "dynamic") != 0)
        return error_set(
            "its rotary scaling \"%.64s\" is not supported (default, linear, dynamic, llama3 and yarn are)", name);
    TRY(set_flag(config, "--use-rope-scaling", "true"));
    TRY(set_flag(config, "--rope-scaling-type", name));
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

// Routers that divide the scores of the chosen experts by their sum give a single one the weight 1, and so no gradient.
static int check_chosen(const struct config *config) {
    bool is_softmax = strcmp(config->moe_router_score_function, "softmax") == 0;
    if (config->num_experts == 0 || is_softmax || config->moe_router_topk != 1)
        return 0;
    return error_set("it has one expert per token, whose weight is then 1 whatever the router computes; this is not "
                     "supported");
}

static int read_groups(const struct hf_family *family, const struct json *root, struct config *config) {
    const char *key = hf_groups_key(family);
    const struct json *groups = member(root, key);
    bool is_absent = json_member(root, key) == NULL;
    const char *text = groups ? text_of(groups) : is_absent ? family->groups : NULL;
    if (groups && groups->type != JSON_NUMBER)
        return error_set("its \"%s\" is not a number", key);
    if (!text || strtod(text, NULL) == (double)config->num_attention_heads)
        return 0;
    TRY(set_flag(config, "--group-query-attention", "true"));
    return set_number(config, "--num-query-groups", text, 0);
}

// transformers takes the kinds of attention from this list if it is there, whatever else says how wide windows are.
static int check_layer_types(const struct json *root, const struct config *config) {
    const struct json *types = member(root, "layer_types");
    const char *expected = config->sliding_window > 0 ? "sliding_attention" : "full_attention";
    if (types && types->type != JSON_ARRAY)
        return error_set("its \"layer_types\" is not a list");
    for (size_t i = 0; types && i < types->count; i++) {
        const char *type = text_of(&types->items[i]);
        if (!type || strcmp(type, expected) != 0)
            return error_set("its \"layer_types\" has \"%.64s\" for layer %zu; layers that differ in their attention "
                             "are not supported, and the rest of its configuration says \"%s\"",
                             type ? type : "", i, expected);
    }
    return 0;
}

static int read_windows(const struct hf_family *family, const struct json *root, struct config *config) {
    const struct json *is_on = member(root, "use_sliding_window"), *width = member(root, "sliding_window");
    if (family->window_switch) {
        if (!is_on || is_on->type != JSON_TRUE)
            return check_layer_types(root, config);
        if (json_member(root, "sliding_window") && (!width || width->type != JSON_NUMBER))
            return error_set("its \"use_sliding_window\" is true, but its \"sliding_window\" is not a number");
        TRY(set_number(config, "--sliding-window", width ? width->string : "4096", 0));
    }
    char *layers = hf_windows_read(family, root, config);
    int result = !layers ? -1 : *layers ? set_flag(config, "--window-attn-skip-freq", layers) : 0;
    free(layers);
    if (result < 0 || !family->has_whole_without_rope ||
        (family->has_rope_without_windows && config->sliding_window == 0))
        return result;
    int64_t every = hf_whole_layers_every(config);
    if (every < 0)
        return error_set("its layers without a window, which have no rotary positions, are not every N-th layer, which "
                         "is not supported");
    char *text = memory_printf("%" PRId64, every);
    result = set_flag(config, "--no-rope-freq", text);
    free(text);
    return result;
}

// Scores are divided by the root of a number, by default that of a head's channels.
static int read_query_scalar(const struct hf_family *family, const struct json *root, struct config *config) {
    const struct json *value = member(root, "query_pre_attn_scalar");
    double scalar = value ? value->number : strtod(family->query_scalar, NULL);
    if ((value && value->type != JSON_NUMBER) || !(scalar > 0))
        return error_set("its \"query_pre_attn_scalar\" is not a number above 0");
    return scalar == (double)config->kv_channels ? 0 : set_real(config, "--softmax-scale", 1 / sqrt(scalar));
}

// SmolLM3 says for each layer whether it has rotary positions; without that, every so many layers one has none.
static int read_no_rope_layers(const struct json *root, struct config *config) {
    const struct json *layers = member(root, "no_rope_layers"), *interval = member(root, "no_rope_layer_interval");
    if (interval && interval->type != JSON_NUMBER)
        return error_set("its \"no_rope_layer_interval\" is not a number");
    if (!layers)
        return set_number(config, "--no-rope-freq", interval ? interval->string : "4", 0);
    int64_t count = config->num_layers, first = 0;
    if (layers->type != JSON_ARRAY || (int64_t)layers->count < count)
        return error_set("its \"no_rope_layers\" has no number for each of the %" PRId64 " layers", count);
    while (first < count && layers->items[first].type == JSON_NUMBER && layers->items[first].number != 0)
        first++;
    for (int64_t i = first; i < count; i++)
        if (layers->items[i].type != JSON_NUMBER || (layers->items[i].number == 0) != ((i + 1) % (first + 1) == 0))
            return error_set("its \"no_rope_layers\" are not every N-th layer, which is not supported");
    char *text = memory_printf("%" PRId64, first < count ? first + 1 : 0);
    int result = set_flag(config, "--no-rope-freq", text);
    free(text);
    return result;
}

static int read_sparse_layers(const struct hf_family *family, const struct json *root, struct config *config) {
    if (config->num_experts == 0 && family->experts)
        TRY(set_flag(config, "--num-experts", family->experts));
    char *layers = hf_sparse_read(family, root, config->num_layers);
    bool is_usual = layers && family->sparse == HF_SPARSE_FIRST && strcmp(layers, "1") == 0;
    int result = !layers ? -1 : is_usual ? 0 : set_flag(config, "--moe-layer-freq", layers);
    free(layers);
    return result;
}

// All heads share one key and value, or each has its own.
static int read_multi_query(const struct json *root, struct config *config) {
    const struct json *shares = json_member(root, "multi_query");
    if (config->num_attention_heads == 1 || (shares && shares->type != JSON_TRUE))
        return 0;
    TRY(set_flag(config, "--group-query-attention", "true"));
    return set_flag(config, "--num-query-groups", "1");
}

static bool is_same_tensor(const struct weight *a, const struct weight *b) {
    if (!a || !b || !a->is_readable || !b->is_readable || a->dtype != b->dtype || a->bytes != b->bytes)
        return false;
    void *x = memory_alloc(a->bytes + 1), *y = memory_alloc(b->bytes + 1);
    bool is_same = weight_read(a, x) == 0 && weight_read(b, y) == 0 && memcmp(x, y, a->bytes) == 0;
    free(x);
    free(y);
    return is_same;
}

// A file may carry the tied matrix twice; another matrix under the head's name is a head of its own, whatever is said.
static int read_tie(const struct hf_family *family, const struct json *root, const struct weights *weights,
                    struct config *config) {
    const struct json *tie = member(root, "tie_word_embeddings"), *scale = member(root, "scale_decoder_outputs");
    bool is_tied = tie ? tie->type == JSON_TRUE : strcmp(family->tie, "true") == 0;
    bool is_t5 = strcmp(family->model_type, "t5") == 0, is_scaled = scale ? scale->type == JSON_TRUE : is_tied;
    const struct weight *head = weights_find(weights, family->head);
    // A T5 whose output is not scaled says that it is not tied, even if it is; transformers 5 ties it without a head.
    if (!head && is_t5)
        is_tied = true;
    else if (head && (is_tied || is_t5))
        is_tied = is_same_tensor(head, weights_find(weights, family->embedding));
    if (strcmp(family->tie, "never") == 0 && (!head || is_same_tensor(head, weights_find(weights, family->embedding))))
        return error_set("its output layer is tied (no %s); transformers 4 scales the output of such an %s and "
                         "transformers 5 does not, so it is not supported",
                         family->head, family->model_type);
    if (strcmp(family->model_type, "umt5") == 0 && !is_tied && !config->untie_embeddings_and_output_weights)
        return error_set("its \"tie_word_embeddings\" is true, but it has an output matrix of its own (%s); "
                         "transformers 4 and 5 read it differently, so it is not supported",
                         family->head);
    if (is_t5 && is_scaled)
        TRY(set_flag(config, "--scale-tied-output", "true"));
    bool is_bert = strstr(family->model_type, "bert") != NULL;
    if (is_bert && !is_tied)
        return error_set("its output layer is not tied (tie_word_embeddings is false, or %s differs from the "
                         "embedding); only a tied BERT is supported",
                         family->head);
    return is_tied ? 0 : set_flag(config, "--untie-embeddings-and-output-weights", "true");
}

// Packed integers beside their scales: the matrices are not there.
static int check_quantization(const struct hf_family *family, const struct json *root) {
    const struct json *quantization = member(root, "quantization_config");
    const struct json *method = quantization ? member(quantization, "quant_method") : NULL;
    const char *name = method ? text_of(method) : NULL;
    bool is_read = name && ((family->has_mxfp4 && strcmp(name, "mxfp4") == 0) ||
                            (family->has_fp8_blocks && strcmp(name, "fp8") == 0));
    if (!quantization || is_read)
        return 0;
    return error_set("it has a \"quantization_config\" (%.64s); quantized weights are not supported: use the model in "
                     "fp32, bf16 or fp16",
                     name ? name : "no method");
}

int hf_config_read(const struct hf_family *family, const struct json *root, const struct weights *weights,
                   struct config *config) {
    TRY(check_quantization(family, root));
    for (size_t i = 0; i < family->key_count; i++)
        TRY(read_key(&family->keys[i], root, config));
    for (size_t i = 0; i < family->flag_count; i++)
        TRY(set_flag(config, family->flags[i].flag, family->flags[i].value));
    TRY(check_chosen(config));
    if (family->sparse != HF_SPARSE_ALL)
        TRY(read_sparse_layers(family, root, config));
    if (family->routed)
        TRY(hf_routed_read(family->routed, root, config));
    if (family->has_latents)
        TRY(hf_latent_read(root, config));
    else if (family->has_rope)
        TRY(read_rope(family, root, config));
    if (family->has_rope) {
        if (!family->has_no_groups)
            TRY(read_groups(family, root, config));
    }
    bool has_windows = family->window_freq || family->window_switch;
    TRY(has_windows ? read_windows(family, root, config) : check_layer_types(root, config));
    if (family->query_scalar)
        TRY(read_query_scalar(family, root, config));
    if (family->has_no_rope_layers)
        TRY(read_no_rope_layers(root, config));
    if (family->has_multi_query)
        TRY(read_multi_query(root, config));
    if (family->scales_embedding)
        TRY(set_real(config, "--embedding-multiplier", sqrt((double)config->hidden_size)));
    if (family->has_centered_gains)
        TRY(set_flag(config, "--apply-layernorm-1p", "true"));
    if (family->architecture_mlm && !weights_find(weights, "cls.seq_relationship.weight"))
        TRY(set_flag(config, "--bert-no-binary-head", "true"));
    return read_tie(family, root, weights, config);
}
