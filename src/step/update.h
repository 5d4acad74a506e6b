// What comes before the passes of a step and after them. Only for the files of this folder.
#ifndef STEP_UPDATE_H
#define STEP_UPDATE_H

#include "step/internal.h"

// After the parameters were declared: lays them out, and decides which rank holds which part of the optimizer, and in
// which buckets gradients are reduced.
void step_divide_optimizer(struct step *step);
// The optimizer of a group of parameters.
const struct optimizer_rule *step_rule(const struct step *step, int group);
// Before the first pass: clears what the passes add to, and prepares the weights for them. Only queues work on the
// device.
void step_begin(struct step *step, bool is_learning);
// Whether no other rank takes part in the step. Its update then may be replayed with its last pass.
bool step_is_alone(const struct step *step);
// After the last backward pass: starts the reductions that have not been started yet.
void step_reduce_gradients(struct step *step);
// Sums losses and counts over all ranks.
void step_sum_totals(struct step *step);
// Then, in training: moves the bias of routers towards experts that got few tokens.
void step_balance_experts(struct step *step);
// The rest follows once gradients are reduced; on a rank that is alone it only queues work on the device. First the
// norm of the gradients and their scale; then the update of a bucket, in the order in which the next forward pass needs
// them, so that the first values travel while the last are computed; or of everything, if no ranks split the update.
void step_clip(struct step *step);
void step_update(struct step *step, int64_t n);

#endif
