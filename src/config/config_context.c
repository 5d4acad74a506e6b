// The context-parallel ranks that exchange heads. See config_context.h.
#include "config/config_context.h"

#include <stdlib.h>
#include <string.h>

int config_hierarchy_size(const char *text, int64_t *size) {
    char *end = NULL;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != 0 || value < 1 || value > INT32_MAX)
        return -1;
    *size = value;
    return 0;
}

int config_hierarchy(const struct config *config, int64_t sizes[2]) {
    const struct string_list *given = &config->machine.hierarchical_context_parallel_sizes;
    if (given->count != 2)
        return -1;
    for (int i = 0; i < 2; i++)
        if (config_hierarchy_size(given->items[i], &sizes[i]) < 0)
            return -1;
    return 0;
}

bool config_has_cp_comm_type(const struct config *config, const char *type) {
    bool has_it = false;
    for (int64_t i = 0; i < config->machine.cp_comm_type.count; i++)
        has_it |= strcmp(config->machine.cp_comm_type.items[i], type) == 0;
    return has_it;
}

int64_t config_layer_head_ranks(const struct config *config, int64_t layer) {
    const struct string_list *types = &config->machine.cp_comm_type;
    int64_t sizes[2];
    if (types->count == 0 || config->machine.context_parallel_size <= 1)
        return 1;
    const char *type = types->items[layer < types->count ? layer : types->count - 1];
    if (strcmp(type, "a2a") == 0)
        return config->machine.context_parallel_size;
    return strcmp(type, "a2a+p2p") == 0 && config_hierarchy(config, sizes) == 0 ? sizes[0] : 1;
}

int64_t config_head_ranks(const struct config *config) {
    int64_t most = 1;
    for (int64_t i = 0; i < config->machine.cp_comm_type.count; i++) {
        int64_t ranks = config_layer_head_ranks(config, i);
        most = ranks > most ? ranks : most;
    }
    return most;
}

int64_t config_near_ranks(const struct config *config) {
    int64_t sizes[2];
    if (config->machine.context_parallel_size <= 1 || !config_has_cp_comm_type(config, "a2a+p2p") ||
        config_hierarchy(config, sizes) < 0)
        return 1;
    return sizes[0] < config->machine.context_parallel_size ? sizes[0] : 1;
}
