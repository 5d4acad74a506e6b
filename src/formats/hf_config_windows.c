// Which layers have a window, by layer_types or sliding_window_pattern (every N-th layer has none), and Gemma's divisor
// of scores. See hf_config.h.
#include "base/error.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char windowed[] = "sliding_attention", whole[] = "full_attention";

// `layers` has room for `count`.
static int read_types(const struct json *types, bool *layers, int64_t count) {
    if (types->type != JSON_ARRAY || (int64_t)types->count != count)
        return error_set("its \"layer_types\" is not a list of %" PRId64 " layers", count);
    for (int64_t i = 0; i < count; i++) {
        const struct json *type = &types->items[i];
        layers[i] = type->type == JSON_STRING && strcmp(type->string, windowed) == 0;
        if (!layers[i] && (type->type != JSON_STRING || strcmp(type->string, whole) != 0))
            return error_set("its \"layer_types\" has \"%.64s\" for layer %" PRId64 "; only %s and %s are supported",
                             type->type == JSON_STRING ? type->string : "", i, windowed, whole);
    }
    return 0;
}

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

static int read_layers(const struct hf_family *family, const struct json *root, bool *layers, int64_t count,
                       bool has_width) {
    const struct json *types = hf_member_of(root, "layer_types"),
                      *pattern = hf_member_of(root, "sliding_window_pattern");
    if (types)
        return read_types(types, layers, count);
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
static char *name_layers(const bool *layers, int64_t count) {
    int64_t every = 1;
    bool is_regular = true;
    while (every < count && layers[every - 1])
        every++;
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (int64_t i = 0; i < count; i++) {
        is_regular = is_regular && layers[i] == ((i + 1) % every != 0);
        buffer_printf(&text, "%s%d", i > 0 ? "," : "[", layers[i]);
    }
    return is_regular ? memory_printf("%" PRId64, every) : memory_printf("%s]", buffer_string(&text));
}

char *hf_windows_read(const struct hf_family *family, const struct json *root, const struct config *config) {
    int64_t count = config->model.num_layers, windows = 0;
    OWNED bool *layers = memory_alloc((size_t)count + 1);
    if (read_layers(family, root, layers, count, config->model.sliding_window > 0) < 0)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        windows += layers[i];
    if (windows > 0 && config->model.sliding_window == 0) {
        error_set("it has layers with a window, but no \"sliding_window\"");
        return NULL;
    }
    return windows == count || config->model.sliding_window == 0 ? memory_string("") : name_layers(layers, count);
}

char *hf_windows_types(const struct config *config) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (int64_t i = 0; i < config->model.num_layers; i++)
        buffer_printf(&text, "%s\"%s\"", i > 0 ? ", " : "[",
                      config_layer_window(&config->model, i) > 0 ? windowed : whole);
    return memory_printf("%s]", buffer_string(&text));
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
