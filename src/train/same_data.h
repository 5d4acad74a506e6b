// Proving that all ranks see the same datasets. Ranks that share a sample each read it themselves; where machines have
// copies of their own and one of them is an old one, they would train on rows that do not belong together, and nothing
// else would tell.
#ifndef TRAIN_SAME_DATA_H
#define TRAIN_SAME_DATA_H

#include "comm/comm.h"

// All ranks of the group call with the same number of prefixes. -1 on all of them where one has another PREFIX.idx or
// PREFIX.bin than the first rank: the message names rank and file. The sizes are compared, and a few pieces of each
// file, spread over all of it; so it takes no longer for large ones. A file that nobody has is left to whoever opens
// it.
int same_data_check(struct group *all, const char *const *prefixes, int64_t count);

#endif
