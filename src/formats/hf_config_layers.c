// Which layers have a window, and which have experts. Windows: by layer_types, or sliding_window_pattern (every N-th
// layer has none). Experts: in every decoder_sparse_step-th layer but none of mlp_only_layers (Qwen's); after
// first_k_dense_replace layers (DeepSeek's); or by a list, mlp_layer_types. And Gemma's divisor of scores. See
// hf_config.h.
#include "base/error.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A list of config.json with one of two words for each layer.
struct layer_words {
    const char *key, *words[2];
    int wanted;             // the word of the layers that are looked for
    bool may_have_further;  // more words than layers
};
static const struct layer_words of_attention = {"layer_types", {"sliding_attention", "full_attention"}, 0, false};
static const struct layer_words of_mlps = {"mlp_layer_types", {"dense", "sparse"}, 1, true};

// `layers` has room for `count`.
static int read_types(const struct json *types, const struct layer_words *list, bool *layers, int64_t count) {
    bool has_all = types->type == JSON_ARRAY && (int64_t)types->count >= count;
    if (!has_all || ((int64_t)types->count > count && !list->may_have_further))
        return error_set("its \"%s\" is not a list of %" PRId64 " layers", list->key, count);
    for (int64_t i = 0; i < count; i++) {
        const struct json *type = &types->items[i];
        const char *name = type->type == JSON_STRING ? type->string : "";
        layers[i] = strcmp(name, list->words[list->wanted]) == 0;
        if (!layers[i] && strcmp(name, list->words[1 - list->wanted]) != 0)
            return error_set("its \"%s\" has \"%.64s\" for layer %" PRId64 "; only %s and %s are supported", list->key,
                             name, i, list->words[0], list->words[1]);
    }
    return 0;
}

// As JSON, to be freed.
static char *list_types(const bool *layers, int64_t count, const struct layer_words *list) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (int64_t i = 0; i < count; i++)
        buffer_printf(&text, "%s\"%s\"", i > 0 ? ", " : "[", list->words[layers[i] ? list->wanted : 1 - list->wanted]);
    return memory_printf("%s]", buffer_string(&text));
}

// "[0,1,1]", as flags have it; to be freed.
static char *list_digits(const bool *layers, int64_t count) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (int64_t i = 0; i < count; i++)
        buffer_printf(&text, "%s%d", i > 0 ? "," : "[", layers[i]);
    return memory_printf("%s]", buffer_string(&text));
}

// ---- windows ----

static int read_switched(const struct hf_family *family, const struct json *root, bool *layers, int64_t count) {
    const char *limit = hf_default(family, "max_window_layers");
    enum hf_windows kind = limit ? HF_WINDOWS_LATE : family->window_switch;
    const struct json *value = hf_member_of(root, "max_window_layers");
    if (value && value->type != JSON_NUMBER)
        return error_set("its \"max_window_layers\" is not a number of layers");
    double most = value ? value->number : strtod(limit ? limit : "28", NULL);
    for (int64_t i = 0; i < count; i++)
        layers[i] =
            kind == HF_WINDOWS_ALL || (kind == HF_WINDOWS_LATE ? (double)i >= most : i % 2 == 0 && (double)i < most);
    return 0;
}

static int read_windows(const struct hf_family *family, const struct json *root, bool *layers, int64_t count,
                        bool has_width) {
    const struct json *types = hf_member_of(root, "layer_types"),
                      *pattern = hf_member_of(root, "sliding_window_pattern");
    if (types)
        return read_types(types, &of_attention, layers, count);
    if (family->window_switch || (hf_default(family, "max_window_layers") && has_width))
        return read_switched(family, root, layers, count);
    if (strcmp(family->window_freq, "all") == 0) {
        memset(layers, has_width, (size_t)count * sizeof *layers);
        return 0;
    }
    if (!pattern)
        return config_parse_window_freq(family->window_freq, layers, count);
    if (pattern->type != JSON_NUMBER || config_parse_window_freq(pattern->string, layers, count) < 0)
        return error_set("its \"sliding_window_pattern\" is not a number of layers");
    return 0;
}

// The shortest text for the layers, to be freed: a number if possible.
static char *name_windows(const bool *layers, int64_t count) {
    int64_t every = 1;
    bool is_regular = true;
    while (every < count && layers[every - 1])
        every++;
    for (int64_t i = 0; i < count; i++)
        is_regular = is_regular && layers[i] == ((i + 1) % every != 0);
    return is_regular ? memory_printf("%" PRId64, every) : list_digits(layers, count);
}

char *hf_windows_read(const struct hf_family *family, const struct json *root, const struct config *config) {
    int64_t count = config->model.num_layers, windows = 0;
    OWNED bool *layers = memory_alloc((size_t)count + 1);
    if (read_windows(family, root, layers, count, config->model.sliding_window > 0) < 0)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        windows += layers[i];
    if (windows > 0 && config->model.sliding_window == 0) {
        error_set("it has layers with a window, but no \"sliding_window\"");
        return NULL;
    }
    return windows == count || config->model.sliding_window == 0 ? memory_string("") : name_windows(layers, count);
}

char *hf_windows_types(const struct config *config) {
    int64_t count = config->model.num_layers;
    OWNED bool *layers = memory_alloc((size_t)count + 1);
    for (int64_t i = 0; i < count; i++)
        layers[i] = config_layer_window(&config->model, i) > 0;
    return list_types(layers, count, &of_attention);
}

int64_t hf_whole_layers_every(const struct config *config) {
    int64_t every = 0;
    for (int64_t i = 0; i < config->model.num_layers; i++) {
        bool is_whole = config_layer_window(&config->model, i) == 0;
        if (is_whole && every == 0)
            every = i + 1;
        if (is_whole != (every > 0 && (i + 1) % every == 0))
            return -1;
    }
    return every;
}

double hf_query_scalar(const struct config *config) {
    double scale = config->model.softmax_scale;
    return scale > 0 ? round(1 / (scale * scale)) : (double)config->model.kv_channels;
}

double hf_local_base(const struct config *config) {
    return config->model.rotary_base_local > 0 ? config->model.rotary_base_local : config->model.rotary_base;
}

// ---- experts ----

static int read_step(const struct json *root, int64_t *step) {
    const struct json *value = hf_member_of(root, "decoder_sparse_step");
    *step = 1;
    if (!value)
        return 0;
    if (value->type != JSON_NUMBER || !(value->number >= 1 && value->number < 1e6) ||
        value->number != floor(value->number))
        return error_set("its \"decoder_sparse_step\" is not a number of layers");
    *step = (int64_t)value->number;
    return 0;
}

static int read_by_step(const struct json *root, bool *layers, int64_t count) {
    const struct json *dense = hf_member_of(root, "mlp_only_layers");
    int64_t step = 1;
    TRY(read_step(root, &step));
    for (int64_t i = 0; i < count; i++)
        layers[i] = (i + 1) % step == 0;
    if (!dense)
        return 0;
    if (dense->type != JSON_ARRAY)
        return error_set("its \"mlp_only_layers\" is not a list of layers");
    for (size_t i = 0; i < dense->count; i++) {
        if (dense->items[i].type != JSON_NUMBER)
            return error_set("its \"mlp_only_layers\" is not a list of layers");
        double number = dense->items[i].number;
        if (number >= 0 && number < (double)count)
            layers[(int64_t)number] = false;
    }
    return 0;
}

static int read_first(const struct hf_family *family, const struct json *root, bool *layers, int64_t count) {
    int64_t dense = 0;
    TRY(hf_count_of(family, root, "first_k_dense_replace", "first_k_dense_replace", &dense));
    if (dense < 0 || dense >= count)
        return error_set("its \"first_k_dense_replace\" %" PRId64 " leaves none of %" PRId64 " layers with experts",
                         dense, count);
    for (int64_t i = 0; i < count; i++)
        layers[i] = i >= dense;
    return 0;
}

static int read_sparse(const struct hf_family *family, const struct json *root, bool *layers, int64_t count) {
    const struct json *types = hf_member_of(root, "mlp_layer_types");
    switch (family->sparse) {
    case HF_SPARSE_STEP:
        return read_by_step(root, layers, count);
    case HF_SPARSE_TYPES:
        return types ? read_types(types, &of_mlps, layers, count) : read_first(family, root, layers, count);
    default:
        return read_first(family, root, layers, count);
    }
}

// "1" if all layers have experts, "[0]*3+[1]*58" if only the first have none.
static char *name_sparse(const struct hf_family *family, const bool *layers, int64_t count) {
    bool is_listed = family->sparse == HF_SPARSE_STEP;
    int64_t dense = 0, sparse = 0;
    while (dense < count && !layers[dense])
        dense++;
    for (int64_t i = 0; i < count; i++)
        sparse += layers[i];
    return sparse == count                       ? memory_string("1")
           : is_listed || dense + sparse < count ? list_digits(layers, count)
                                                 : memory_printf("[0]*%" PRId64 "+[1]*%" PRId64, dense, sparse);
}

char *hf_sparse_read(const struct hf_family *family, const struct json *root, int64_t count) {
    OWNED bool *layers = memory_alloc((size_t)count + 1);
    if (read_sparse(family, root, layers, count) < 0)
        return NULL;
    if (memchr(layers, true, (size_t)count) || family->sparse == HF_SPARSE_STEP)
        return name_sparse(family, layers, count);
    error_set("none of its %" PRId64 " layers has experts, which is not supported", count);
    return NULL;
}

bool hf_sparse_are(const struct hf_family *family, const struct json *base, const struct config *config) {
    size_t count = (size_t)config->model.num_layers;
    OWNED bool *layers = config_list_expert_layers(&config->model), *theirs = memory_alloc(count + 1);
    bool are_same =
        read_sparse(family, base, theirs, config->model.num_layers) == 0 && memcmp(layers, theirs, count) == 0;
    error_clear();
    return are_same;
}

int64_t hf_dense_layers(const struct config *config) {
    int64_t dense = 0, L = config->model.num_layers;
    OWNED bool *layers = config_list_expert_layers(&config->model);
    while (dense < L && !layers[dense])
        dense++;
    return config_expert_layers(&config->model) == L - dense ? dense : -1;
}

bool hf_sparse_is_possible(const struct hf_family *family, const struct config *config) {
    if (family->sparse == HF_SPARSE_ALL)
        return config_expert_layers(&config->model) == config->model.num_layers;
    return family->sparse != HF_SPARSE_FIRST || hf_dense_layers(config) >= 0;
}

static char *list_dense(const struct config *config) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED bool *layers = config_list_expert_layers(&config->model);
    for (int64_t i = 0; i < config->model.num_layers; i++)
        if (!layers[i])
            buffer_printf(&text, "%s%" PRId64, text.length > 0 ? ", " : "", i);
    return memory_printf("[%s]", buffer_string(&text));
}

static char *list_sparse(const struct config *config) {
    OWNED bool *layers = config_list_expert_layers(&config->model);
    return list_types(layers, config->model.num_layers, &of_mlps);
}

size_t hf_sparse_members(const struct hf_family *family, const struct config *config,
                         struct hf_member members[HF_OWN_MEMBERS]) {
    int64_t dense = hf_dense_layers(config);
    size_t count = 0;
    if (family->sparse == HF_SPARSE_STEP) {
        members[count++] = (struct hf_member){"decoder_sparse_step", memory_string("1")};
        members[count++] = (struct hf_member){"mlp_only_layers", list_dense(config)};
    } else {
        // Programs other than transformers read the number even if there is a list.
        if (dense >= 0)
            members[count++] = (struct hf_member){"first_k_dense_replace", memory_printf("%" PRId64, dense)};
        if (family->sparse == HF_SPARSE_TYPES)
            members[count++] = (struct hf_member){"mlp_layer_types", list_sparse(config)};
    }
    return count;
}
