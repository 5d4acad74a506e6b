// --inject: faults as text, KIND[:KEY=VALUE]…[:every-start], and faults drawn from a seed. See base/fault.h for their
// effects.
#ifndef CONFIG_INJECT_H
#define CONFIG_INJECT_H

#include "base/fault.h"
#include "config/config.h"

// Parses one fault. The error names the character and the remedy.
int inject_parse(const char *text, struct fault *fault);
// All faults of a validated configuration, to be freed; the same on every rank and at every start. -1 after error_set.
int inject_list(const struct config *config, struct fault **faults, int64_t *count);
// Arms the faults of this rank. Their record is kept in the folder of --save.
int inject_open(const struct config *config, int rank);
#define INJECT_RECORD "injected-faults.txt"

// Output of --inject list: kinds, phases, keys.
void inject_describe(struct buffer *out);

#endif
