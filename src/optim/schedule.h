// Learning rate and weight decay as functions of the samples used so far. They are pure functions: that number is all
// the schedule state of a resumed run.
#ifndef OPTIM_SCHEDULE_H
#define OPTIM_SCHEDULE_H

#include "config/config.h"

// The learning rate of the update after `samples` samples of successful updates.
double schedule_lr(const struct config *config, int64_t samples);
// The rate of the input embedding and the output layer, which is separate with --decoupled-lr.
double schedule_decoupled_lr(const struct config *config, int64_t samples);
double schedule_weight_decay(const struct config *config, int64_t samples);

#endif
