// Masks of attention, changes to scores, and the largest scores. A part of ops.h, whose rules hold here.
#ifndef OPS_OPS_ATTENTION_H
#define OPS_OPS_ATTENTION_H

#include "tensor/tensor.h"

// A mask restricts a query to the range of keys that all its rules allow. A query that sees no key gets the output 0
// and a log-sum-exp of -infinity, and has no gradient.
struct attention_mask {
    int64_t window;            // if causal: only the last `window` of the visible keys; 0 for all
    struct tensor key_counts;  // (B) i32 or none: keys of sample b from key_counts[b] on are padding
    // (B * Tq) i32 or none: the first visible key (where the query's document begins). It never decreases along the
    // queries of a sample, so that keys outside of a document are skipped, not computed and masked.
    struct tensor first_keys;
    // (H, Tq + Tk - 1) fp32 or none: column j - i + Tq - 1 is added to the scaled score of query i and key j.
    struct tensor relative_bias;
};
// Further changes to scores. The cap is applied right after the scale; it excludes a relative bias.
struct attention_scores {
    float cap;            // a score s becomes cap * tanh(s / cap); 0 for none
    struct tensor sinks;  // (H) or none: per head, the score of an extra key without a value that all queries see
};
static inline bool attention_has_plain_scores(const struct attention_scores *scores) {
    return scores->cap == 0 && !scores->sinks.data;
}
static inline bool attention_has_mask(const struct attention_mask *mask) {
    return mask->window > 0 || mask->key_counts.data || mask->first_keys.data || mask->relative_bias.data;
}

// Raises largest[h] to the largest scaled score of head h, over all queries and the keys that they see. Scores below 0
// and NaN do not count.
struct op_largest_scores {
    struct tensor largest;  // (H) fp32, at least 0
    struct tensor q, k;     // (B, Tq, H, D), (B, Tk, G, D), as in op_attention_forward
    float scale;
    bool is_causal;
    struct attention_mask mask;  // without a relative bias
};

#endif
