// Code common to routing and balancing of experts: scores of a row of logits, and its largest numbers. Private to
// ops/cpu.
#ifndef OPS_CPU_ROUTER_H
#define OPS_CPU_ROUTER_H

#include "ops/cpu/cpu.h"

static const float ROUTER_EPSILON = 1e-20f;  // added to sums of scores before dividing by them

// p = softmax(x); returns logsumexp(x). p may be x.
float router_softmax(float *p, const float *x, int64_t count);
// The scores of logits by ROUTER_SIGMOID or ROUTER_SQRT_SOFTPLUS, and their slopes.
void router_scores(enum router_score score, float *s, const float *x, int64_t count);
float router_slope(enum router_score score, float x);

// The largest keys so far in descending order; of equal keys the lower index first.
struct router_list {
    int32_t best[ROUTER_MOST_EXPERTS];  // a group may be ranked by all of its experts
    int64_t count;
};
// Adds indices [range.first, range.end), higher than all added before, to a list of at most `most`.
void router_choose(struct router_list *list, int64_t most, const float *keys, struct cpu_range range);
// NaN becomes larger than anything.
void router_keys(float *keys, const float *x, int64_t count);

#endif
