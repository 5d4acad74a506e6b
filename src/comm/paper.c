// Collectives on paper: a world of any size of which only this rank exists. Nothing is moved, and waits take time only
// on a device that tells it, in a world that knows its fabric. comm.c counts the bytes and messages of each group as in
// any other world. Host values stay those of this rank; a gather repeats them for every rank whose row is as long as
// this one's.
#include "base/memory.h"
#include "comm/backend.h"
#include "ops/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct paper_world {
    struct world base;
    bool has_fabric;
    struct comm_fabric fabric;
};

struct paper_group {
    struct group base;
    int machines,
        neighbours;     // how many machines its ranks are on, and how many of them are on this rank's; 0: unknown
    double busy_until;  // its collectives run one after the other
    double exposed;
    double hidden;  // part of its time that computation hides
    double burden;  // slowdown of computation that overlaps a collective
};

// A collective that takes time. A request without a handle is complete.
struct paper_request {
    double start, end;
};

static const struct paper_world *paper_world_of(const struct world *world) {
    return (const struct paper_world *)world;
}

static int paper_group_create(struct world *world, struct group **group, const int *ranks, int count,
                              const char *name) {
    *group = group_new(world, sizeof(struct paper_group), &(struct group_members){ranks, count, name});
    return 0;
}

// Ranks of a group on the same machine are adjacent.
static void count_machines(struct paper_group *group, int node) {
    int own = group->base.ranks[group->base.rank] / node, last = -1;
    for (int i = 0; i < group->base.size; i++) {
        int machine = group->base.ranks[i] / node;
        group->machines += machine != last;
        group->neighbours += machine == own;
        last = machine;
    }
}

// How often one rank must double to reach this many.
static double doublings(int count) {
    return ceil(log2(count));
}

static double reached(const struct comm_path *path, double bytes) {
    return path->bytes_per_second * bytes / (bytes + path->half_bytes);
}

// In a ring every byte passes each rank's bottleneck (size - 1) / size times per pass. Between machines each rank has
// its own part of the network, and the ranks of the group use theirs together.
static double ring_seconds(struct paper_group *group, double bytes, double passes) {
    const struct comm_fabric *fabric = &paper_world_of(group->base.world)->fabric;
    if (group->machines == 0)
        count_machines(group, fabric->node);
    double size = group->base.size, moved = passes * bytes * (size - 1) / size;
    struct comm_path path = fabric->inside;
    double start = passes * fabric->inside.seconds * doublings(group->neighbours);
    if (group->machines > 1) {
        double share = (double)group->neighbours / fabric->node;
        path = fabric->across;
        path.bytes_per_second = fmin(path.bytes_per_second * group->neighbours, fabric->inside.bytes_per_second);
        path.half_bytes *= share;
        start += passes * fabric->across.seconds * doublings(group->machines);
    }
    return start + (bytes > 0 ? moved / reached(&path, bytes) : 0);
}

// Every rank sends an equal part of its bytes to each rank and keeps one: directly, so bytes for other machines use
// only the rank's own part of the network, however few ranks of the group are on its machine. Bytes for the same
// machine travel in parallel. An exchange reaches 0.89 of the bandwidth of rings (SimuMax's B200, 2026-05: 537 of 606
// GB/s). Between machines over EFA, NCCL's exchange reaches half of its rate with 20 MB per rank (rings: 32 MB), and
// less with more than 8 machines: 0.87 of it on 16, 0.79 on 32 (awslabs/awsome-distributed-ai, ep-backend-comparison,
// p5, p6-b300).
static double exchange_seconds(struct paper_group *group, double bytes) {
    const struct comm_fabric *fabric = &paper_world_of(group->base.world)->fabric;
    const double reaches = 0.89, half = 20.0 / 32, crowd = 8, slower = 100;
    if (group->machines == 0)
        count_machines(group, fabric->node);
    double part = bytes / group->base.size;
    struct comm_path inside = fabric->inside, across = fabric->across;
    inside.bytes_per_second *= reaches;
    across.half_bytes *= half;
    if (fabric->exchange > 0)
        across.bytes_per_second = fmin(across.bytes_per_second, fabric->exchange);
    across.bytes_per_second /= 1 + fmax(0, group->machines - crowd) / slower;
    double near = inside.seconds * doublings(group->neighbours), far = 0;
    if (bytes > 0)
        near += part * (group->neighbours - 1) / reached(&inside, bytes);
    if (group->machines > 1) {
        far = across.seconds * doublings(group->machines);
        if (bytes > 0)
            far += part * (group->base.size - group->neighbours) / reached(&across, bytes);
    }
    return fmax(near, far);
}

// Starts a collective of the group that takes this many seconds.
static void *begin(struct group *group, double seconds) {
    struct paper_group *paper = (struct paper_group *)group;
    struct device *device = group->world->device;
    double start = fmax(paper->busy_until, device_twin_time(device));
    struct paper_request *request = memory_alloc(sizeof *request);
    request->start = start;
    request->end = paper->busy_until = start + seconds * (1 - paper->hidden);
    return request;
}

static bool tells_time(const struct group *group) {
    const struct device *device = group->world->device;
    return paper_world_of(group->world)->has_fabric && device && device_tells_time(device);
}

static void *begin_ring(struct group *group, double bytes, double passes) {
    return tells_time(group) ? begin(group, ring_seconds((struct paper_group *)group, bytes, passes)) : NULL;
}

// Stalls the compute stream until the collective has ended.
static bool paper_test(struct group *group, void *handle) {
    struct paper_request *request = handle;
    struct device *device = group->world->device;
    struct paper_group *paper = (struct paper_group *)group;
    double now = device_twin_time(device), longer = paper->burden * fmax(0, fmin(now, request->end) - request->start);
    double end = fmax(request->end, now + longer);
    if (end > now) {
        paper->exposed += end - now;
        device_twin_await(device, end);
    }
    free(request);
    return true;
}

static void *paper_all_reduce(struct group *group, const struct tensor *x, enum reduction reduction) {
    (void)reduction;
    return begin_ring(group, (double)tensor_bytes(*x), 2);
}

static void *paper_all_gather(struct group *group, const struct tensor *whole, const struct tensor *part) {
    (void)part;
    return begin_ring(group, (double)tensor_bytes(*whole), 1);
}

static void *paper_reduce_scatter(struct group *group, const struct tensor *part, const struct tensor *whole) {
    (void)part;
    return begin_ring(group, (double)tensor_bytes(*whole), 1);
}

static void *paper_all_to_all(struct group *group, const struct comm_exchange *exchange) {
    size_t in = tensor_bytes(exchange->to), out = tensor_bytes(exchange->from);
    double bytes = (double)(in > out ? in : out);
    return tells_time(group) ? begin(group, exchange_seconds((struct paper_group *)group, bytes)) : NULL;
}

static void *paper_broadcast(struct group *group, const struct tensor *x, int root) {
    (void)root;
    return begin_ring(group, (double)tensor_bytes(*x), 1);
}

// Messages between stages arrive when the other stage has sent them, which a single rank on paper cannot know: they
// arrive at once, and the caller that runs the lists of all stages adds their time (world_message_seconds).
static void *paper_message(struct group *group, const struct tensor *x, int peer) {
    (void)group, (void)x, (void)peer;
    return NULL;
}

static void *paper_host_max_i64(struct group *group, int64_t *values, int count) {
    (void)group, (void)values, (void)count;
    return NULL;
}

static void *paper_host_all_gather_i64(struct group *group, int64_t *table, int count) {
    const int64_t *own = table + (size_t)group->rank * (size_t)count;
    for (int i = 0; i < group->size; i++)
        memmove(table + (size_t)i * (size_t)count, own, sizeof *table * (size_t)count);
    return NULL;
}

static void *paper_host_all_gather_rows_i64(struct group *group, int64_t *table, const int *firsts) {
    int length = firsts[group->rank + 1] - firsts[group->rank];
    for (int i = 0; i < group->size; i++)
        if (firsts[i + 1] - firsts[i] == length)
            memmove(table + firsts[i], table + firsts[group->rank], sizeof *table * (size_t)length);
    return NULL;
}

static void *paper_host_broadcast_i64(struct group *group, int64_t *values, int count, int root) {
    (void)group, (void)values, (void)count, (void)root;
    return NULL;
}

static const struct collective paper_collective = {
    .name = "paper",
    .is_imaginary = true,
    .group_create = paper_group_create,
    .group_free = group_drop,
    .world_free = self_world_free,
    .all_reduce = paper_all_reduce,
    .all_gather = paper_all_gather,
    .reduce_scatter = paper_reduce_scatter,
    .all_to_all = paper_all_to_all,
    .broadcast = paper_broadcast,
    .send = paper_message,
    .receive = paper_message,
    .test = paper_test,
    .host_max_i64 = paper_host_max_i64,
    .host_all_gather_i64 = paper_host_all_gather_i64,
    .host_all_gather_rows_i64 = paper_host_all_gather_rows_i64,
    .host_broadcast_i64 = paper_host_broadcast_i64,
};

void paper_world_open(struct world **world, struct device *device, int rank, int size) {
    *world = memory_alloc(sizeof(struct paper_world));
    (*world)->collective = &paper_collective;
    (*world)->device = device;
    (*world)->place = (struct world_place){.rank = rank, .size = size, .local_rank = 0, .local_size = 1};
}

void world_set_fabric(struct world *world, const struct comm_fabric *fabric) {
    CHECK(world->collective == &paper_collective && fabric->node > 0);
    struct paper_world *paper = (struct paper_world *)world;
    paper->fabric = *fabric;
    paper->has_fabric = true;
}

double world_message_seconds(const struct world *world, int from, int to, double bytes) {
    const struct comm_fabric *fabric = &paper_world_of(world)->fabric;
    const struct comm_path *path = from / fabric->node == to / fabric->node ? &fabric->inside : &fabric->across;
    return path->seconds + bytes / path->bytes_per_second;
}

void group_set_hidden(struct group *group, double part) {
    CHECK(group->world->collective == &paper_collective && part >= 0 && part < 1);
    ((struct paper_group *)group)->hidden = part;
}

void group_set_burden(struct group *group, double part) {
    CHECK(group->world->collective == &paper_collective && part >= 0 && part <= 1);
    ((struct paper_group *)group)->burden = part;
}

double group_exposed_seconds(const struct group *group) {
    CHECK(group->world->collective == &paper_collective);
    return ((const struct paper_group *)group)->exposed;
}
