// config.json to flags. See hf_config.h.
#include "formats/hf_config.h"

#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A flag is set once; a second member with another value is a contradiction.
int hf_config_set(struct config *config, const char *flag, const char *text) {
    struct flag_table table = config_flag_table(0);
    OWNED_BY(buffer_free) struct buffer before = {0}, after = {0};
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
    return result;
}

const struct json *hf_member_of(const struct json *object, const char *key) {
    const struct json *value = object ? json_member(object, key) : NULL;
    return value && value->type != JSON_NULL ? value : NULL;
}

const struct json *hf_config_member(const struct json *root, const char *key) {
    const char *dot = strchr(key, '.');
    if (!dot)
        return json_member(root, key);
    OWNED char *name = memory_printf("%.*s", (int)(dot - key), key);
    const struct json *inner = json_member(root, name);
    return inner && inner->type == JSON_OBJECT ? json_member(inner, dot + 1) : NULL;
}

const char *hf_text_of(const struct json *value) {
    if (value->type == JSON_TRUE || value->type == JSON_FALSE)
        return value->type == JSON_TRUE ? "true" : "false";
    bool is_text = value->type == JSON_NUMBER || value->type == JSON_STRING;
    return is_text && strlen(value->string) == value->length ? value->string : NULL;
}

int hf_config_set_real(struct config *config, const char *flag, double value) {
    OWNED char *text = memory_printf("%.17g", value);
    return hf_config_set(config, flag, text);
}

// Whole numbers lose their fraction, because 10000.0 counts as an integer too.
static int set_less(struct config *config, const char *flag, const char *text, int added) {
    char *end = NULL;
    double number = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !isfinite(number))
        return error_set("\"%.64s\" is not a number", text);
    OWNED char *whole = NULL;
    if (number == floor(number) && fabs(number) < 1e15)
        whole = memory_printf("%" PRId64, (int64_t)number - added);
    return hf_config_set(config, flag, whole ? whole : text);
}

int hf_config_set_number(struct config *config, const char *flag, const char *text) {
    return set_less(config, flag, text, 0);
}

// The number of one flag, or of several "--a/--b".
static int set_numbers(struct config *config, const struct hf_key *key, const char *text) {
    OWNED char *flags = memory_string(key->flags);
    char *rest = flags;
    for (const char *flag = strsep(&rest, "/"); flag; flag = strsep(&rest, "/"))
        TRY(set_less(config, flag, text, key->added));
    return 0;
}

// Finds "theirs=" among the map's words; *ours points after it, *length is the rest of the word. False if absent.
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

// Lists the known values: the text before "=" in each word of the map.
static int refuse_value(const struct hf_key *key, const char *text) {
    OWNED_BY(buffer_free) struct buffer known = {0};
    for (const char *word = key->map; *word; word += strspn(word, " ")) {
        buffer_printf(&known, "%s%.*s", known.length > 0 ? ", " : "", (int)strcspn(word, "="), word);
        word += strcspn(word, " ");
    }
    return error_set("\"%.64s\" is not supported, only %s", text, buffer_string(&known));
}

static int set_mapped(struct config *config, const struct hf_key *key, const char *text) {
    const char *value = NULL;
    size_t length = 0;
    if (!find_mapped(key->map, text, &value, &length))
        return refuse_value(key, text);
    OWNED char *values = memory_printf("%.*s", (int)length, value),
               *flags = memory_string(key->flags ? key->flags : "");
    char *value_rest = values, *flag_rest = flags;
    for (const char *flag = strsep(&flag_rest, "/"); flag && *flag; flag = strsep(&flag_rest, "/")) {
        const char *one = strsep(&value_rest, "/");
        CHECK(one != NULL);
        TRY(hf_config_set(config, flag, one));
    }
    return 0;
}

static int read_key(const struct hf_key *key, const struct json *root, struct config *config) {
    const struct json *any = hf_config_member(root, key->key);
    const struct json *value = any && any->type != JSON_NULL ? any : NULL;
    // Null differs from absent where null has a meaning: for booleans it is false.
    bool is_switch =
        key->kind == HF_SWITCH || (key->kind == HF_MAP && (strstr(key->map, "true=") || strstr(key->map, "false=")));
    const char *null = key->has_null ? "0" : is_switch ? "false" : key->fallback;
    const char *text = value ? hf_text_of(value) : any ? null : key->fallback;
    if (key->is_written)
        return 0;
    if (!text)
        return error_set("it has no \"%s\"", key->key);
    if (strcmp(text, "-") == 0 || (key->has_none && strcmp(text, "0") == 0))
        return 0;
    bool may_be_zero = key->kind != HF_NUMBER || key->has_none || !(key->has_null || key->is_positive);
    if (value && !may_be_zero && strtod(text, NULL) == 0)
        return error_set("its \"%s\" is 0, which is not null to transformers and not supported", key->key);
    if (key->is_inverse) {
        double number = strtod(text, NULL);
        return number > 0 ? hf_config_set_real(config, key->flags, 1 / number)
                          : error_set("\"%s\": \"%.64s\" is not a number above 0", key->key, text);
    }
    int result = key->kind == HF_MAP      ? set_mapped(config, key, text)
                 : key->kind == HF_SWITCH ? hf_config_set(config, key->flags, text)
                                          : set_numbers(config, key, text);
    if (result < 0)
        error_context("\"%s\"", key->key);
    return result;
}

// Routers that divide the chosen experts' scores by their sum give a single expert the weight 1, and so no gradient.
static int check_chosen(const struct config *config) {
    bool is_softmax = config->model.moe_router_score_function == ROUTER_SOFTMAX;
    if (config->model.num_experts == 0 || is_softmax || config->model.moe_router_topk != 1)
        return 0;
    return error_set(
        "its \"num_experts_per_tok\" is 1: that expert's weight is then 1 whatever the router computes; this is not "
        "supported");
}

static int read_groups(const struct hf_family *family, const struct json *root, struct config *config) {
    const char *key = hf_groups_key(family);
    const struct json *groups = hf_member_of(root, key);
    bool is_absent = json_member(root, key) == NULL;
    const char *text = groups ? hf_text_of(groups) : is_absent ? hf_default(family, "num_key_value_heads") : NULL;
    if (groups && groups->type != JSON_NUMBER)
        return error_set("its \"%s\" is not a number", key);
    if (!text || strtod(text, NULL) == (double)config->model.num_attention_heads)
        return 0;
    TRY(hf_config_set(config, "--group-query-attention", "true"));
    return hf_config_set_number(config, "--num-query-groups", text);
}

// If this list is present, transformers takes the kinds of attention from it and ignores other members for windows.
static int check_layer_types(const struct json *root, const struct config *config) {
    const struct json *types = hf_member_of(root, "layer_types");
    const char *expected = config->model.sliding_window > 0 ? "sliding_attention" : "full_attention";
    if (types && types->type != JSON_ARRAY)
        return error_set("its \"layer_types\" is not a list");
    for (size_t i = 0; types && i < types->count; i++) {
        const char *type = hf_text_of(&types->items[i]);
        if (!type || strcmp(type, expected) != 0)
            return error_set("its \"layer_types\" has \"%.64s\" for layer %zu; layers that differ in their attention "
                             "are not supported, and the rest of its configuration says \"%s\"",
                             type ? type : "", i, expected);
    }
    return 0;
}

static int read_windows(const struct hf_family *family, const struct json *root, struct config *config) {
    const struct json *is_on = hf_member_of(root, "use_sliding_window"), *width = hf_member_of(root, "sliding_window");
    if (family->window_switch) {
        if (!is_on || is_on->type != JSON_TRUE)
            return check_layer_types(root, config);
        if (json_member(root, "sliding_window") && (!width || width->type != JSON_NUMBER))
            return error_set("its \"use_sliding_window\" is true, but its \"sliding_window\" is not a number");
        TRY(hf_config_set_number(config, "--sliding-window", width ? width->string : "4096"));
    }
    OWNED char *layers = hf_windows_read(family, root, config);
    int result = !layers ? -1 : *layers ? hf_config_set(config, "--window-attn-skip-freq", layers) : 0;
    if (result < 0 || !family->has_whole_without_rope ||
        (family->has_rope_without_windows && config->model.sliding_window == 0))
        return result;
    int64_t every = hf_whole_layers_every(config);
    if (every < 0)
        return error_set("its layers without a window (\"layer_types\"), which have no rotary positions, are not every "
                         "N-th layer, which "
                         "is not supported");
    return hf_config_set_real(config, "--no-rope-freq", (double)every);
}

// Scores are divided by the square root of this number, by default the channels of a head.
static int read_query_scalar(const struct hf_family *family, const struct json *root, struct config *config) {
    const struct json *value = hf_member_of(root, "query_pre_attn_scalar");
    double scalar = value ? value->number : strtod(hf_default(family, "query_pre_attn_scalar"), NULL);
    if ((value && value->type != JSON_NUMBER) || !(scalar > 0))
        return error_set("its \"query_pre_attn_scalar\" is not a number above 0");
    return scalar == (double)config->model.kv_channels
               ? 0
               : hf_config_set_real(config, "--softmax-scale", 1 / sqrt(scalar));
}

// SmolLM3 lists for each layer whether it has rotary positions; by default every N-th layer has none.
static int read_no_rope_layers(const struct json *root, struct config *config) {
    const struct json *layers = hf_member_of(root, "no_rope_layers"),
                      *interval = hf_member_of(root, "no_rope_layer_interval");
    if (interval && interval->type != JSON_NUMBER)
        return error_set("its \"no_rope_layer_interval\" is not a number");
    if (!layers)
        return hf_config_set_number(config, "--no-rope-freq", interval ? interval->string : "4");
    int64_t count = config->model.num_layers, first = 0;
    if (layers->type != JSON_ARRAY || (int64_t)layers->count < count)
        return error_set("its \"no_rope_layers\" has no number for each of the %" PRId64 " layers", count);
    while (first < count && layers->items[first].type == JSON_NUMBER && layers->items[first].number != 0)
        first++;
    for (int64_t i = first; i < count; i++)
        if (layers->items[i].type != JSON_NUMBER || (layers->items[i].number == 0) != ((i + 1) % (first + 1) == 0))
            return error_set("its \"no_rope_layers\" are not every N-th layer, which is not supported");
    return hf_config_set_real(config, "--no-rope-freq", first < count ? (double)(first + 1) : 0);
}

static int read_sparse_layers(const struct hf_family *family, const struct json *root, struct config *config) {
    if (config->model.num_experts == 0 && family->experts)
        TRY(hf_config_set(config, "--num-experts", family->experts));
    OWNED char *layers = hf_sparse_read(family, root, config->model.num_layers);
    bool is_usual = layers && family->sparse == HF_SPARSE_FIRST && strcmp(layers, "1") == 0;
    return !layers ? -1 : is_usual ? 0 : hf_config_set(config, "--moe-layer-freq", layers);
}

// All heads share one key and value, or each has its own.
static int read_multi_query(const struct json *root, struct config *config) {
    const struct json *shares = json_member(root, "multi_query"), *groups = hf_member_of(root, "num_kv_heads");
    if (shares && shares->type != JSON_TRUE && groups && groups->number != (double)config->model.num_attention_heads)
        return error_set("its \"multi_query\" is not true, but its \"num_kv_heads\" is not its number of heads; such a "
                         "model is not supported");
    if (config->model.num_attention_heads == 1 || (shares && shares->type != JSON_TRUE))
        return 0;
    TRY(hf_config_set(config, "--group-query-attention", "true"));
    return hf_config_set(config, "--num-query-groups", "1");
}

bool hf_is_same_tensor(const struct weight *a, const struct weight *b) {
    if (!a || !b || !a->is_readable || !b->is_readable || a->dtype != b->dtype || a->bytes != b->bytes)
        return false;
    OWNED void *x = memory_alloc(a->bytes + 1), *y = memory_alloc(b->bytes + 1);
    return weight_read(a, x) == 0 && weight_read(b, y) == 0 && memcmp(x, y, a->bytes) == 0;
}

// Members derived from feed_forward_proj may be present too, and transformers reads them.
static int check_t5_activation(const struct json *root) {
    const struct json *proj = hf_member_of(root, "feed_forward_proj"), *act = json_member(root, "dense_act_fn");
    const struct json *gated = json_member(root, "is_gated_act");
    const char *said = proj ? hf_text_of(proj) : NULL;
    if (!said)
        return 0;
    bool is_gated = strncmp(said, "gated-", 6) == 0;
    const char *wanted = strcmp(said, "gated-gelu") == 0 ? "gelu_new" : is_gated ? said + 6 : said;
    const char *is = act ? hf_text_of(act) : wanted;
    if (!is || strcmp(is, wanted) != 0)
        return error_set("its \"dense_act_fn\" is not \"%s\", as its \"feed_forward_proj\" says; such a model is not "
                         "supported",
                         wanted);
    if (gated && (gated->type == JSON_TRUE) != is_gated)
        return error_set("its \"is_gated_act\" is not what its \"feed_forward_proj\" says; such a model is not "
                         "supported");
    return 0;
}

// A file may store the tied matrix twice. If the head's matrix differs, releases of transformers disagree on it.
static int read_tie(const struct hf_family *family, const struct json *root, const struct weights *weights,
                    struct config *config) {
    const struct json *tie = json_member(root, "tie_word_embeddings");
    const struct json *scale = json_member(root, "scale_decoder_outputs");
    bool is_tied = tie ? tie->type == JSON_TRUE : (family->tie != HF_UNTIED && family->tie != HF_TIED_NEVER);
    bool is_t5 = family->tie == HF_TIED_SCALED, is_scaled = scale ? scale->type == JSON_TRUE : is_tied;
    bool is_own = family->tie == HF_TIED_NEVER, is_bert = family->tie == HF_TIED_ALWAYS;
    const struct weight *head = weights_find(weights, family->head);
    bool is_said = is_tied && head && !is_t5 && !is_own && !is_bert;
    // A T5 whose output is not scaled says that it is not tied, even if it is; transformers 5 ties it without a head.
    if (!head && is_t5)
        is_tied = true;
    else if (head && (is_tied || is_t5))
        is_tied = hf_is_same_tensor(head, weights_find(weights, family->embedding));
    if (is_own && (!head || hf_is_same_tensor(head, weights_find(weights, family->embedding))))
        return error_set("its output layer is tied (no %s, whatever \"tie_word_embeddings\" says); transformers 4 "
                         "scales the output of such an %s and transformers 5 does not, so it is not supported",
                         family->head, family->model_type);
    bool is_umt5 = family->tie == HF_TIED_AND_SCALED && !config->model.untie_embeddings_and_output_weights;
    if (!is_tied && (is_said || is_umt5))
        return error_set("its \"tie_word_embeddings\" is true%s, but it has an output matrix of its own (%s), "
                         "which transformers 5 uses and transformers 4 does not, so it is not supported: remove that "
                         "tensor, or set the member to false",
                         tie ? "" : " by default", family->head);
    if (is_t5 && is_scaled && !is_tied)
        return error_set("its output is scaled (\"scale_decoder_outputs\", or a \"tie_word_embeddings\" that is not "
                         "false) and has a matrix of its own (%s); such a model is not supported",
                         family->head);
    if (is_t5 && is_scaled)
        TRY(hf_config_set(config, "--scale-tied-output", "true"));
    if (is_bert && !is_tied)
        return error_set("its output layer is not tied (tie_word_embeddings is false, or %s differs from the "
                         "embedding); only a tied BERT is supported",
                         family->head);
    return is_tied ? 0 : hf_config_set(config, "--untie-embeddings-and-output-weights", "true");
}

// Quantized models store packed integers and scales instead of matrices.
static int check_quantization(const struct hf_family *family, const struct json *root) {
    const struct json *quantization = hf_member_of(root, "quantization_config");
    const struct json *method = quantization ? hf_member_of(quantization, "quant_method") : NULL;
    const char *name = method ? hf_text_of(method) : NULL;
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
    struct hf_key key;
    const struct hf_flag *flag;
    for (size_t i = 0; hf_key_at(family, i, &key); i++)
        TRY(read_key(&key, root, config));
    for (size_t i = 0; (flag = hf_flag_at(family, i)); i++)
        TRY(hf_config_set(config, flag->flag, flag->value));
    TRY(check_chosen(config));
    if (family->sparse != HF_SPARSE_ALL)
        TRY(read_sparse_layers(family, root, config));
    if (family->group_best > 0)
        TRY(hf_routed_read(family, root, config));
    if (family->has_latents)
        TRY(hf_latent_read(family, root, config));
    else if (family->has_rope)
        TRY(hf_rope_read(family, root, config));
    if (family->has_rope) {
        if (!family->has_no_groups)
            TRY(read_groups(family, root, config));
    }
    bool has_windows = family->window_freq || family->window_switch;
    TRY(has_windows ? read_windows(family, root, config) : check_layer_types(root, config));
    if (hf_default(family, "query_pre_attn_scalar"))
        TRY(read_query_scalar(family, root, config));
    if (family->has_no_rope_layers)
        TRY(read_no_rope_layers(root, config));
    if (family->has_multi_query)
        TRY(read_multi_query(root, config));
    if (family->scales_embedding)
        TRY(hf_config_set_real(config, "--embedding-multiplier", sqrt((double)config->model.hidden_size)));
    if (family->has_centered_gains)
        TRY(hf_config_set(config, "--apply-layernorm-1p", "true"));
    if (family->architecture_mlm && !weights_find(weights, "cls.seq_relationship.weight"))
        TRY(hf_config_set(config, "--bert-no-binary-head", "true"));
    if (config->model.form == CONFIG_T5)
        TRY(check_t5_activation(root));
    TRY(hf_members_check(family, root, config));
    return read_tie(family, root, weights, config);
}
