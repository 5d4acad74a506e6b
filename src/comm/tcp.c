// A world formed over TCP alone, for GPU ranks that were not started by MPI (torchrun, Kubernetes Jobs): rank 0 waits
// at MASTER_ADDR:MASTER_PORT, and the others connect to it. It carries host values only, among them NCCL's ids; tensors
// are left to NCCL, and ranks on CPUs are told to use MPI.
//
// Every group is a star of its own around its first rank. That rank listens on a free port, and all ranks learn all
// ports and addresses through the star of the whole world.
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "comm/backend.h"
#include "comm/star.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tcp_world {
    struct world base;
    struct star star;
    struct star_options options;
    struct sockaddr_storage own;         // where this rank listens for groups
    struct sockaddr_storage *addresses;  // of every rank
};

struct tcp_group {
    struct group base;
    struct star star;
};

// Waits for an exchange of the whole world while the world is being opened.
static void world_wait(const struct tcp_world *w, struct star_exchange *x) {
    double until = clock_seconds() + w->options.deadline_seconds;
    while (!star_test(x)) {
        clock_sleep(1e-4);
        if (clock_seconds() > until)
            die_code(EXIT_CODE_HANG, "the ranks of the job do not come together within %.0f s",
                     w->options.deadline_seconds);
    }
}

// A table with a row of `count` numbers for every rank.
static struct star_exchange *start_table(struct star *star, int64_t *table, int count) {
    int *firsts = memory_alloc(sizeof *firsts * ((size_t)star->size + 1));
    for (int i = 0; i < star->size; i++)
        firsts[i + 1] = firsts[i] + count;
    struct star_exchange *x = star_start_rows(star, table, firsts);
    free(firsts);
    return x;
}

// The hub knows everyone's address from their connection, and its own; it tells all of them at once. Only the first
// bytes of an address are used, for any protocol.
static void share_addresses(struct tcp_world *w) {
    enum { WORDS = 4 };
    _Static_assert(sizeof(struct sockaddr_in6) <= WORDS * sizeof(int64_t), "an address fits");
    _Static_assert(sizeof(struct sockaddr_in) <= WORDS * sizeof(int64_t), "an address fits");
    int size = w->base.place.size;
    w->addresses = memory_alloc(sizeof *w->addresses * (size_t)size);
    int64_t *words = memory_alloc(sizeof *words * WORDS * (size_t)size);
    for (int i = 0; w->star.rank == 0 && i < size; i++)
        memcpy(words + WORDS * i, i == 0 ? &w->own : &w->star.links[i].address, WORDS * sizeof *words);
    world_wait(w, star_start(&w->star, STAR_FROM, 0, words, WORDS * size));
    for (int i = 0; i < size; i++)
        memcpy(&w->addresses[i], words + WORDS * i, WORDS * sizeof *words);
    free(words);
    w->own = w->addresses[w->star.rank];
}

static int tcp_group_create(struct world *world, struct group **group, const int *ranks, int count, const char *name) {
    struct tcp_world *w = (struct tcp_world *)world;
    struct tcp_group *g = (struct tcp_group *)group_new(world, sizeof *g, &(struct group_members){ranks, count, name});
    int mine = g ? g->base.rank : -1, size = world->place.size, listener = -1, status = 0;
    int64_t *ports = memory_alloc(sizeof *ports * (size_t)size);
    if (mine == 0 && count > 1) {
        int port = 0;
        struct sockaddr_storage address = star_with_port(&w->own, 0);
        status = star_listen(&address, &listener, &port);
        ports[world->place.rank] = status == 0 ? port : -1;
    }
    world_wait(w, start_table(&w->star, ports, 1));
    if (g && status == 0) {
        struct star_options options = w->options;
        options.name = name;
        options.rank = mine;
        options.size = count;
        struct sockaddr_storage hub = star_with_port(&w->addresses[ranks[0]], (int)ports[ranks[0]]);
        if (count > 1)
            status = mine == 0 ? star_gather(&g->star, &options, listener) : star_join(&g->star, &options, &hub);
    }
    *group = g ? &g->base : NULL;
    if (listener >= 0)
        close(listener);
    free(ports);
    return status;
}

static void tcp_group_free(struct group *group) {
    struct tcp_group *g = (struct tcp_group *)group;
    star_close(&g->star);
    group_drop(group);
}

static void tcp_world_free(struct world *world) {
    struct tcp_world *w = (struct tcp_world *)world;
    star_close(&w->star);
    free(w->addresses);
    free(w);
}

static void *tcp_host_max_i64(struct group *group, int64_t *values, int count) {
    return star_start(&((struct tcp_group *)group)->star, STAR_MAX, 0, values, count);
}

static void *tcp_host_all_gather_i64(struct group *group, int64_t *table, int count) {
    return start_table(&((struct tcp_group *)group)->star, table, count);
}

static void *tcp_host_all_gather_rows_i64(struct group *group, int64_t *table, const int *firsts) {
    return star_start_rows(&((struct tcp_group *)group)->star, table, firsts);
}

static void *tcp_host_broadcast_i64(struct group *group, int64_t *values, int count, int root) {
    return star_start(&((struct tcp_group *)group)->star, STAR_FROM, root, values, count);
}

static bool tcp_test(struct group *group, void *handle) {
    (void)group;
    return star_test(handle);
}

static const struct collective tcp_collective = {
    .name = "tcp",
    .group_create = tcp_group_create,
    .group_free = tcp_group_free,
    .world_free = tcp_world_free,
    .test = tcp_test,
    .host_max_i64 = tcp_host_max_i64,
    .host_all_gather_i64 = tcp_host_all_gather_i64,
    .host_all_gather_rows_i64 = tcp_host_all_gather_rows_i64,
    .host_broadcast_i64 = tcp_host_broadcast_i64,
};

static int come_together(struct tcp_world *w, const struct world_meeting *meeting) {
    struct sockaddr_storage hub;
    if (w->options.rank != 0) {
        TRY(star_resolve(meeting->address, meeting->port, false, &hub));
        return star_join(&w->star, &w->options, &hub);
    }
    int listener, port;
    TRY(star_resolve(meeting->address, meeting->port, true, &w->own));
    TRY(star_listen(&w->own, &listener, &port));
    int status = star_secret_leave(&w->options);
    if (status == 0)
        status = star_gather(&w->star, &w->options, listener);
    star_secret_remove(&w->options.secret);
    close(listener);
    return status;
}

int tcp_world_open(struct world **world, struct device *device, const struct world_options *options) {
    const struct world_meeting *meeting = options->meeting;
    struct tcp_world *w = memory_alloc(sizeof *w);
    w->base.collective = &tcp_collective;
    w->base.device = device;
    w->base.place = meeting->place;
    w->options =
        (struct star_options){.name = "the job",
                              .rank = meeting->place.rank,
                              .size = meeting->place.size,
                              .secret = {.folder = meeting->secret_folder, .is_public = meeting->is_public_folder},
                              .deadline_seconds = options->deadline_seconds};
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, meeting->token, strlen(meeting->token));
    sha256_final(&hash, w->options.key);
    if (come_together(w, meeting) < 0) {
        free(w);
        return -1;
    }
    // Groups need no file: everybody has the whole key now.
    memcpy(w->options.key, w->star.key, sizeof w->options.key);
    w->options.secret = (struct star_secret){0};
    share_addresses(w);
    *world = &w->base;
    return 0;
}
