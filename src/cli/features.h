// Features of this build, chosen by CMake; features.c is made from features.c.in.
#ifndef CLI_FEATURES_H
#define CLI_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

struct feature {
    const char *name;
    bool is_in;
};

extern const struct feature features[];
extern const size_t feature_count;

#endif
