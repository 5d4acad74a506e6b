// The buckets into which T5 sorts distances (Raffel et al. 2020): small distances have a bucket each, larger ones share
// buckets whose borders grow geometrically up to max_distance. The borders are computed in fp32, in the order of
// operations that trained models used, on the host for all backends. Private to ops/.
#ifndef OPS_RELATIVE_H
#define OPS_RELATIVE_H

#include "ops/ops.h"

// The rule as borders: on one side, bucket b holds the distances from first[b] up to first[b + 1].
struct relative_borders {
    int32_t side;  // buckets on one side
    int32_t first[RELATIVE_MOST_BUCKETS];
};

void relative_borders(struct relative_borders *borders, const struct relative_rule *rule);
// The bucket of a distance (key position minus query position).
int64_t relative_bucket(const struct relative_borders *borders, bool is_bidirectional, int64_t distance);

#endif
