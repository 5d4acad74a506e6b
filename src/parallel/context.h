// The tokens of a sequence that a rank holds when ranks share sequences (context parallelism). A sequence of T tokens
// is cut into 2 · ranks equal strips. Rank r holds strips r and 2 · ranks - 1 - r, one from the front and one from the
// back, so that causal attention is the same amount of work for every rank. A rank that holds its sequences alone has
// one strip.
//
// The rows of a rank's part of a micro-batch of B sequences are its first strips of all sequences, then its second
// strips: (strips, B, T / all strips). The layers along the residual stream work on rows in any order; attention takes
// one strip at a time.
#ifndef PARALLEL_CONTEXT_H
#define PARALLEL_CONTEXT_H

#include "parallel/mesh.h"

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
