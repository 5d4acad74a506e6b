// Attention across the context-parallel ranks of a layer (--cp-comm-type): all gather keys and values, all exchange
// heads (a2a), or groups of neighbours exchange heads and gather keys and values of their heads from the other groups
// (a2a+p2p). The first is the last with groups of one rank, the second with one group of all.
#ifndef CONFIG_CONFIG_CONTEXT_H
#define CONFIG_CONFIG_CONTEXT_H

#include "config/config.h"

// Number of neighbouring ranks of a layer that exchange heads, 1 if none do; and the maximum over all layers.
int64_t config_layer_head_ranks(const struct config *config, int64_t layer);
int64_t config_head_ranks(const struct config *config);
// Both for layers with several groups of several ranks each (a2a+p2p); 1 if there is no such layer.
int64_t config_near_ranks(const struct config *config);
// Whether some layer has this --cp-comm-type.
bool config_has_cp_comm_type(const struct config *config, const char *type);
// The two --hierarchical-context-parallel-sizes: the ranks of a group, and the groups. -1 if they are not two sizes.
int config_hierarchy(const struct config *config, int64_t sizes[2]);
// One of them: a whole number of 1 or more. -1 for any other text.
int config_hierarchy_size(const char *text, int64_t *size);

#endif
