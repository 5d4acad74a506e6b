// A rank's place. The world is a grid of tensor × context × data × pipeline ranks in Megatron's order, tensor fastest:
// rank = tp + TP * (cp + CP * (dp + DP * pp)). A place is a value that is passed down; nothing below looks it up.
#ifndef PARALLEL_MESH_H
#define PARALLEL_MESH_H

#include "comm/comm.h"

enum axis { AXIS_TENSOR, AXIS_CONTEXT, AXIS_DATA, AXIS_PIPELINE, AXIS_COUNT };

// Between neighbours along the pipeline, the last stage and the first included, activations go one way and gradients
// the other, each over a group of two of its own: first the rank that sends, then the one that receives. So each
// carries messages in one order, and none waits behind another kind.
enum mesh_link { LINK_FORWARD_IN, LINK_FORWARD_OUT, LINK_BACKWARD_IN, LINK_BACKWARD_OUT, LINK_COUNT };

struct mesh {
    int rank, size;
    int length[AXIS_COUNT];           // how many ranks along each axis
    int place[AXIS_COUNT];            // where this one stands
    struct group *group[AXIS_COUNT];  // the ranks that differ from this one along that axis alone
    struct group *replicas;           // along context and data: those that hold the same slices of the same layers
    struct group *stage;              // along all but the pipeline: those that hold the same layers
    struct group *links[LINK_COUNT];  // of a pipeline of two stages or more
    struct group *all;
};

// Places from sizes; the data axis takes what the others leave. -1 where they do not divide the world.
int mesh_place(struct mesh *mesh, int rank, int size, int tensor, int context, int pipeline);
// The rank at other coordinates.
int mesh_rank_at(const struct mesh *mesh, const int place[AXIS_COUNT]);
// Makes the groups; every rank of the world must call.
int mesh_connect(struct mesh *mesh, struct world *world);

#endif
