// The parts of this build, chosen by CMake, and the libraries that it loads at run time.
#ifndef CLI_FEATURES_H
#define CLI_FEATURES_H

#include "comm/comm.h"
#include "ops/device.h"
#include <stdbool.h>
#include <stddef.h>

struct feature {
    const char *name;
    bool is_in;
};

extern const struct feature features[];
extern const size_t feature_count;
bool feature_is_in(const char *name);

enum { MOST_LIBRARIES = DEVICE_MOST_LIBRARIES + WORLD_MOST_LIBRARIES + 2 };

// Lets variables of the environment locate libraries. Call before anything is loaded.
void libraries_read_environment(void);
// Fills the list, returns their number.
int libraries_list(const struct library **list);

#endif
