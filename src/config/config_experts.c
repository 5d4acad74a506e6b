// What the flags of mixtures of experts mean.
#include "base/memory.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

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

int64_t config_expert_layers_before(const struct config *config, int64_t layer) {
    bool *layers = list_layers(config);
    int64_t count = 0;
    for (int64_t i = 0; i < layer; i++)
        count += layers[i];
    free(layers);
    return count;
}

int64_t config_expert_layers(const struct config *config) {
    return config_expert_layers_before(config, config->num_layers);
}

int64_t config_routed_layers(const struct config *config) {
    bool has_experts = config->num_layers > 0 && config_layer_has_experts(config, config->num_layers - 1);
    return config_expert_layers(config) + (has_experts ? config->mtp_num_layers : 0);
}

bool config_upcycles_load(const struct config *config) {
    return config->moe_use_upcycling && !config->pretrained_checkpoint;
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
