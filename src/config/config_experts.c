// Combined meaning of the flags of mixtures of experts. See config_experts.h.
#include "config/config_experts.h"
#include "base/memory.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

bool *config_list_expert_layers(const struct config *config) {
    // A T5 has no experts, but its decoder may have other layers than num_layers.
    int64_t most = config_decoder_layers(config) > config->model.num_layers ? config_decoder_layers(config)
                                                                            : config->model.num_layers;
    bool *layers = memory_alloc((size_t)most + 1);
    if (config->model.num_experts == 0 ||
        config_parse_layer_freq(config->model.moe_layer_freq, layers, config->model.num_layers) < 0)
        memset(layers, 0, (size_t)most + 1);
    return layers;
}

int64_t config_expert_layers(const struct config *config) {
    bool *layers = config_list_expert_layers(config);
    int64_t count = 0;
    for (int64_t i = 0; i < config->model.num_layers; i++)
        count += layers[i];
    free(layers);
    return count;
}

int64_t config_routed_layers(const struct config *config) {
    bool *layers = config_list_expert_layers(config);
    bool has_experts = config->model.num_layers > 0 && layers[config->model.num_layers - 1];
    free(layers);
    return config_expert_layers(config) + (has_experts ? config->model.mtp_num_layers : 0);
}

bool config_has_dense_mlps(const struct config *config) {
    return config_expert_layers(config) < config->model.num_layers ||
           config->model.moe_shared_expert_intermediate_size > 0;
}

bool config_upcycles_load(const struct config *config) {
    return config->run.moe_use_upcycling && !config->run.pretrained_checkpoint;
}

bool config_same_expert_layers(const struct config *a, const struct config *b) {
    if (a->model.num_layers != b->model.num_layers)
        return false;
    bool *of_a = config_list_expert_layers(a), *of_b = config_list_expert_layers(b);
    bool is_same = memcmp(of_a, of_b, (size_t)a->model.num_layers * sizeof *of_a) == 0;
    free(of_a);
    free(of_b);
    return is_same;
}

int64_t config_group_best(const struct config *config) {
    if (config->model.moe_router_group_best > 0 || config->model.moe_router_group_topk == 0)
        return config->model.moe_router_group_best;
    return config->model.moe_router_topk / config->model.moe_router_group_topk;
}

double config_router_factor(const struct config *config) {
    return config->model.moe_router_topk_scaling_factor > 0 ? config->model.moe_router_topk_scaling_factor : 1;
}

double config_expert_capacity(const struct config *config) {
    return config->model.moe_expert_capacity_factor > 0 ? config->model.moe_expert_capacity_factor : 0;
}

int64_t config_expert_width(const struct config *config) {
    return config->model.moe_ffn_hidden_size > 0 ? config->model.moe_ffn_hidden_size : config->model.ffn_hidden_size;
}

struct config_balance config_balance(const struct config *config) {
    struct config_balance balance = {.z = config->model.moe_z_loss_coeff};
    const struct string_list *types = &config->model.moe_router_load_balancing_type,
                             *coeffs = &config->model.moe_aux_loss_coeff;
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

bool config_has_sinkhorn(const struct config *config) {
    const struct string_list *types = &config->model.moe_router_load_balancing_type;
    bool has_it = false;
    for (int64_t i = 0; i < types->count && config->model.num_experts > 0; i++)
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
