// Which machine each rank is on, so that a rank that waits in vain can say for whom, which device it has, and a number
// that identifies this run. They are gathered once, when a world is opened: every rank puts its name into its own row
// of a table of zeros, the first rank puts its time into an additional row, and the maximum over all ranks is the
// complete table. What carries tensors depends on the devices, so those are gathered before, in the same way.
#include "base/clock.h"
#include "base/memory.h"
#include "comm/backend.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMED_PEERS = 8 };

// Host values are signed: using seven bits of each byte keeps them above the zeros of the other ranks.
static void fill_own(struct host_name *own, struct device *device) {
    char name[sizeof own->words] = "";
    gethostname(name, sizeof name - 1);
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = name[i] & 0x7f;
    memcpy(own->words, name, sizeof name);
    if (device && device->ops->identity)
        device->ops->identity(device, own->device);
    for (int i = 0; i < 2; i++)
        own->device[i] &= INT64_MAX;
}

static void append_name(const struct host_name *names, int rank, struct buffer *out) {
    char name[sizeof names[0].words];
    memcpy(name, names[rank].words, sizeof name);
    buffer_printf(out, "rank %d on %s", rank, name);
}

static bool has_device(const struct host_name *name) {
    return name->device[0] != 0 || name->device[1] != 0;
}

// The first of the ranks that compute on this rank's device.
static int first_sharer(const struct host_name *names, int rank) {
    int first = 0;
    while (memcmp(names[first].device, names[rank].device, sizeof names[rank].device) != 0)
        first++;
    return first;
}

static enum devices_fit find_mixed(const struct host_name *names, int size, struct buffer *out) {
    int with = 0, named = 0;
    for (int i = 0; i < size; i++)
        with += has_device(&names[i]);
    if (with == 0)
        return DEVICES_HOST;
    for (int i = 0; i < size && named < NAMED_PEERS; i++) {
        if (has_device(&names[i]))
            continue;
        buffer_printf(out, "%s", named++ ? ", " : "");
        append_name(names, i, out);
    }
    if (size - with > named)
        buffer_printf(out, " and %d more", size - with - named);
    return with < size ? DEVICES_MIXED : DEVICES_OWN;
}

static enum devices_fit find_shared(const struct host_name *names, int size, struct buffer *out) {
    int devices = 0, sharer = -1;
    for (int i = 0; i < size; i++) {
        bool is_first = first_sharer(names, i) == i;
        devices += is_first;
        if (!is_first && sharer < 0)
            sharer = i;
    }
    if (sharer < 0)
        return DEVICES_OWN;
    append_name(names, first_sharer(names, sharer), out);
    buffer_append_string(out, " and ");
    append_name(names, sharer, out);
    buffer_printf(out, " share a GPU (%d ranks use %d)", size, devices);
    return DEVICES_SHARED;
}

enum devices_fit devices_find(struct world *world, struct device *device, struct buffer *out) {
    int size = world->place.size;
    struct host_name *names = memory_alloc(sizeof *names * (size_t)size);
    fill_own(&names[world->place.rank], device);
    if (size > 1)
        world_max_i64(world, names[0].words, size * (int)(sizeof *names / sizeof names->words[0]), "devices");
    enum devices_fit fit = find_mixed(names, size, out);
    if (fit == DEVICES_OWN)
        fit = find_shared(names, size, out);
    free(names);
    return fit;
}

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
    fill_own(&world->hosts[world->place.rank], world->device);
    int count = (size + 1) * (int)(sizeof world->hosts[0] / sizeof world->hosts[0].words[0]);
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
    append_name(world->hosts, rank, out);
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
