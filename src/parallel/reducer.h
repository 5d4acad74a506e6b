// Reduces gradients and gathers values among the ranks that hold the same parameters. Gradients are summed in buckets,
// each as soon as it is final, so that a bucket is sent while the backward pass computes the next. Gradients were
// scaled by 1 / DP when the loss was weighted, so the sum is the mean.
//
// If the optimizer is split (see pieces.h), each rank only receives the sums of its own pieces. The values of a
// bucket are gathered as soon as its pieces are updated, while other buckets are updated and during the next forward
// pass.
//
// Every group of parameters (param.h) has its own ranks, buckets and pieces. Within a group, the backward pass finishes
// the gradients of split matrices (of all matrices, if layers are not shared) in descending order of their offsets:
// from the group's first element to falling_end. Everything after that is final only at the end.
//
// On request, every rank also sums the squares of its own gradients before they are reduced, to locate the source of a
// NaN: after the reduction all ranks have it.
//
// Gradients may be rounded to bf16 for the sums, which halves the traffic. The rounded buckets take turns in a few
// slots; the sums are widened into the gradient buffer.
#ifndef PARALLEL_REDUCER_H
#define PARALLEL_REDUCER_H

#include "parallel/mesh.h"
#include "parallel/param.h"
#include "parallel/pieces.h"
#include "tensor/arena.h"

// Rounded buckets that may be in flight at once.
enum { REDUCER_SLOTS = 4 };

struct reducer_group {
    struct group *replicas;
    struct pieces pieces;
    int64_t falling;             // buckets [0, falling) become final in descending order
    bool is_needed_first;        // no matrices of blocks, but parameters that all blocks need
    bool is_rounded;             // sums are of bf16
    struct tensor rounded;       // (slots * bucket) bf16, or none
    struct comm_request *sums;   // one per bucket
    struct comm_request *parts;  // the same
    int64_t begun, ended;        // sums of this step started, and completed, in the order of summed()
    int64_t ungathered;          // buckets whose values are in flight: the last ones in the order of need
};

struct reducer {
    struct device *device;
    struct tensor values;     // (n)
    struct tensor grads;      // (n) fp32
    struct tensor squares;    // (1) fp32 += squares of this rank's own gradients; none: not requested
    bool overlaps_reduction;  // buckets are started when they become final, not all at the end
    bool overlaps_gather;     // buckets are waited for when they are needed, not all at once
    struct reducer_group groups[PARAM_MOST_GROUPS];
    int count;
};

struct reducer_options {
    const struct mesh *mesh;      // its ranks along a group's axes sum; NULL: nothing is summed
    const struct pieces *pieces;  // of every group
    bool overlaps_reduction, overlaps_gather, is_rounded;
};
void reducer_open(struct reducer *reducer, const struct param_list *params, const struct reducer_options *options);
void reducer_close(struct reducer *reducer);
// The flat buffers; other memory for sums is taken from the arena.
struct reducer_buffers {
    struct device *device;
    struct arena *arena;
    struct tensor values, grads;  // grads: none if nothing is trained
    struct tensor squares;        // (1) fp32, or none
};
void reducer_bind(struct reducer *reducer, const struct reducer_buffers *buffers);

// Whether ranks along a group's axes exchange anything; and whether any group is split among them.
bool reducer_has_peers(const struct reducer *reducer);
bool reducer_is_divided(const struct reducer *reducer);

// In the last backward pass of a step: the group's gradients from this parameter to falling_end are final.
void reducer_final_from(struct reducer *reducer, const struct param *param);
// All gradients are final. Starts the buckets that have not been started.
void reducer_sum(struct reducer *reducer);
// Waits until this rank has the sums of its pieces.
void reducer_wait(struct reducer *reducer);

// The buckets of all groups: group by group, each in the order in which a forward pass needs them.
int64_t reducer_bucket_count(const struct reducer *reducer);
struct piece reducer_needed(const struct reducer *reducer, int64_t n);
// The group of that bucket, and whether it is the first of its group.
int reducer_group_of(const struct reducer *reducer, int64_t n, bool *is_first);
// Sends this rank's updated piece of that bucket to the other ranks. Called in the order of buckets above. Does nothing
// if the group is not split.
void reducer_gather(struct reducer *reducer, int64_t n);
// Waits for the values of the parameter's group up to its end, of all its parameters that are not split, and of
// groups without matrices of blocks. With --optimizer muon, embeddings, biases and norms are such a group.
void reducer_await(struct reducer *reducer, const struct param *param);
// Waits for all values.
void reducer_settle(struct reducer *reducer);

#endif
