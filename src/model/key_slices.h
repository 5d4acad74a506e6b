// Keys and values of heads that several ranks share, because there are more tensor-parallel ranks than such heads. Of
// the head that r neighbouring ranks share, each holds 1 / r of the channels' rows: no row of a projection is held
// twice, so weights, their gradients, optimizer states and checkpoints are those of any other split. Each of the ranks
// attends with its own queries and the whole head: they gather its keys and values after the projection, and their
// parts of the gradients are summed and split before it.
//
// A packed tensor has queries (or nothing), then the keys and values of one head, 2 D columns, as attention takes it.
// The slices have the queries and 2 D / r columns. If heads are not shared, both are the same tensor.
#ifndef MODEL_KEY_SLICES_H
#define MODEL_KEY_SLICES_H

#include "model/attention.h"

// The tensor that a projection of `columns` columns writes to become `packed`: from scratch, or `packed` itself.
struct tensor key_slices_of(const struct attention *attention, const struct pass *pass, struct tensor packed,
                            int64_t columns);
// Completes `packed` from the slices of all ranks that share the head.
void key_slices_gather(const struct attention *attention, const struct pass *pass, struct tensor packed,
                       struct tensor slices);
// The gradient of this rank's slices, of `columns` columns, from what each rank has for the whole head.
struct tensor key_slices_scatter(const struct attention *attention, const struct pass *pass, struct tensor dpacked,
                                 int64_t columns);

#endif
