// The rows that a rank brings to experts, before some of them go to other ranks (dispatch.h).
//
// Without sequence parallelism these are all rows of the residual stream. With it, each tensor-parallel rank routes its
// own n rows, and those that split the same experts gather theirs: N = n * slices rows, all of the stream if all
// tensor-parallel ranks split experts, or n if none do. Ranks that split experts get the same rows, send them to the
// same places, and the results are summed.
#ifndef MODEL_EXPERT_ROWS_H
#define MODEL_EXPERT_ROWS_H

#include "model/choices.h"

// The number N of rows.
int64_t expert_rows_count(const struct pass *pass);
// Whether these are the rows of all tensor-parallel ranks.
bool expert_rows_are_whole(const struct pass *pass);
// Whether this is the first of the ranks that split the same experts; it adds terms that are not split.
bool expert_rows_is_first(const struct pass *pass);
// (N, …) from this rank's (n, …), in memory from the arena; x itself if nothing is gathered.
struct tensor expert_rows_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name);
// All ranks' rows of a micro-batch from this rank's (n, …), in scratch and in the order of one rank that has them all;
// x itself if it has them.
struct tensor expert_rows_gather_all(const struct pass *pass, struct tensor x, const char *name);
// Sums `whole` (N, …) over the ranks that split the same experts: `out` gets this rank's (n, …), and is `whole` if
// nothing was gathered.
void expert_rows_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name);

// Most slots of a micro-batch that an expert takes, counted as in Megatron; 0: all. Evaluation and generation drop
// nothing, or results would depend on padding and on which sequences share a batch.
int64_t expert_rows_capacity(const struct pass *pass, const struct expert_choices *choices);
// Whether other ranks have other rows of the micro-batch, so that an expert's capacity is shared by them.
bool expert_rows_share_capacity(const struct pass *pass);
// Drops slots beyond the capacity, which counts all ranks' slots in the order of one rank that has them all: from
// experts (n, K) i32 with weights (n, K) fp32, returns experts, negative for dropped slots, in scratch.
struct tensor expert_rows_keep(const struct pass *pass, const struct expert_choices *choices, struct tensor experts,
                               struct tensor weights);

#endif
