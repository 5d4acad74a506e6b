// Room for a checkpoint. Internal to this folder.
#ifndef STORE_SPACE_H
#define STORE_SPACE_H

#include <stdint.h>

// -1 with a message if `available` bytes are not enough for files of `bytes` and the small ones.
int space_check(const char *folder, uint64_t bytes, uint64_t available);
// -1 with a message if this process may not write a file of `bytes` (ulimit -f).
int space_check_limit(const char *folder, uint64_t bytes);

#endif
