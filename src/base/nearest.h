// The name that a mistyped one probably meant.
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *name;  // as typed; _ and - are the same letter
    size_t length;
    const char *best;  // NULL if no candidate is near enough
    int distance;
};

struct nearest nearest_begin(const char *name, size_t length);
void nearest_consider(struct nearest *nearest, const char *candidate);

#endif
