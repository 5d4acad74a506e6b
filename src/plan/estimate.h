// A guess of a layout's step time, computed in a microsecond, which decides the order of planning and which layouts are
// not worth a plan; and a lower bound on the layout's memory.
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
// These and activations, a fifth less than in plans: a lower bound for the fullest rank.
double estimate_least_bytes(const struct estimator *estimator, const struct plan_layout *layout);

#endif
