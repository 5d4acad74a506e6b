// The libraries that this build loads at run time, for commands that list a machine's libraries.
#ifndef CLI_LIBRARIES_H
#define CLI_LIBRARIES_H

#include "comm/comm.h"
#include "ops/device.h"

enum { MOST_LIBRARIES = DEVICE_MOST_LIBRARIES + WORLD_MOST_LIBRARIES + 2 };

// Lets variables of the environment locate libraries. Call before anything is loaded.
void libraries_read_environment(void);
// Fills the list, returns their number.
int libraries_list(const struct library **list);

#endif
