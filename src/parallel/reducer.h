// Sums gradients over the data-parallel ranks, in buckets, so that the first buckets travel while later ones are
// prepared. Gradients were scaled by 1 / DP where the loss was weighted, so the sum is the mean.
#ifndef PARALLEL_REDUCER_H
#define PARALLEL_REDUCER_H

#include "parallel/mesh.h"

enum { REDUCER_BUCKET_ELEMENTS = 16 << 20 };

// grads (n) fp32, all of them, finished. Returns when every rank holds the sum.
void reducer_sum_gradients(const struct mesh *mesh, struct tensor grads);

#endif
