// Each rank's machine (named in reports of hangs) and device, and a number that identifies this run: when its first
// rank started. They are gathered when a world is opened, before it has groups, because the devices decide what carries
// tensors.
#include "base/clock.h"
#include "base/memory.h"
#include "base/pool.h"
#include "comm/backend.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMED_PEERS = 8 };

static void fill_own(struct host_name *own, const struct world *world) {
    struct device *device = world->device;
    char name[sizeof own->words] = "";
    gethostname(name, sizeof name - 1);
    memcpy(own->words, name, sizeof name);
    if (device && device->ops->identity)
        device->ops->identity(device, own->device);
    own->start = (int64_t)(clock_wall_seconds() * 1e6);
    own->lacks_nccl = world->lacks_nccl;
    struct pool_share share = pool_find_share();
    own->threads = device && device->threads > 1 ? device->threads : 1;
    own->processors = share.processors;
    own->mask = share.mask;
    own->quota = share.quota;
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

static bool has_none(const struct host_name *name) {
    return !has_device(name);
}

static bool lacks_nccl(const struct host_name *name) {
    return name->lacks_nccl != 0;
}

// Names the first ranks that satisfy `holds`; returns how many there are.
static int name_those(const struct host_name *names, int size, bool (*holds)(const struct host_name *name),
                      struct buffer *out) {
    int count = 0;
    for (int i = 0; i < size; i++) {
        if (!holds(&names[i]))
            continue;
        if (count++ >= NAMED_PEERS)
            continue;
        buffer_printf(out, "%s", count > 1 ? ", " : "");
        append_name(names, i, out);
    }
    if (count > NAMED_PEERS)
        buffer_printf(out, " and %d more", count - NAMED_PEERS);
    return count;
}

static enum devices_fit find_mixed(const struct host_name *names, int size, struct buffer *out) {
    int with = 0;
    for (int i = 0; i < size; i++)
        with += has_device(&names[i]);
    if (with == 0)
        return DEVICES_HOST;
    return name_those(names, size, has_none, out) > 0 ? DEVICES_MIXED : DEVICES_OWN;
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

enum devices_fit devices_find(const struct world *world, struct buffer *out) {
    enum devices_fit fit = find_mixed(world->hosts, world->place.size, out);
    return fit == DEVICES_OWN ? find_shared(world->hosts, world->place.size, out) : fit;
}

bool hosts_lack_nccl(const struct world *world, struct buffer *out) {
    return name_those(world->hosts, world->place.size, lacks_nccl, out) > 0;
}

void hosts_gather(struct world *world) {
    struct group *all;
    int size = world->place.size, *ranks = memory_alloc(sizeof *ranks * (size_t)size);
    struct host_name *names = memory_alloc((size_t)size * sizeof *names);
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    fill_own(&names[world->place.rank], world);
    if (world->collective->group_create(world, &all, ranks, size, "machines") < 0)
        die("%s", error_message());
    comm_all_gather_i64(all, names[0].words, HOST_NAME_WORDS, "machines");
    world->collective->group_free(all);
    world->hosts = names;
    free(ranks);
}

static bool is_same_host(const struct host_name *one, const struct host_name *other) {
    return memcmp(one->words, other->words, sizeof one->words) == 0;
}

bool hosts_are_crowded(const struct world *world) {
    if (!world->hosts)
        return false;
    const struct host_name *own = &world->hosts[world->place.rank];
    int64_t here = 0, beside = 0;
    for (int i = 0; i < world->place.size; i++) {
        const struct host_name *other = &world->hosts[i];
        if (!is_same_host(own, other))
            continue;
        here += other->threads;
        beside += other->mask == own->mask ? other->threads : 0;
    }
    return beside > own->processors || here > own->quota;
}

bool group_is_neighbour(const struct group *group, int rank) {
    const struct host_name *hosts = group->world->hosts;
    if (!hosts)
        return rank == group->rank;
    const struct host_name *own = &hosts[group->ranks[group->rank]], *other = &hosts[group->ranks[rank]];
    return is_same_host(own, other);
}

const char *group_host(const struct group *group, int rank) {
    const struct host_name *hosts = group->world->hosts;
    return hosts ? (const char *)hosts[group->ranks[rank]].words : "";
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
    return world->hosts ? world->hosts[0].start : 0;
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
