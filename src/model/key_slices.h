// Keys and values of heads that several ranks share, because there are more tensor-parallel ranks than such heads. If r
// neighbouring ranks share a head, each holds 1 / r of the channels' rows. No row of a projection is held twice, so
// weights, gradients, optimizer states and checkpoints need no special case. Each of the ranks attends with its own
// queries and the whole head: keys and values are gathered after the projection, and in backward their gradients are
// summed and split before it.
//
// Attention's packed tensor has queries (or nothing), then the keys and values of one head, 2 D columns. The slices
// have the queries and 2 D / r columns. If heads are not shared, both are the same tensor.
#ifndef MODEL_KEY_SLICES_H
#define MODEL_KEY_SLICES_H

#include "model/attention.h"

// The tensor of `columns` columns that a projection writes before key_slices_gather: in scratch, or `packed` itself.
struct tensor key_slices_of(const struct attention *attention, const struct pass *pass, struct tensor packed,
                            int64_t columns);
// Completes `packed` from the slices of all ranks that share the head.
void key_slices_gather(const struct attention *attention, const struct pass *pass, struct tensor packed,
                       struct tensor slices);
// The gradient of this rank's slices, of `columns` columns, from each rank's gradient of the whole head.
struct tensor key_slices_scatter(const struct attention *attention, const struct pass *pass, struct tensor dpacked,
                                 int64_t columns);

#endif
