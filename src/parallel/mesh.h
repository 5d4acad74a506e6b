// The place of a rank. The world is a grid of tensor × context × data × pipeline ranks in Megatron's order, tensor
// fastest: rank = tp + TP * (cp + CP * (dp + DP * pp)). A place is a value that is passed down; nothing looks it up.
#ifndef PARALLEL_MESH_H
#define PARALLEL_MESH_H

#include "comm/comm.h"

enum axis { AXIS_TENSOR, AXIS_CONTEXT, AXIS_DATA, AXIS_PIPELINE, AXIS_COUNT };

// Between neighbours along the pipeline (the last stage and the first are neighbours too), activations go one way and
// gradients the other. Each direction has its own group of two ranks: first the sender, then the receiver. So every
// group carries messages in a single order, and no message waits behind one of another kind.
enum mesh_link { LINK_FORWARD_IN, LINK_FORWARD_OUT, LINK_BACKWARD_IN, LINK_BACKWARD_OUT, LINK_COUNT };

struct mesh {
    int rank, size;
    int length[AXIS_COUNT];           // how many ranks there are along each axis
    int place[AXIS_COUNT];            // where this rank stands
    struct group *group[AXIS_COUNT];  // the ranks that differ from this one along that axis only
    struct group *replicas;           // along context and data: the ranks that hold the same slices of the same layers
    struct group *stage;              // along all axes but the pipeline: the ranks that hold the same layers
    struct group *links[LINK_COUNT];  // only for pipelines of two or more stages
    struct group *all;
};

// Finds the places from the sizes; the data axis takes what the others leave. -1 if they do not divide the world.
int mesh_place(struct mesh *mesh, int rank, int size, int tensor, int context, int pipeline);
// The rank at other coordinates.
int mesh_rank_at(const struct mesh *mesh, const int place[AXIS_COUNT]);
// Creates the groups. Every rank of the world must call.
int mesh_connect(struct mesh *mesh, struct world *world);

#endif
