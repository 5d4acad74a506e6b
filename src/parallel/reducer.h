// What the ranks that hold the same parameters exchange in a step. Their gradients are summed in buckets, each as soon
// as all of it is final, so that a bucket travels while the backward pass computes the next. Gradients were scaled by 1
// / DP when the loss was weighted, so the sum is the mean.
//
// If the optimizer is divided (see pieces.h), each rank only receives the sums of its own pieces. The values of a
// bucket are gathered as soon as its pieces are updated, while other buckets are updated and during the next forward
// pass.
//
// The backward pass finishes the gradients of split matrices (of all matrices, if layers are not shared) in descending
// order of their offsets: [0, falling_end). Everything behind that is final only at the end.
#ifndef PARALLEL_REDUCER_H
#define PARALLEL_REDUCER_H

#include "parallel/mesh.h"
#include "parallel/param.h"
#include "parallel/pieces.h"

struct reducer {
    struct group *replicas;
    struct pieces pieces;
    int64_t falling;             // buckets [0, falling) become final in descending order
    bool overlaps_reduction;     // buckets are started when they become final, not all at the end
    bool overlaps_gather;        // buckets are waited for when they are needed, not all at once
    struct tensor values;        // (n)
    struct tensor grads;         // (n) fp32
    struct comm_request *sums;   // one per bucket
    struct comm_request *parts;  // the same
    int64_t unsummed;            // of buckets [0, falling), those not started yet are [0, unsummed)
    int64_t ungathered;          // buckets whose values are on their way: the last ones in the order of need
};

struct reducer_options {
    struct group *replicas;  // NULL on paper
    struct pieces pieces;
    bool overlaps_reduction, overlaps_gather;
};
void reducer_open(struct reducer *reducer, const struct param_list *params, const struct reducer_options *options);
void reducer_close(struct reducer *reducer);
// Says where the flat buffers are.
void reducer_bind(struct reducer *reducer, struct tensor values, struct tensor grads);

// In the last backward pass of a step: the gradients of [offset, falling_end) are final.
void reducer_final_from(struct reducer *reducer, int64_t offset);
// All gradients are final. Starts the buckets that have not been started.
void reducer_sum(struct reducer *reducer);
// Waits until this rank has the sums of its pieces.
void reducer_wait(struct reducer *reducer);

// Bucket number n, in the order in which a forward pass needs them.
struct piece reducer_needed(const struct reducer *reducer, int64_t n);
// This rank's piece of that bucket is updated: sends it to the others. Buckets come in the order above. Does nothing if
// the optimizer is not divided.
void reducer_gather(struct reducer *reducer, int64_t n);
// Waits until the values of [0, end), and of all parameters that are not split, have arrived.
void reducer_await(struct reducer *reducer, int64_t end);
// The same for all values.
void reducer_settle(struct reducer *reducer);

#endif
