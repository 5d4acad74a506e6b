// Buckets of distances. See formulas.h.
#include "ops/formulas.h"
#include <math.h>

// The bucket of a distance that is not negative, within one side.
static int64_t side_bucket(const struct relative_rule *rule, int64_t side, int64_t distance) {
    int64_t exact = side / 2;
    if (distance < exact)
        return distance;
    float ratio = logf((float)distance / (float)exact);
    float place = ratio / (float)log((double)rule->max_distance / (double)exact) * (float)(side - exact);
    int64_t bucket = exact + (int64_t)place;
    return bucket < side - 1 ? bucket : side - 1;
}

void relative_borders(struct relative_borders *borders, const struct relative_rule *rule) {
    int64_t side = rule->is_bidirectional ? rule->buckets / 2 : rule->buckets;
    borders->side = (int32_t)side;
    for (int64_t b = 0; b < side; b++)
        borders->first[b] = INT32_MAX;
    // Buckets never decrease with distance, so one walk finds the first distance of each. A bucket that no distance
    // reaches stays empty.
    for (int64_t distance = 0, next = 0; next < side && distance <= rule->max_distance + 1; distance++)
        for (int64_t bucket = side_bucket(rule, side, distance); next <= bucket; next++)
            borders->first[next] = (int32_t)distance;
}

int64_t relative_bucket(const struct relative_borders *borders, bool is_bidirectional, int64_t distance) {
    int64_t start = is_bidirectional && distance > 0 ? borders->side : 0;
    int64_t far = distance > 0 ? (is_bidirectional ? distance : 0) : -distance;
    int64_t bucket = 0;
    while (bucket + 1 < borders->side && far >= borders->first[bucket + 1])
        bucket++;
    return start + bucket;
}
