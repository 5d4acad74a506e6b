// The grid of ranks and its groups. See mesh.h.
#include "parallel/mesh.h"
#include "base/error.h"
#include "base/memory.h"

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

// The ranks that differ from this one along the given axes alone, the first of the axes fastest.
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

int mesh_connect(struct mesh *mesh, struct world *world) {
    mesh->all = world_group_all(world);
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        bool varies[AXIS_COUNT] = {false};
        varies[axis] = true;
        TRY(connect(mesh, world, &mesh->group[axis], varies, axis_name((enum axis)axis)));
    }
    TRY(connect(mesh, world, &mesh->replicas, (const bool[AXIS_COUNT]){[AXIS_CONTEXT] = true, [AXIS_DATA] = true},
                mesh->length[AXIS_CONTEXT] > 1 ? "data and context" : "data"));
    return connect(mesh, world, &mesh->stage,
                   (const bool[AXIS_COUNT]){[AXIS_TENSOR] = true, [AXIS_CONTEXT] = true, [AXIS_DATA] = true}, "stage");
}
