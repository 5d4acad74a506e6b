// The libraries that this build loads at run time, for commands that say what a machine has.
#ifndef CLI_LIBRARIES_H
#define CLI_LIBRARIES_H

#include "comm/comm.h"
#include "ops/device.h"

enum { MOST_LIBRARIES = DEVICE_MOST_LIBRARIES + WORLD_MOST_LIBRARIES + 2 };

// Lets libraries be found by variables of the environment. Call before anything is loaded.
void libraries_read_environment(void);
// Fills the list, returns how many there are.
int libraries_list(const struct library **list);

#endif
