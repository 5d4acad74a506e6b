// Combined meaning of the flags of mixtures of experts. A part of config.h, which includes it.
#ifndef CONFIG_CONFIG_EXPERTS_H
#define CONFIG_CONFIG_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

struct config;

// The layers with experts, their number, the width of one expert, and the losses that balance experts.
bool *config_list_expert_layers(const struct config *config);  // one value for each layer of the decoder; to be freed
int64_t config_expert_layers(const struct config *config);
// The number including the depths of multi-token prediction, which are like the last layer.
int64_t config_routed_layers(const struct config *config);
// Whether some layers have MLPs for all tokens: those without experts, and shared experts.
bool config_has_dense_mlps(const struct config *config);
// Whether `load` is the dense checkpoint of --moe-use-upcycling; if not, `pretrained_checkpoint` may be.
bool config_upcycles_load(const struct config *config);
int64_t config_expert_width(const struct config *config);
bool config_same_expert_layers(const struct config *a, const struct config *b);
int64_t config_group_best(const struct config *config);
double config_router_factor(const struct config *config);    // of the chosen experts' weights
double config_expert_capacity(const struct config *config);  // as a factor of the mean; 0: none
struct config_balance {
    double batch, sequence, global, z;  // coefficients; 0: no such loss
};
// Whether rows choose experts by Sinkhorn's algorithm.
bool config_has_sinkhorn(const struct config *config);
struct config_balance config_balance(const struct config *config);

// Number of tensor-parallel ranks that split each expert.
int64_t config_expert_slices(const struct config *config);
// Number of ranks along each axis that the experts are split over: first ranks of the tensor axis that do not split the
// same expert, then context-parallel, then data-parallel ranks, as in Megatron. -1 without a message if they do not
// divide the axes.
struct config_expert_ranks {
    int64_t tensor, context, data;
};
int config_expert_ranks(const struct config *config, int64_t data_ranks, struct config_expert_ranks *ranks);

#endif
