// The grid of ranks and its groups. See mesh.h.
#include "parallel/mesh.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

static const char *axis_name(enum axis axis) {
    static const char *const names[AXIS_COUNT] = {"tensor", "context", "data", "pipeline"};
    return names[axis];
}

int mesh_place(struct mesh *mesh, int rank, int size, int tensor, int context, int pipeline) {
    int model = tensor * context * pipeline;
    if (model <= 0 || size % model != 0)
        return error_set("%d ranks cannot be divided into tensor %d × context %d × pipeline %d; start a multiple of %d "
                         "ranks or change the --*-parallel-size flags",
                         size, tensor, context, pipeline, model);
    *mesh = (struct mesh){.rank = rank, .size = size, .length = {tensor, context, size / model, pipeline}};
    for (int axis = 0, rest = rank; axis < AXIS_COUNT; axis++) {
        mesh->place[axis] = rest % mesh->length[axis];
        rest /= mesh->length[axis];
    }
    return 0;
}

int mesh_rank_at(const struct mesh *mesh, const int place[AXIS_COUNT]) {
    int rank = 0;
    for (int axis = AXIS_COUNT - 1; axis >= 0; axis--) {
        CHECK(place[axis] >= 0 && place[axis] < mesh->length[axis]);
        rank = rank * mesh->length[axis] + place[axis];
    }
    return rank;
}

// The ranks that differ from this one only along the given axes; the first axis is the fastest.
static int connect(struct mesh *mesh, struct world *world, struct group **group, const bool varies[AXIS_COUNT],
                   const char *name) {
    int *ranks = memory_alloc(sizeof(int) * (size_t)mesh->size), count = 0;
    for (int rank = 0; rank < mesh->size; rank++) {
        bool belongs = true;
        for (int axis = 0, rest = rank; axis < AXIS_COUNT; axis++) {
            belongs = belongs && (varies[axis] || rest % mesh->length[axis] == mesh->place[axis]);
            rest /= mesh->length[axis];
        }
        if (belongs)
            ranks[count++] = rank;
    }
    int status = world_group(world, group, ranks, count, name);
    free(ranks);
    return status;
}

// The rank at another stage of this one's pipeline.
static int rank_of_stage(const struct mesh *mesh, int stage) {
    int place[AXIS_COUNT];
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        place[axis] = axis == AXIS_PIPELINE ? stage : mesh->place[axis];
    return mesh_rank_at(mesh, place);
}

// Pairs of stages (p, p + 1) that are created in one call must be disjoint: even p, odd p and, if the number of stages
// is odd, the last with the first.
static int round_of(const struct mesh *mesh, int stage) {
    int stages = mesh->length[AXIS_PIPELINE];
    return stage == stages - 1 && stages % 2 != 0 ? 2 : stage % 2;
}

static int connect_links(struct mesh *mesh, struct world *world) {
    int stages = mesh->length[AXIS_PIPELINE], mine = mesh->place[AXIS_PIPELINE];
    int before = (mine + stages - 1) % stages;
    for (int round = 0; stages > 1 && round < 3; round++) {
        bool begins = round_of(mesh, mine) == round, ends = round_of(mesh, before) == round;
        int first = begins ? mine : before, second = (first + 1) % stages;
        int forward[2] = {rank_of_stage(mesh, first), rank_of_stage(mesh, second)};
        int backward[2] = {forward[1], forward[0]};
        int count = begins || ends ? 2 : 0;
        struct group *groups[2];
        char name[2][64];
        snprintf(name[0], sizeof name[0], "activations, stage %d to %d", first, second);
        snprintf(name[1], sizeof name[1], "activation gradients, stage %d to %d", second, first);
        TRY(world_group(world, &groups[0], forward, count, name[0]));
        TRY(world_group(world, &groups[1], backward, count, name[1]));
        if (count > 0) {
            comm_connect(groups[0]);
            comm_connect(groups[1]);
            mesh->links[begins ? LINK_FORWARD_OUT : LINK_FORWARD_IN] = groups[0];
            mesh->links[begins ? LINK_BACKWARD_IN : LINK_BACKWARD_OUT] = groups[1];
        }
    }
    return 0;
}

// Names must differ: they tell hanging ranks, in each other's records, how far a group has come.
int mesh_connect(struct mesh *mesh, struct world *world) {
    mesh->all = world_group_all(world);
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        bool varies[AXIS_COUNT] = {false};
        varies[axis] = true;
        TRY(connect(mesh, world, &mesh->group[axis], varies, axis_name((enum axis)axis)));
    }
    TRY(connect(mesh, world, &mesh->replicas, (const bool[AXIS_COUNT]){[AXIS_CONTEXT] = true, [AXIS_DATA] = true},
                "replicas"));
    TRY(connect(mesh, world, &mesh->stage,
                (const bool[AXIS_COUNT]){[AXIS_TENSOR] = true, [AXIS_CONTEXT] = true, [AXIS_DATA] = true}, "stage"));
    return connect_links(mesh, world);
}
