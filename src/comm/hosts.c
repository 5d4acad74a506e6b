// Which machine each rank is on, so that a rank that waits in vain can say for whom. Gathered once, when a world is
// opened: every rank puts its name into its own row of a table of zeros, and the maximum over all ranks is the table.
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
    world->hosts = memory_alloc((size_t)size * sizeof *world->hosts);
    if (size == 1)
        return;
    struct host_name *own = &world->hosts[world->place.rank];
    char name[sizeof own->words] = "";
    gethostname(name, sizeof name - 1);
    // Host values are signed: seven bits of each byte keep them above the others' zeros.
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = name[i] & 0x7f;
    memcpy(own->words, name, sizeof name);
    int count = size * (int)(sizeof own->words / sizeof own->words[0]);
    void *handle = host->world->collective->host_max_i64(host, world->hosts[0].words, count);
    while (!host->world->collective->test(host, handle))
        sched_yield();
    // A world that carries host values for another names ranks as that one does.
    if (host->world != world) {
        host->world->hosts = memory_alloc((size_t)size * sizeof *world->hosts);
        memcpy(host->world->hosts, world->hosts, (size_t)size * sizeof *world->hosts);
    }
}

bool group_is_neighbour(const struct group *group, int rank) {
    const struct host_name *hosts = group->world->hosts;
    const struct host_name *own = &hosts[group->ranks[group->rank]], *other = &hosts[group->ranks[rank]];
    return memcmp(own, other, sizeof *own) == 0;
}

void hosts_name_peers(const struct group *group, struct buffer *out) {
    int others = group->size - 1, named = 0;
    for (int i = 0; i < group->size && named < NAMED_PEERS; i++) {
        if (i == group->rank)
            continue;
        char name[sizeof group->world->hosts[0].words];
        memcpy(name, group->world->hosts[group->ranks[i]].words, sizeof name);
        buffer_printf(out, "%srank %d on %s", named++ ? ", " : "", group->ranks[i], name);
    }
    if (others > named)
        buffer_printf(out, " and %d more", others - named);
}
