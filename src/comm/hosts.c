// Which machine each rank is on, so that a rank that waits in vain can say for whom, and a number that identifies this
// run. They are gathered once, when a world is opened: every rank puts its name into its own row of a table of zeros,
// the first rank puts its time into an additional row, and the maximum over all ranks is the complete table.
#include "base/clock.h"
#include "base/memory.h"
#include "comm/backend.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMED_PEERS = 8 };

void hosts_gather(struct world *world) {
    struct group *all = world->groups[0];
    const struct collective *collective = world->collective;
    struct group *host = collective->host_group ? collective->host_group(all) : all;
    int size = world->place.size;
    size_t bytes = (size_t)(size + 1) * sizeof *world->hosts;
    world->hosts = memory_alloc(bytes);
    if (size == 1)
        return;
    if (world->place.rank == 0)
        world->hosts[size].words[0] = (int64_t)(clock_wall_seconds() * 1e6);
    struct host_name *own = &world->hosts[world->place.rank];
    char name[sizeof own->words] = "";
    gethostname(name, sizeof name - 1);
    // Host values are signed: using seven bits of each byte keeps them above the zeros of the other ranks.
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = name[i] & 0x7f;
    memcpy(own->words, name, sizeof name);
    if (world->device && world->device->ops->identity)
        world->device->ops->identity(world->device, own->device);
    for (int i = 0; i < 2; i++)
        own->device[i] &= INT64_MAX;
    int count = (size + 1) * (int)(sizeof *own / sizeof own->words[0]);
    void *handle = host->world->collective->host_max_i64(host, world->hosts[0].words, count);
    while (!host->world->collective->test(host, handle))
        sched_yield();
    // A world that carries host values for another names ranks as that one does.
    if (host->world != world) {
        host->world->hosts = memory_alloc(bytes);
        memcpy(host->world->hosts, world->hosts, bytes);
    }
}

bool group_is_neighbour(const struct group *group, int rank) {
    const struct host_name *hosts = group->world->hosts;
    const struct host_name *own = &hosts[group->ranks[group->rank]], *other = &hosts[group->ranks[rank]];
    return memcmp(own->words, other->words, sizeof own->words) == 0;
}

int group_device_sharers(const struct group *group) {
    const struct host_name *hosts = group ? group->world->hosts : NULL;
    int count = 0;
    for (int i = 0; hosts && i < group->size; i++) {
        const struct host_name *own = &hosts[group->ranks[group->rank]], *other = &hosts[group->ranks[i]];
        count += memcmp(own->device, other->device, sizeof own->device) == 0;
    }
    return count > 0 ? count : 1;
}

int64_t hosts_run(const struct world *world) {
    return world->hosts ? world->hosts[world->place.size].words[0] : 0;
}

void hosts_name(const struct world *world, int rank, struct buffer *out) {
    char name[sizeof world->hosts[0].words];
    memcpy(name, world->hosts[rank].words, sizeof name);
    buffer_printf(out, "rank %d on %s", rank, name);
}

void hosts_name_peers(const struct group *group, struct buffer *out) {
    int others = group->size - 1, named = 0;
    for (int i = 0; i < group->size && named < NAMED_PEERS; i++) {
        if (i == group->rank)
            continue;
        buffer_printf(out, "%s", named++ ? ", " : "");
        hosts_name(group->world, group->ranks[i], out);
    }
    if (others > named)
        buffer_printf(out, " and %d more", others - named);
}
