// A guess of a layout's step time in a microsecond, which decides in which order layouts are planned and which are not
// worth it; and the least memory that it can need.
#ifndef PLAN_ESTIMATE_H
#define PLAN_ESTIMATE_H

#include "model/census.h"
#include "plan/layout.h"

struct estimator {
    const struct layout_space *space;
    struct census census;
    double parameters, of_experts;
};
void estimator_open(struct estimator *estimator, const struct layout_space *space);
double estimate_seconds(const struct estimator *estimator, const struct plan_layout *layout);
// Weights, gradients and optimizer state of an average rank.
double estimate_state_bytes(const struct estimator *estimator, const struct plan_layout *layout);
// These and activations, a fifth less than plans find: what the fullest rank needs at least.
double estimate_least_bytes(const struct estimator *estimator, const struct plan_layout *layout);

#endif
