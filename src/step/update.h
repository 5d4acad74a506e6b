// The work of a step before and after its passes. Only for the files of this folder.
#ifndef STEP_UPDATE_H
#define STEP_UPDATE_H

#include "step/internal.h"

// After the parameters were declared: lays them out, and determines each rank's part of the optimizer and the buckets
// in which gradients are reduced.
void step_divide_optimizer(struct step *step);
// The optimizer of a group of parameters.
const struct optimizer_rule *step_rule(const struct step *step, int group);
// Before the first pass: clears the sums and gradients that passes add to, and prepares the weights. Only queues work
// on the device.
void step_begin(struct step *step, bool is_learning);
// Whether this rank is alone. Its update may then be replayed with its last pass.
bool step_is_alone(const struct step *step);
// After the last backward pass: starts the reductions that have not been started yet.
void step_reduce_gradients(struct step *step);
// Sums losses and counts over all ranks.
void step_sum_totals(struct step *step);
// Then, in training: updates routers' biases in favour of experts that got few tokens.
void step_balance_experts(struct step *step);
// Called once gradients are reduced; on a rank that is alone they only queue work on the device. First the norm of the
// gradients and their scale; then the update of each bucket, in the order in which the next forward pass needs them, so
// that the first values are sent while the last are computed; or of everything, if no ranks split the update.
void step_clip(struct step *step);
void step_update(struct step *step, int64_t n);

#endif
