// Initial values. An element's value depends only on the seed, the parameter's name and the index in the whole tensor,
// so a rank that holds a slice draws exactly the numbers that a single rank would have there.
#ifndef MODEL_INIT_H
#define MODEL_INIT_H

#include "parallel/param.h"

struct device;

// Sets the values of all parameters, and of the fp32 master copy (a flat buffer in the list's layout) if there is one.
void init_params(struct device *device, const struct param_list *params, struct tensor master, uint64_t seed);

#endif
