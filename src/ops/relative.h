// The buckets into which T5 sorts distances (Raffel et al. 2020): small distances have a bucket each, larger ones share
// buckets whose borders grow geometrically up to max_distance. The borders are computed in fp32, in the order of
// operations that trained models used, on the host for all backends. Private to ops/.
#ifndef OPS_RELATIVE_H
#define OPS_RELATIVE_H

#include "ops/ops.h"
#include <math.h>
#include <stdint.h>

// The rule as borders: on one side, bucket b holds the distances from first[b] up to first[b + 1].
struct relative_borders {
    int32_t side;  // buckets on one side
    int32_t first[RELATIVE_MOST_BUCKETS];
};

void relative_borders(struct relative_borders *borders, const struct relative_rule *rule);
// The bucket of a distance (key position minus query position).
int64_t relative_bucket(const struct relative_borders *borders, bool is_bidirectional, int64_t distance);

// The slopes of ALiBi (Press et al. 2022), for both backends. If the number of heads n is a power of two, slopes are
// the geometric sequence from 2^(-8 / n) to 2^-8. Otherwise n is the next smaller power of two: the first n heads have
// its slopes, the others every second slope of 2 n heads, from the first one on.
#ifdef __CUDACC__
#define ALIBI_INLINE static __host__ __device__ __forceinline__
#else
#define ALIBI_INLINE static inline
#endif

ALIBI_INLINE float alibi_slope(int64_t head, int64_t heads) {
    int64_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    double exponent = head < n ? 8 * (double)(head + 1) / (double)n : 4 * (double)(2 * (head - n) + 1) / (double)n;
    return (float)exp2(-exponent);
}

#endif
