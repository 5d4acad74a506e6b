// What the flags of mixtures of experts mean.
#include "base/memory.h"
#include "config/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// A list as Python has it, and as Megatron evaluates it: [0, 1, 1], repeated by *, joined by +, in parentheses or not.
// `layers` has room for `most`; `count` may go beyond it.
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

static void add(struct layer_list *list, bool has_experts) {
    if (list->count < list->most)
        list->layers[list->count] = has_experts;
    list->count++;
}

// What was added from `first` on, `times` times in all.
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

int config_parse_layer_freq(const char *text, bool *layers, int64_t count) {
    enum { MOST_DEPTH = 16 };
    struct layer_list list = {.at = text, .layers = layers, .most = count};
    skip_spaces(&list);
    if (isdigit((unsigned char)*list.at)) {
        int64_t every = take_number(&list);
        for (int64_t i = 0; every > 0 && i < count; i++)
            layers[i] = i % every == 0;
        skip_spaces(&list);
        return every > 0 && *list.at == 0 ? 0 : -1;
    }
    int status = take_sum(&list, MOST_DEPTH);
    skip_spaces(&list);
    return status == 0 && *list.at == 0 && list.count == count ? 0 : -1;
}

// To be freed.
static bool *list_layers(const struct config *config) {
    bool *layers = memory_alloc((size_t)config->num_layers + 1);
    if (config->num_experts == 0 || config_parse_layer_freq(config->moe_layer_freq, layers, config->num_layers) < 0)
        memset(layers, 0, (size_t)config->num_layers + 1);
    return layers;
}

bool config_layer_has_experts(const struct config *config, int64_t layer) {
    bool *layers = list_layers(config), has_experts = layer < config->num_layers && layers[layer];
    free(layers);
    return has_experts;
}

int64_t config_expert_layers(const struct config *config) {
    bool *layers = list_layers(config);
    int64_t count = 0;
    for (int64_t i = 0; i < config->num_layers; i++)
        count += layers[i];
    free(layers);
    return count;
}

bool config_same_expert_layers(const struct config *a, const struct config *b) {
    if (a->num_layers != b->num_layers)
        return false;
    bool *of_a = list_layers(a), *of_b = list_layers(b);
    bool is_same = memcmp(of_a, of_b, (size_t)a->num_layers * sizeof *of_a) == 0;
    free(of_a);
    free(of_b);
    return is_same;
}

double config_router_factor(const struct config *config) {
    return config->moe_router_topk_scaling_factor > 0 ? config->moe_router_topk_scaling_factor : 1;
}

double config_expert_capacity(const struct config *config) {
    return config->moe_expert_capacity_factor > 0 ? config->moe_expert_capacity_factor : 0;
}

int64_t config_expert_width(const struct config *config) {
    return config->moe_ffn_hidden_size > 0 ? config->moe_ffn_hidden_size : config->ffn_hidden_size;
}

struct config_balance config_balance(const struct config *config) {
    struct config_balance balance = {.z = config->moe_z_loss_coeff};
    const struct string_list *types = &config->moe_router_load_balancing_type, *coeffs = &config->moe_aux_loss_coeff;
    for (int64_t i = 0; i < types->count && i < coeffs->count; i++) {
        if (strcmp(types->items[i], "aux_loss") == 0)
            balance.batch = strtod(coeffs->items[i], NULL);
        if (strcmp(types->items[i], "seq_aux_loss") == 0)
            balance.sequence = strtod(coeffs->items[i], NULL);
    }
    return balance;
}
