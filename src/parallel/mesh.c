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

int mesh_connect(struct mesh *mesh, struct world *world) {
    mesh->all = world_group_all(world);
    int *ranks = memory_alloc(sizeof(int) * (size_t)mesh->size);
    int status = 0;
    for (int axis = 0; axis < AXIS_COUNT && status == 0; axis++) {
        int place[AXIS_COUNT];
        for (int other = 0; other < AXIS_COUNT; other++)
            place[other] = mesh->place[other];
        for (int i = 0; i < mesh->length[axis]; i++) {
            place[axis] = i;
            ranks[i] = mesh_rank_at(mesh, place);
        }
        status = world_group(world, &mesh->group[axis], ranks, mesh->length[axis], axis_name((enum axis)axis));
    }
    free(ranks);
    return status;
}
