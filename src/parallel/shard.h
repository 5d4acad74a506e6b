// The distribution of a tensor's slices over ranks. Initial values, tensor parallelism, the distributed optimizer,
// checkpoints and their resharding all use this file.
//
// A tensor is split along one dimension into `parts` slices. They are equal, except that the last ones are shorter, or
// empty, if the length cannot be divided evenly (a vocabulary). If the dimension consists of segments (q, k and v rows
// of a packed projection, gate and up rows of a gated MLP), every segment is split separately, so that each rank holds
// the q, k and v of its heads. The local tensor then keeps the order of the segments, and every segment must divide
// evenly. A slice is described by runs: ranges of elements that are contiguous both in the whole tensor and in the
// slice.
//
// The tensors of experts are split twice: the first dimension into `outer` parts of whole experts, and each part along
// another dimension as above. Slices are numbered with the outer part slowest.
#ifndef PARALLEL_SHARD_H
#define PARALLEL_SHARD_H

#include "parallel/mesh.h"
#include "tensor/tensor.h"

enum { SHARD_MAX_SEGMENTS = 3, SHARD_MAX_RANK = 3 };

struct shard {
    int rank;                              // 1 to 3 dimensions
    int64_t global[SHARD_MAX_RANK];        // shape of the whole tensor; 1 after the last dimension
    int dimension;                         // the dimension that is split
    int segment_count;                     // 1 if the dimension is in one piece
    int64_t segments[SHARD_MAX_SEGMENTS];  // lengths, which add up to global[dimension]
    int outer;                             // parts of a second split, of the first dimension; 1 or 0: none
    int parts, part;                       // this is slice `part` of `parts`, which counts both splits
};

struct shard_run {
    int64_t global_offset;  // elements from the start of the whole tensor
    int64_t local_offset;   // elements from the start of the slice
    int64_t count;
};

// A tensor that every rank holds whole.
struct shard shard_whole(int rank, int64_t rows, int64_t columns);
// `count` matrices, e.g. of experts, held whole: (count, rows, columns).
struct shard shard_matrices(int64_t count, int64_t rows, int64_t columns);
// Slice `part` of `parts` along a dimension. If there are several segments, one that does not divide evenly is a broken
// invariant.
struct shard shard_split(struct shard whole, int dimension, int parts, int part);
// Part `part` of `parts` of the first dimension of a tensor that is whole or split along another one. A number of parts
// that does not divide that dimension is a broken invariant.
struct shard shard_split_outer(struct shard shard, int parts, int part);

// Number of parts of the other dimension, and the number of this slice's part.
int shard_inner_parts(const struct shard *shard);
int64_t shard_local_size(const struct shard *shard, int dimension);
// Start of the slice along the split dimension; 0 for a whole tensor. Only for a single segment, and for tensors that
// are not split twice.
int64_t shard_local_start(const struct shard *shard);
int64_t shard_local_count(const struct shard *shard);
int64_t shard_global_count(const struct shard *shard);
// The number of runs, and run number i in increasing order of both offsets.
int64_t shard_run_count(const struct shard *shard);
struct shard_run shard_run(const struct shard *shard, int64_t i);

// ---- context parallelism ----

// The tokens of a sequence that a rank holds when ranks share sequences (context parallelism). A sequence of T tokens
// is cut into 2 · ranks equal strips. Rank r holds strips r and 2 · ranks - 1 - r, one from the front and one from the
// back, so that causal attention is the same amount of work for every rank. A rank that holds its sequences alone has
// one strip.
//
// The rows of a rank's part of a micro-batch of B sequences are its first strips of all sequences, then its second
// strips: (strips, B, T / all strips). The layers along the residual stream work on rows in any order; attention takes
// one strip at a time.

enum { CONTEXT_MOST_STRIPS = 2 };

// Strips of each sequence per rank, and in all.
int context_strips(const struct mesh *mesh);
int context_all_strips(const struct mesh *mesh);
// The number in the sequence of strip `which` of a context-parallel rank.
int context_strip(const struct mesh *mesh, int rank, int which);
// The mesh with each `near` neighbouring context-parallel ranks merged into one. Their strips are adjacent, so the
// merged rank holds two longer strips: those of its place among fewer ranks.
struct mesh context_merge(const struct mesh *mesh, int near);
// This rank's part of the columns of an array (B, T), as (strips, B, T / all strips).
struct context_slice {
    int64_t B, T;
    size_t element_bytes;
};
void context_take(const struct mesh *mesh, void *own, const void *whole, const struct context_slice *slice);

#endif
