// Learning rate and weight decay as functions of the samples used so far. They are pure functions: a resumed run needs
// no schedule state but that number.
#ifndef OPTIM_SCHEDULE_H
#define OPTIM_SCHEDULE_H

#include "config/config.h"

// For the update made after `samples` samples of successful updates.
double schedule_lr(const struct config *config, int64_t samples);
// The same for the input embedding and the output layer, which --decoupled-lr gives a rate of their own.
double schedule_decoupled_lr(const struct config *config, int64_t samples);
double schedule_weight_decay(const struct config *config, int64_t samples);

#endif
