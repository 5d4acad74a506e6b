// Checks that all ranks see the same datasets. Each of the ranks that share a sample reads it by itself. If machines
// have their own copies and one of them is outdated, the ranks would train on rows that do not belong together, and
// nothing else would reveal it.
#ifndef TRAIN_SAME_DATA_H
#define TRAIN_SAME_DATA_H

#include "comm/comm.h"

// All ranks of the group call with the same number of prefixes. Returns -1 on all of them if any rank's PREFIX.idx or
// PREFIX.bin differs from the first rank's; the message names the rank and the file. Compares the sizes and a few
// pieces of each file, spread over its length, so large files take no longer. A file that no rank has is left to
// whoever opens it.
int same_data_check(struct group *all, const char *const *prefixes, int64_t count);

#endif
