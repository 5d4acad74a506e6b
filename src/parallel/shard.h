// Who holds which slice of a tensor. This is the only place that answers the question: initial values, tensor
// parallelism, the distributed optimizer, checkpoints and their resharding all ask here.
//
// A tensor is split along one dimension into `parts` slices. They are equal, except that the last ones are shorter, or
// empty, if the length cannot be divided evenly (a vocabulary). If the dimension consists of segments (q, k and v rows
// of a packed projection, gate and up rows of a gated MLP), every segment is split on its own, so that each rank holds
// the q, k and v of its heads. Then the local tensor keeps the order of the segments, and every segment must divide
// evenly. A slice is described by runs: ranges of elements that are contiguous both in the whole tensor and in the
// slice.
//
// The tensors of experts are split twice: their first dimension into `outer` parts, experts after experts, and what
// each of those holds along another dimension as above. Slices are numbered with the outer part slowest.
#ifndef PARALLEL_SHARD_H
#define PARALLEL_SHARD_H

#include "tensor/tensor.h"

enum { SHARD_MAX_SEGMENTS = 3, SHARD_MAX_RANK = 3 };

struct shard {
    int rank;                              // 1 to 3 dimensions
    int64_t global[SHARD_MAX_RANK];        // shape of the whole tensor; 1 behind the last dimension
    int dimension;                         // which one is split
    int segment_count;                     // 1 if the dimension is in one piece
    int64_t segments[SHARD_MAX_SEGMENTS];  // lengths, which add up to global[dimension]
    int outer;                             // into how many parts the first dimension is split besides; 1 or 0: none
    int parts, part;                       // this is slice `part` of `parts`, all of both splits
};

struct shard_run {
    int64_t global_offset;  // elements from the start of the whole tensor
    int64_t local_offset;   // elements from the start of the slice
    int64_t count;
};

// A tensor that every rank holds whole.
struct shard shard_whole(int rank, int64_t rows, int64_t columns);
// The same for `count` matrices one after the other, e.g. those of experts: (count, rows, columns).
struct shard shard_matrices(int64_t count, int64_t rows, int64_t columns);
// Slice `part` of `parts` along a dimension. If there are several segments, one that does not divide evenly is a broken
// invariant.
struct shard shard_split(struct shard whole, int dimension, int parts, int part);
// Part `part` of `parts` of the first dimension of a tensor that is whole or split along another one. A number of parts
// that does not divide that dimension is a broken invariant.
struct shard shard_split_outer(struct shard shard, int parts, int part);

// Into how many parts the other dimension is split, and which of them this slice has.
int shard_inner_parts(const struct shard *shard);
int shard_inner_part(const struct shard *shard);
int64_t shard_local_size(const struct shard *shard, int dimension);
// Where the slice begins along the dimension that is split; 0 for a whole tensor. Only for a single segment, and for
// tensors that are not split twice.
int64_t shard_local_start(const struct shard *shard);
int64_t shard_local_count(const struct shard *shard);
int64_t shard_global_count(const struct shard *shard);
// The number of runs, and run number i in increasing order of both offsets.
int64_t shard_run_count(const struct shard *shard);
struct shard_run shard_run(const struct shard *shard, int64_t i);

#endif
