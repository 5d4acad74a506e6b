// Checks that all ranks see the same datasets. Each of the ranks that share a sample reads it by itself. If machines
// have their own copies and one of them is outdated or damaged, the ranks would train on rows that do not belong
// together, and nothing else would reveal it.
//
// Two checks: one at the start, which costs little and finds whatever differs in much of a file, and one before every
// save, which leaves no doubt about what was trained on.
#ifndef TRAIN_SAME_DATA_H
#define TRAIN_SAME_DATA_H

#include "parallel/mesh.h"

// All ranks of the group call with the same number of prefixes. Returns -1 on all of them if any rank's PREFIX.idx or
// PREFIX.bin differs from the first rank's; the message names the rank and the file. Compares the sizes, all of a file
// up to 32 MiB, and of a larger one a piece of 4 KiB from each 1024th of it, at places that are drawn again at each
// call: a difference that covers one of these parts, as any of two 1024ths does, is always found, another sometimes. A
// file that no rank has is left to whoever opens it.
int same_data_check(struct group *all, const char *const *prefixes, int64_t count);
// All ranks call with the digest of the rows they have taken so far (loader_digest). Returns -1 on all of them if ranks
// that share rows have read different ones; the message names the first that has.
int same_data_check_rows(const struct mesh *mesh, uint64_t digest);

#endif
