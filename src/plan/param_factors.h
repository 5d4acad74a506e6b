// Factors of the learning rate and the weight decay by names of parameters: --lr-mult and --wd-mult.
#ifndef PLAN_PARAM_FACTORS_H
#define PLAN_PARAM_FACTORS_H

#include "config/config.h"
#include "parallel/param.h"

// For step_options.take_factors. A pattern that matches no parameter of any stage is an error.
int factors_take(const struct config *config, const struct param_list *all, struct param_list *own);

#endif
