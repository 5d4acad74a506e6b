// Initial values, drawn by what an element is: seed, name of the parameter, index in the whole tensor. A rank that
// holds a slice draws exactly the numbers a single rank would have there.
#ifndef MODEL_INIT_H
#define MODEL_INIT_H

#include "parallel/param.h"

struct device;

// Fills the values of all parameters, and the fp32 master copy (a flat buffer of the list's layout) where there is one.
void init_params(struct device *device, const struct param_list *params, struct tensor master, uint64_t seed);

#endif
