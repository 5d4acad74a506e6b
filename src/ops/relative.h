// Which bucket of distances T5 puts a distance into (Raffel et al. 2020): small ones have a bucket each, larger ones
// share buckets whose borders grow geometrically up to max_distance. The borders are computed in fp32 in the order of
// operations that trained models were made with, on the host and for every backend alike. Private to ops/.
#ifndef OPS_RELATIVE_H
#define OPS_RELATIVE_H

#include "ops/ops.h"

// The rule as borders: of the buckets of one side, bucket b holds distances from first[b] up to first[b + 1].
struct relative_borders {
    int32_t side;  // buckets of one side
    int32_t first[RELATIVE_MOST_BUCKETS];
};

void relative_borders(struct relative_borders *borders, const struct relative_rule *rule);
// The bucket of a distance, key's position minus query's.
int64_t relative_bucket(const struct relative_borders *borders, bool is_bidirectional, int64_t distance);

#endif
