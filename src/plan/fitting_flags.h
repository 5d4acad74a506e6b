// Finds flags that would make a too large step fit. Internal to this folder.
#ifndef PLAN_FITTING_FLAGS_H
#define PLAN_FITTING_FLAGS_H

#include "plan/setup.h"

// Appends which flags would make a step fit that needs `total` bytes where there are `room`. Each proposal was measured
// on paper.
void memory_remedies(const struct setup *setup, size_t total, size_t room, struct buffer *out);

#endif
