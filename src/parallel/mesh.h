// The place of a rank. The world is a grid of tensor × context × data × pipeline ranks, tensor fastest, as in Megatron:
// rank = tp + TP * (cp + CP * (dp + DP * pp)). A place is a value that is passed down, never global.
//
// The ranks of a stage are also a grid for its experts, as in Megatron: number = etp + ETP * (ep + EP * copy). ETP
// ranks split each expert, EP ranks share out the experts and send each other tokens, and the others hold copies. Each
// axis therefore has up to three parts, one per role; the tensor axis begins with the ranks that split experts.
#ifndef PARALLEL_MESH_H
#define PARALLEL_MESH_H

#include "comm/comm.h"
#include "config/config.h"

enum axis { AXIS_TENSOR, AXIS_CONTEXT, AXIS_DATA, AXIS_PIPELINE, AXIS_COUNT };
// Ranks along a part of an axis hold slices of the same experts, other experts, or copies.
enum axis_part { AXIS_SPLITS, AXIS_DEALS, AXIS_COPIES, AXIS_PARTS };

// A set of parts of axes is a mask. Ranks that differ only along a set are numbered with the first part of the first
// axis fastest.
#define AXES(axis) (7u << (AXIS_PARTS * (axis)))
#define AXIS_PART(axis, part) (1u << (AXIS_PARTS * (axis) + (part)))
#define STAGE_PARTS(part) (AXIS_PART(AXIS_TENSOR, part) | AXIS_PART(AXIS_CONTEXT, part) | AXIS_PART(AXIS_DATA, part))
#define MESH_ALL (AXIS_PART(AXIS_COUNT, 0) - 1)
#define MESH_STAGE (MESH_ALL & ~AXES(AXIS_PIPELINE))     // the ranks that hold the same layers
#define MESH_REPLICAS (MESH_STAGE & ~AXES(AXIS_TENSOR))  // of these, the ranks that hold the same slices
#define MESH_SAMPLES AXES(AXIS_DATA)                     // the ranks that read other samples
#define MESH_TALKING (MESH_STAGE & ~AXES(AXIS_DATA))     // the ranks that communicate within a pass
// The ranks that split, share out, or hold the same slices of the same experts. Declared if mesh_deals_experts.
#define MESH_EXPERT_SLICES STAGE_PARTS(AXIS_SPLITS)
#define MESH_EXPERTS STAGE_PARTS(AXIS_DEALS)
#define MESH_SAME_EXPERTS STAGE_PARTS(AXIS_COPIES)

// Between neighbours along the pipeline (the last stage and the first are neighbours too), activations go one way and
// gradients the other. Each direction has its own group of two ranks: first the sender, then the receiver. Every group
// therefore carries messages in a single order, and no message waits for one of another kind.
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
    int length[AXIS_COUNT];             // number of ranks along each axis
    int place[AXIS_COUNT];              // this rank's coordinates
    int parts[AXIS_COUNT][AXIS_PARTS];  // the factors of each length
    struct group *group[AXIS_COUNT];    // the ranks that differ from this one along that axis only
    struct mesh_set sets[MESH_MOST_SETS];
    int set_count;
    struct group *replicas;           // along MESH_REPLICAS
    struct group *stage;              // along MESH_STAGE
    struct group *links[LINK_COUNT];  // only for pipelines of two or more stages
    struct group *all;
    // Number of neighbouring tensor-parallel ranks that share a head of keys and values, because there are more ranks
    // than such heads, and their group. 1 and NULL if there are enough heads.
    int kv_ranks;
    struct group *kv_group;
    // For layers in which neighbouring context-parallel ranks exchange heads and such neighbourhoods gather keys: ranks
    // per neighbourhood, the group of this rank's neighbourhood, and the group of the ranks at its place in all of
    // them. 1 and NULL without such layers.
    int near_ranks;
    struct group *near_group, *far_group;
};

// Computes the place from the lengths of the axes, where 0 counts as 1 and NULL as all 1; the data axis takes the rest.
// -1 if they do not divide the world. All tensor-parallel ranks split experts, all others hold copies.
int mesh_place(struct mesh *mesh, int rank, int size, const int length[AXIS_COUNT]);
const char *mesh_axis_name(enum axis axis);  // "tensor"
// mesh_place with the lengths from the flags, including those of experts.
int mesh_place_config(struct mesh *mesh, int rank, int size, const struct config *config);
// Number of ranks along these axes.
int mesh_count(const struct mesh *mesh, unsigned along);
// Number of the rank at a place among those along these axes; mesh_move sets a place to that of number `index`.
int mesh_index(const struct mesh *mesh, const int place[AXIS_COUNT], unsigned along);
void mesh_move(const struct mesh *mesh, int place[AXIS_COUNT], unsigned along, int index);
// Whether experts and other layers' slices are distributed differently over ranks.
bool mesh_deals_experts(const struct mesh *mesh);
// The rank at these coordinates.
int mesh_rank_at(const struct mesh *mesh, const int place[AXIS_COUNT]);
// Before mesh_connect: requests a group along a set of axes. Single axes, MESH_REPLICAS and MESH_STAGE need no request.
void mesh_declare(struct mesh *mesh, unsigned along, const char *name);
// The group along a declared set of axes; NULL if the mesh is not connected.
struct group *mesh_group(const struct mesh *mesh, unsigned along);
// Creates the groups. Every rank of the world must call.
int mesh_connect(struct mesh *mesh, struct world *world);
// Sets `paper` to the same place in a world on paper, which the caller closes: see world_open_twin.
int mesh_open_twin(struct mesh *paper, struct world **world, const struct mesh *mesh, struct device *device);

#endif
