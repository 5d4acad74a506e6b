// Room for a checkpoint. Internal to this folder.
#ifndef CHECKPOINT_SPACE_H
#define CHECKPOINT_SPACE_H

#include <stdint.h>

// -1 with a message, if `available` bytes do not hold files of `bytes` and the small ones besides.
int space_check(const char *folder, uint64_t bytes, uint64_t available);
// The same if this process may not write a file of `bytes` (ulimit -f).
int space_check_limit(const char *folder, uint64_t bytes);

#endif
