// A single rank. comm.c never calls a collective of a group of one, so this only creates the group.
#include "base/error.h"
#include "base/memory.h"
#include "comm/backend.h"

#include <stdlib.h>

static int self_group_create(struct world *world, struct group **group, const int *ranks, int count, const char *name) {
    *group = group_new(world, sizeof **group, &(struct group_members){ranks, count, name});
    return 0;
}

void self_world_free(struct world *world) {
    free(world);
}

static const struct collective self_collective = {
    .name = "self",
    .group_create = self_group_create,
    .group_free = group_drop,
    .world_free = self_world_free,
};

int self_world_open(struct world **world, struct device *device) {
    *world = memory_alloc(sizeof **world);
    (*world)->collective = &self_collective;
    (*world)->device = device;
    (*world)->place = (struct world_place){.rank = 0, .size = 1, .local_rank = 0, .local_size = 1};
    return 0;
}
