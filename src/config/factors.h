// PATTERN=FACTOR, the items of --lr-mult and --wd-mult. A pattern matches names of parameters as a shell matches file
// names: * is any text, dots included, ? one letter, [ab], [a-z] and [!ab] one letter of a class.
#ifndef CONFIG_FACTORS_H
#define CONFIG_FACTORS_H

#include "config/flag.h"

struct factor {
    const char *pattern;  // inside the item
    size_t length;
    double value;  // from 0 to FACTOR_MOST
};
#define FACTOR_MOST 1e6

// False if the item is not a pattern and a factor.
bool factor_read(const char *item, struct factor *factor);
bool factor_matches(const struct factor *factor, const char *name);
// The factor of the last item whose pattern matches the name, or `otherwise`. Items must be well-formed.
double factors_of(const struct string_list *items, const char *name, double otherwise);

#endif
