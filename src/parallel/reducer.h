// What the ranks that hold the same parameters exchange in a step. Gradients are summed over them, in buckets, each as
// soon as all of it is final, so that buckets travel while the backward pass makes the next. Gradients were scaled by
// 1 / DP where the loss was weighted, so the sum is the mean.
//
// Where the optimizer is divided (see pieces.h), each rank only gets the sums of its pieces, and the values of a bucket
// are gathered as soon as its pieces are updated, under the update of the others and under the next forward pass.
//
// The backward pass makes the gradients of split matrices (of all matrices, where layers are not shared) final in
// falling order of their offsets: [0, falling_end). Everything behind that is final at the end.
#ifndef PARALLEL_REDUCER_H
#define PARALLEL_REDUCER_H

#include "parallel/mesh.h"
#include "parallel/param.h"
#include "parallel/pieces.h"

struct reducer {
    struct group *replicas;
    struct pieces pieces;
    int64_t falling;             // buckets [0, falling) become final in falling order
    bool overlaps_reduction;     // buckets are started as they become final, not all at the end
    bool overlaps_gather;        // buckets are waited for as they are needed, not all at once
    struct tensor values;        // (n)
    struct tensor grads;         // (n) fp32
    struct comm_request *sums;   // one for each bucket
    struct comm_request *parts;  // the same
    int64_t unsummed;            // of [0, falling), those not started yet are [0, unsummed)
    int64_t ungathered;          // buckets whose values are on their way, the last ones in the order they are needed
};

struct reducer_options {
    struct group *replicas;  // none on paper
    struct pieces pieces;
    bool overlaps_reduction, overlaps_gather;
};
void reducer_open(struct reducer *reducer, const struct param_list *params, const struct reducer_options *options);
void reducer_close(struct reducer *reducer);
// Where the flat buffers are.
void reducer_bind(struct reducer *reducer, struct tensor values, struct tensor grads);

// In the last backward pass of a step: the gradients of [offset, falling_end) are final.
void reducer_final_from(struct reducer *reducer, int64_t offset);
// All gradients are final. Starts what has not been started.
void reducer_sum(struct reducer *reducer);
// Returns when this rank has the sums of its pieces.
void reducer_wait(struct reducer *reducer);

// Bucket number n in the order in which a forward pass needs them.
struct piece reducer_needed(const struct reducer *reducer, int64_t n);
// This rank's piece of that bucket is updated: sends it to the others, in that order. Nothing where the optimizer is
// not divided.
void reducer_gather(struct reducer *reducer, int64_t n);
// Returns when the values of [0, end), and of all that is not split, are there.
void reducer_need(struct reducer *reducer, int64_t end);
// The same of all values.
void reducer_settle(struct reducer *reducer);

#endif
