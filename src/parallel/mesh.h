// The place of a rank. The world is a grid of tensor × context × data × pipeline ranks, tensor fastest, as in Megatron:
// rank = tp + TP * (cp + CP * (dp + DP * pp)). A place is a value that is passed down; nothing looks it up.
//
// The ranks of a stage are also a grid for its experts, as in Megatron: number = etp + ETP * (ep + EP * copy). ETP
// ranks split each expert, EP ranks share out the experts and send each other tokens, and the others hold copies. So
// each axis has up to three parts, one for each of these; the tensor axis begins with the ranks that split experts.
#ifndef PARALLEL_MESH_H
#define PARALLEL_MESH_H

#include "comm/comm.h"
#include "config/config.h"

enum axis { AXIS_TENSOR, AXIS_CONTEXT, AXIS_DATA, AXIS_PIPELINE, AXIS_COUNT };
// What ranks along a part of an axis have of an expert: slices of it, others, or the same.
enum axis_part { AXIS_SPLITS, AXIS_DEALS, AXIS_COPIES, AXIS_PARTS };

// A set of parts of axes is a mask. Ranks that differ along a set only are numbered with the first part of the first
// axis fastest.
#define AXES(axis) (7u << (AXIS_PARTS * (axis)))
#define AXIS_PART(axis, part) (1u << (AXIS_PARTS * (axis) + (part)))
#define STAGE_PARTS(part) (AXIS_PART(AXIS_TENSOR, part) | AXIS_PART(AXIS_CONTEXT, part) | AXIS_PART(AXIS_DATA, part))
#define MESH_ALL (AXIS_PART(AXIS_COUNT, 0) - 1)
#define MESH_STAGE (MESH_ALL & ~AXES(AXIS_PIPELINE))     // the ranks that hold the same layers
#define MESH_REPLICAS (MESH_STAGE & ~AXES(AXIS_TENSOR))  // those of them that hold the same slices
#define MESH_SAMPLES AXES(AXIS_DATA)                     // the ranks that train on other samples
#define MESH_TALKING (MESH_STAGE & ~AXES(AXIS_DATA))     // those that communicate within a pass
// Those that split, share out, or hold the same slices of the same experts. Declared if mesh_deals_experts.
#define MESH_EXPERT_SLICES STAGE_PARTS(AXIS_SPLITS)
#define MESH_EXPERTS STAGE_PARTS(AXIS_DEALS)
#define MESH_SAME_EXPERTS STAGE_PARTS(AXIS_COPIES)

// Between neighbours along the pipeline (the last stage and the first are neighbours too), activations go one way and
// gradients the other. Each direction has its own group of two ranks: first the sender, then the receiver. So every
// group carries messages in a single order, and no message waits behind one of another kind.
enum mesh_link { LINK_FORWARD_IN, LINK_FORWARD_OUT, LINK_BACKWARD_IN, LINK_BACKWARD_OUT, LINK_COUNT };

// The ranks that differ from this one along some axes only.
struct mesh_set {
    unsigned axes;
    const char *name;
    struct group *group;
};
enum { MESH_MOST_SETS = 8 };

struct mesh {
    int rank, size;
    int length[AXIS_COUNT];             // how many ranks there are along each axis
    int place[AXIS_COUNT];              // where this rank stands
    int parts[AXIS_COUNT][AXIS_PARTS];  // the factors of each length
    struct group *group[AXIS_COUNT];    // the ranks that differ from this one along that axis only
    struct mesh_set sets[MESH_MOST_SETS];
    int set_count;
    struct group *replicas;           // along MESH_REPLICAS
    struct group *stage;              // along MESH_STAGE
    struct group *links[LINK_COUNT];  // only for pipelines of two or more stages
    struct group *all;
    // How many neighbouring tensor-parallel ranks share a head of keys and values, because there are more ranks than
    // such heads, and their group. 1 and NULL if there are enough heads.
    int kv_ranks;
    struct group *kv_group;
    // Layers in which this many neighbouring context-parallel ranks exchange heads and groups of them gather keys: the
    // group of this rank's neighbours, and that of the ranks at its place in all groups. 1 and NULL without such
    // layers.
    int near_ranks;
    struct group *near_group, *far_group;
};

// Finds the places from the lengths of the axes, where 0 counts as 1 and NULL as all 1; the data axis takes what the
// others leave. -1 if they do not divide the world. All tensor-parallel ranks split experts, all others hold copies.
int mesh_place(struct mesh *mesh, int rank, int size, const int length[AXIS_COUNT]);
const char *mesh_axis_name(enum axis axis);  // "tensor"
// The same with the lengths that the flags say, those of experts included.
int mesh_place_config(struct mesh *mesh, int rank, int size, const struct config *config);
// How many ranks differ along these axes only.
int mesh_count(const struct mesh *mesh, unsigned along);
// The number of the rank at a place among them; and the place of number `index` among those around a place.
int mesh_index(const struct mesh *mesh, const int place[AXIS_COUNT], unsigned along);
void mesh_move(const struct mesh *mesh, int place[AXIS_COUNT], unsigned along, int index);
// Whether experts are held by other ranks than the slices of other layers are.
bool mesh_deals_experts(const struct mesh *mesh);
// The rank at other coordinates.
int mesh_rank_at(const struct mesh *mesh, const int place[AXIS_COUNT]);
// Before mesh_connect: asks for a group along a set of axes. Single axes, MESH_REPLICAS and MESH_STAGE are declared.
void mesh_declare(struct mesh *mesh, unsigned along, const char *name);
// The group along a set of axes that was declared; NULL if the mesh is not connected.
struct group *mesh_group(const struct mesh *mesh, unsigned along);
// Creates the groups. Every rank of the world must call.
int mesh_connect(struct mesh *mesh, struct world *world);
// The same place in a world on paper, which the caller closes: see world_open_twin.
int mesh_open_twin(struct mesh *paper, struct world **world, const struct mesh *mesh, struct device *device);

#endif
