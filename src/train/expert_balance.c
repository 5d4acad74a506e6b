// Tokens of experts as metrics. See expert_balance.h.
#include "train/expert_balance.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void expert_balance_open(struct expert_balance *balance, const struct config *config) {
    *balance = (struct expert_balance){.layers = config_routed_layers(config), .experts = config->model.num_experts};
    if (balance->layers == 0)
        return;
    balance->sums = memory_alloc(sizeof *balance->sums * (size_t)(balance->layers * balance->experts));
    balance->each = memory_alloc(sizeof *balance->each * (size_t)balance->layers);
    int64_t at = 0;
    OWNED bool *has_experts = config_list_expert_layers(config);
    for (int64_t layer = 0; layer < config->model.num_layers; layer++)
        if (has_experts[layer])
            balance->each[at++].layer = layer;
    for (int64_t layer = config->model.num_layers; at < balance->layers; layer++)
        balance->each[at++].layer = layer;
    expert_balance_clear(balance);
}

void expert_balance_close(struct expert_balance *balance) {
    free(balance->sums);
    free(balance->each);
    *balance = (struct expert_balance){0};
}

void expert_balance_add(struct expert_balance *balance, const float *counts) {
    for (int64_t i = 0; counts && i < balance->layers * balance->experts; i++)
        balance->sums[i] += (double)counts[i];
}

void expert_balance_clear(struct expert_balance *balance) {
    for (int64_t i = 0; i < balance->layers * balance->experts; i++)
        balance->sums[i] = 0;
}

// False if no token was counted.
static bool describe(struct metrics_expert_layer *layer, const float *counts, const double *sums, int64_t experts) {
    double most = 0, all = 0;
    layer->idle = 0;
    for (int64_t e = 0; e < experts; e++) {
        double tokens = counts ? (double)counts[e] : sums[e];
        most = tokens > most ? tokens : most;
        all += tokens;
        layer->idle += tokens == 0;
    }
    layer->balance = most * (double)experts / all;
    return all > 0;
}

void expert_balance_tell(struct expert_balance *balance, const float *counts, struct metrics *metrics) {
    double sum = 0;
    int64_t idle = 0;
    metrics->expert_layers = NULL;
    metrics->expert_layer_count = 0;
    for (int64_t i = 0; i < balance->layers; i++) {
        int64_t first = i * balance->experts;
        if (!describe(&balance->each[i], counts ? counts + first : NULL, balance->sums + first, balance->experts))
            return;
        sum += balance->each[i].balance;
        idle += balance->each[i].idle;
    }
    metrics->expert_layers = balance->each;
    metrics->expert_layer_count = (int)balance->layers;
    metrics->expert_balance = balance->layers > 0 ? sum / (double)balance->layers : 0;
    metrics->idle_experts = idle;
}
