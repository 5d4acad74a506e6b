// Layers of a model selected by a number or a list, and the layers with a window.
#include "base/memory.h"
#include "config/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// A Python list, as Megatron evaluates it: [0, 1, 1], repeated by *, joined by +, optionally in parentheses. `layers`
// has room for `most`; `count` may exceed it.
struct layer_list {
    const char *at;
    bool *layers;
    int64_t count, most;
};

static void skip_spaces(struct layer_list *list) {
    while (isspace((unsigned char)*list->at))
        list->at++;
}

static bool take(struct layer_list *list, char wanted) {
    skip_spaces(list);
    bool is_there = *list->at == wanted;
    list->at += is_there;
    return is_there;
}

// A number of at most six digits; -1 if there is none.
static int64_t take_number(struct layer_list *list) {
    skip_spaces(list);
    size_t length = strspn(list->at, "0123456789");
    int64_t number = length > 0 && length <= 6 ? strtoll(list->at, NULL, 10) : -1;
    list->at += length;
    return number;
}

static void add(struct layer_list *list, bool is_named) {
    if (list->count < list->most)
        list->layers[list->count] = is_named;
    list->count++;
}

// Repeats the items from `first` on, `times` times in all.
static void repeat(struct layer_list *list, int64_t first, int64_t times) {
    int64_t length = list->count - first;
    if (times == 0)
        list->count = first;
    for (int64_t i = 0; times > 1 && i < (times - 1) * length && list->count <= list->most; i++)
        add(list, first + i < list->most && list->layers[first + i]);
}

static int take_sum(struct layer_list *list, int depth);

static int take_term(struct layer_list *list, int depth) {
    int64_t first = list->count, times = 0;
    if (take(list, '(')) {
        if (depth == 0 || take_sum(list, depth - 1) < 0 || !take(list, ')'))
            return -1;
    } else if (take(list, '[')) {
        do {
            int64_t number = take_number(list);
            if (number != 0 && number != 1)
                return -1;
            add(list, number == 1);
        } while (take(list, ','));
        if (!take(list, ']'))
            return -1;
    } else {
        return -1;
    }
    while (take(list, '*')) {
        times = take_number(list);
        if (times < 0)
            return -1;
        repeat(list, first, times);
    }
    return 0;
}

static int take_sum(struct layer_list *list, int depth) {
    do {
        if (take_term(list, depth) < 0)
            return -1;
    } while (take(list, '+'));
    return 0;
}

// `every` becomes the number, or 0 if the text is a list.
static int parse_layers(const char *text, bool *layers, int64_t count, int64_t *every) {
    enum { MOST_DEPTH = 16 };
    struct layer_list list = {.at = text, .layers = layers, .most = count};
    skip_spaces(&list);
    *every = 0;
    if (isdigit((unsigned char)*list.at)) {
        *every = take_number(&list);
        skip_spaces(&list);
        return *every > 0 && *list.at == 0 ? 0 : -1;
    }
    int status = take_sum(&list, MOST_DEPTH);
    skip_spaces(&list);
    return status == 0 && *list.at == 0 && list.count == count ? 0 : -1;
}

int config_parse_layer_freq(const char *text, bool *layers, int64_t count) {
    int64_t every;
    if (parse_layers(text, layers, count, &every) < 0)
        return -1;
    for (int64_t i = 0; every > 0 && i < count; i++)
        layers[i] = i % every == 0;
    return 0;
}

int config_parse_window_freq(const char *text, bool *layers, int64_t count) {
    int64_t every;
    if (parse_layers(text, layers, count, &every) < 0)
        return -1;
    for (int64_t i = 0; every > 0 && i < count; i++)
        layers[i] = (i + 1) % every != 0;
    return 0;
}

// The windows of all layers, to be freed.
static int64_t *list_windows(const struct config *config) {
    size_t count = (size_t)config->model.num_layers;
    int64_t *windows = memory_alloc((count + 1) * sizeof *windows);
    bool *layers = memory_alloc(count + 1);
    bool is_listed =
        config->model.window_attn_skip_freq &&
        config_parse_window_freq(config->model.window_attn_skip_freq, layers, config->model.num_layers) == 0;
    for (size_t i = 0; i < count; i++)
        windows[i] = !is_listed || layers[i] ? config->model.sliding_window : 0;
    free(layers);
    return windows;
}

bool config_layer_is_bf16(const struct config *config, int64_t layer, int64_t layers) {
    return config->run.first_last_layers_bf16 &&
           (layer < config->run.num_layers_at_start_in_bf16 || layer >= layers - config->run.num_layers_at_end_in_bf16);
}

int64_t config_layer_window(const struct config *config, int64_t layer) {
    int64_t *windows = list_windows(config), window = layer < config->model.num_layers ? windows[layer] : 0;
    free(windows);
    return window;
}

bool config_mixes_windows(const struct config *config) {
    int64_t *windows = list_windows(config);
    bool are_mixed = false;
    for (int64_t i = 0; i < config->model.num_layers; i++)
        are_mixed |= windows[i] != config->model.sliding_window;
    free(windows);
    return are_mixed;
}

bool config_same_windows(const struct config *a, const struct config *b) {
    if (a->model.num_layers != b->model.num_layers)
        return a->model.sliding_window == b->model.sliding_window;
    int64_t *of_a = list_windows(a), *of_b = list_windows(b);
    bool is_same = memcmp(of_a, of_b, (size_t)a->model.num_layers * sizeof *of_a) == 0;
    free(of_a);
    free(of_b);
    return is_same;
}
