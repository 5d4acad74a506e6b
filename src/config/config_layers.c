// Layers of a model selected by a number or a list: those with a window, and those with experts.
#include "base/memory.h"
#include "config/config.h"
#include "config/model_value.h"
#include "config/validate.h"

#include <inttypes.h>
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
static int64_t *list_windows(const struct config_model *model) {
    size_t count = (size_t)model->num_layers;
    int64_t *windows = memory_alloc((count + 1) * sizeof *windows);
    bool *layers = memory_alloc(count + 1);
    bool is_listed = model->window_attn_skip_freq &&
                     config_parse_window_freq(model->window_attn_skip_freq, layers, model->num_layers) == 0;
    for (size_t i = 0; i < count; i++)
        windows[i] = !is_listed || layers[i] ? model->sliding_window : 0;
    free(layers);
    return windows;
}

bool config_layer_is_bf16(const struct config *config, int64_t layer, int64_t layers) {
    return config->run.first_last_layers_bf16 &&
           (layer < config->run.num_layers_at_start_in_bf16 || layer >= layers - config->run.num_layers_at_end_in_bf16);
}

int64_t config_layer_window(const struct config_model *model, int64_t layer) {
    int64_t *windows = list_windows(model), window = layer < model->num_layers ? windows[layer] : 0;
    free(windows);
    return window;
}

bool config_mixes_windows(const struct config_model *model) {
    int64_t *windows = list_windows(model);
    bool are_mixed = false;
    for (int64_t i = 0; i < model->num_layers; i++)
        are_mixed |= windows[i] != model->sliding_window;
    free(windows);
    return are_mixed;
}

bool config_same_windows(const struct config_model *a, const struct config_model *b) {
    if (a->num_layers != b->num_layers)
        return a->sliding_window == b->sliding_window;
    int64_t *of_a = list_windows(a), *of_b = list_windows(b);
    bool is_same = memcmp(of_a, of_b, (size_t)a->num_layers * sizeof *of_a) == 0;
    free(of_a);
    free(of_b);
    return is_same;
}

bool *config_list_expert_layers(const struct config_model *model) {
    // A T5 has no experts, but its decoder may have other layers than num_layers.
    int64_t most = config_decoder_layers(model) > model->num_layers ? config_decoder_layers(model) : model->num_layers;
    bool *layers = memory_alloc((size_t)most + 1);
    if (model->num_experts == 0 || config_parse_layer_freq(model->moe_layer_freq, layers, model->num_layers) < 0)
        memset(layers, 0, (size_t)most + 1);
    return layers;
}

int64_t config_expert_layers(const struct config_model *model) {
    bool *layers = config_list_expert_layers(model);
    int64_t count = 0;
    for (int64_t i = 0; i < model->num_layers; i++)
        count += layers[i];
    free(layers);
    return count;
}

int64_t config_routed_layers(const struct config_model *model) {
    bool *layers = config_list_expert_layers(model);
    bool has_experts = model->num_layers > 0 && layers[model->num_layers - 1];
    free(layers);
    return config_expert_layers(model) + (has_experts ? model->mtp_num_layers : 0);
}

bool config_has_dense_mlps(const struct config_model *model) {
    return config_expert_layers(model) < model->num_layers || model->moe_shared_expert_intermediate_size > 0;
}

bool config_upcycles_load(const struct config *config) {
    return config->run.moe_use_upcycling && !config->run.pretrained_checkpoint;
}

bool config_same_expert_layers(const struct config_model *a, const struct config_model *b) {
    if (a->num_layers != b->num_layers)
        return false;
    bool *of_a = config_list_expert_layers(a), *of_b = config_list_expert_layers(b);
    bool is_same = memcmp(of_a, of_b, (size_t)a->num_layers * sizeof *of_a) == 0;
    free(of_a);
    free(of_b);
    return is_same;
}

int64_t config_group_best(const struct config_model *model) {
    if (model->moe_router_group_best > 0 || model->moe_router_group_topk == 0)
        return model->moe_router_group_best;
    return model->moe_router_topk / model->moe_router_group_topk;
}

double config_router_factor(const struct config_model *model) {
    return model->moe_router_topk_scaling_factor > 0 ? model->moe_router_topk_scaling_factor : 1;
}

double config_expert_capacity(const struct config_model *model) {
    return model->moe_expert_capacity_factor > 0 ? model->moe_expert_capacity_factor : 0;
}

int64_t config_expert_width(const struct config_model *model) {
    return model->moe_ffn_hidden_size > 0 ? model->moe_ffn_hidden_size : model->ffn_hidden_size;
}

struct config_balance config_balance(const struct config_model *model) {
    struct config_balance balance = {.z = model->moe_z_loss_coeff};
    const struct string_list *types = &model->moe_router_load_balancing_type, *coeffs = &model->moe_aux_loss_coeff;
    for (int64_t i = 0; i < types->count && i < coeffs->count; i++) {
        if (strcmp(types->items[i], "aux_loss") == 0)
            balance.batch = strtod(coeffs->items[i], NULL);
        if (strcmp(types->items[i], "seq_aux_loss") == 0)
            balance.sequence = strtod(coeffs->items[i], NULL);
        if (strcmp(types->items[i], "global_aux_loss") == 0)
            balance.global = strtod(coeffs->items[i], NULL);
    }
    return balance;
}

bool config_has_sinkhorn(const struct config_model *model) {
    const struct string_list *types = &model->moe_router_load_balancing_type;
    bool has_it = false;
    for (int64_t i = 0; i < types->count && model->num_experts > 0; i++)
        has_it = has_it || strcmp(types->items[i], "sinkhorn") == 0;
    return has_it;
}

int64_t config_expert_slices(const struct config *config) {
    int64_t given = config->machine.expert_tensor_parallel_size;
    return given > 0 && config->model.num_experts > 0 ? given : config->machine.tensor_model_parallel_size;
}

// Takes as many of the remaining ranks as lie along an axis of `length`; -1 if neither number divides the other.
static int take_ranks(int64_t *left, int64_t length, int64_t *taken) {
    if (length < 1 || (*left % length != 0 && length % *left != 0))
        return -1;
    *taken = *left < length ? *left : length;
    *left /= *taken;
    return 0;
}

int config_expert_ranks(const struct config *config, int64_t data_ranks, struct config_expert_ranks *ranks) {
    int64_t tensor = config->machine.tensor_model_parallel_size > 0 ? config->machine.tensor_model_parallel_size : 1;
    int64_t context = config->machine.context_parallel_size > 0 ? config->machine.context_parallel_size : 1;
    int64_t slices = config_expert_slices(config) > 0 ? config_expert_slices(config) : 1;
    int64_t left = config->machine.expert_model_parallel_size > 0 ? config->machine.expert_model_parallel_size : 1;
    if (tensor % slices != 0 || take_ranks(&left, tensor / slices, &ranks->tensor) < 0 ||
        take_ranks(&left, context, &ranks->context) < 0)
        return -1;
    ranks->data = left;
    return data_ranks == 0 || data_ranks % left == 0 ? 0 : -1;
}

// ---- --hybrid-layer-pattern ----

// A layer here is attention and the MLP or the experts behind it, which the pattern names apart. Returns the length, 0
// with a complaint.
static int take_pair(const char *p, struct complaints *complaints) {
    static const char *const others[] = {"M Mamba", "G a gated delta net", "D sparse attention",
                                         "+ latent attention (--multi-latent-attention has it in every layer)"};
    const char *named = NULL;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (*others[i] == p[0] || (p[0] == '*' && *others[i] == p[1]))
            named = others[i];
    if (p[0] == '*' && (p[1] == '-' || p[1] == 'E'))
        return 2;
    if (named)
        complain(complaints, "--hybrid-layer-pattern: %c is %s, which bevatron does not have as a layer of its own",
                 *named, named + 2);
    else
        complain(complaints,
                 "--hybrid-layer-pattern: at \"%.8s\" there is no * with - or E behind it; bevatron's layers are such "
                 "pairs",
                 p);
    return 0;
}

void validate_hybrid(struct config *config, struct complaints *complaints) {
    OWNED_BY(buffer_free) struct buffer experts = {0}, stages = {0};
    const char *pattern = config->model.hybrid_layer_pattern, *p = pattern, *last = NULL;
    int64_t depths = 0, layers = 0;
    bool has_stages = false;
    for (int length; p && *p && *p != '/'; p += length) {
        length = *p == '|' ? 1 : take_pair(p, complaints);
        if (length == 0)
            return;
        has_stages = has_stages || *p == '|';
        buffer_append_byte(&stages, *p == '|' ? '|' : 't');
        if (*p != '|')
            buffer_printf(&experts, "%s%d", layers++ ? "," : "", p[1] == 'E');
        last = *p == '|' ? last : p;
    }
    for (; p && *p == '/'; p += 3, depths++)
        if (!last || strncmp(p + 1, last, 2) != 0 || (p[3] && p[3] != '/')) {
            complain(complaints, "--hybrid-layer-pattern: a depth behind / is like the last layer here: give /%.2s",
                     last ? last : "*-");
            return;
        }
    if (!pattern)
        return;
    // Megatron's pattern numbers attention, MLPs and experts one by one; bevatron numbers layers.
    static const char *const counted[] = {"--window-attn-skip-freq", "--no-rope-freq", "--first-last-layers-bf16",
                                          "--num-layers-at-start-in-bf16", "--num-layers-at-end-in-bf16"};
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        if (flag_is_given(&config->given, counted[i]))
            complain(complaints,
                     "%s counts attention and MLPs apart beside --hybrid-layer-pattern, and layers here; give "
                     "--num-layers instead of the pattern",
                     counted[i]);
    if (config->model.form == CONFIG_BERT || config->model.form == CONFIG_ROBERTA || config->model.form == CONFIG_T5 ||
        config->model.form == CONFIG_ICT)
        complain(complaints, "--hybrid-layer-pattern describes a GPT; give --num-layers");
    if (layers == 0)
        complain(complaints, "--hybrid-layer-pattern names no layer; give for example '*-*-'");
    if (depths > CONFIG_MOST_DEPTHS)
        complain(complaints, "--hybrid-layer-pattern has %" PRId64 " depths; at most %d are possible", depths,
                 CONFIG_MOST_DEPTHS);
    if (has_stages && config->machine.pipeline_model_parallel_layout)
        complain(complaints,
                 "--hybrid-layer-pattern names the stages by |; leave out --pipeline-model-parallel-layout");
    if (strchr(pattern, 'E') && config->model.num_experts == 0)
        complain(complaints, "--hybrid-layer-pattern has experts (E); give --num-experts");
    config->model.num_layers = layers;
    config->model.mtp_num_layers = depths ? depths : config->model.mtp_num_layers;
    if (config->model.num_experts > 0) {
        free(config->model.moe_layer_freq);
        config->model.moe_layer_freq = memory_printf("[%s]", buffer_string(&experts));
    }
    if (has_stages) {
        free(config->machine.pipeline_model_parallel_layout);
        config->machine.pipeline_model_parallel_layout =
            memory_printf("E%s%.*sL", buffer_string(&stages), (int)config->model.mtp_num_layers, "mmmmmmmm");
    }
    free(config->model.hybrid_layer_pattern);
    config->model.hybrid_layer_pattern = NULL;
}
