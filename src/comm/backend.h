// What stands behind comm.h: a backend fills `struct collective` and embeds `struct world` and `struct group`.
// comm.c does what all share (groups of one, checks, deadlines); a backend holds only what differs.
#ifndef COMM_BACKEND_H
#define COMM_BACKEND_H

#include "base/buffer.h"
#include "comm/comm.h"
#include "comm/record.h"
#include "comm/watch.h"

// Tensors come by address: a copy of a view costs a small message more than its start does.
struct collective {
    const char *name;
    int (*group_create)(struct world *world, struct group **group, const int *ranks, int count, const char *name);
    void (*group_free)(struct group *group);
    void (*world_free)(struct world *world);
    void *(*all_reduce)(struct group *group, const struct tensor *x, enum reduction reduction);
    void *(*all_gather)(struct group *group, const struct tensor *whole, const struct tensor *part);
    void *(*reduce_scatter)(struct group *group, const struct tensor *part, const struct tensor *whole);
    void *(*broadcast)(struct group *group, const struct tensor *x, int root);
    void *(*send)(struct group *group, const struct tensor *x, int to);
    void *(*receive)(struct group *group, const struct tensor *x, int from);
    bool (*test)(struct group *group, void *handle);  // true: done, and the handle is freed; with the watch's lock
    // Lets the device wait: what it is given from now on comes after the collective. True: the handle stays until test
    // says that it is done. False: the device records, there is no end to see, and the handle is gone. NULL: the host
    // waits. A world whose table has it has a watch.
    bool (*order)(struct group *group, void *handle);
    // A handle for the end of all that the device has been given so far; NULL: collectives cannot be recorded.
    void *(*mark)(struct group *group);
    void (*overlap)(struct group *group, void *handle);  // see comm_overlap; NULL: transfers need no help
    // Another thread will ask for host values of a group of its own, or does no more; the owner tells it while none
    // runs. False: MPI may be called by one thread only. NULL: nothing to tell.
    bool (*share)(struct world *world, bool is_shared);
    // The group of a wrapped world that carries host values; NULL: this one's own do.
    struct group *(*host_group)(struct group *group);
    // Host values; these too are waited for with test.
    void *(*host_max_i64)(struct group *group, int64_t *values, int count);
    void *(*host_broadcast_i64)(struct group *group, int64_t *values, int count, int root);
};

enum { WORLD_MAX_GROUPS = 512 };

// The name of a rank's machine, its end cut off where it is longer, in the form of host values.
struct host_name {
    int64_t words[8];
};

struct world {
    const struct collective *collective;
    struct device *device;
    struct world_place place;
    double deadline_seconds;
    struct group *groups[WORLD_MAX_GROUPS];  // all groups made, freed with the world; the first holds all ranks
    int group_count;
    struct record record;
    struct watch *watch;  // see watch.h; NULL where the host does all waiting
    struct link link;
    const char *record_folder;  // where the record is written when a collective hangs; NULL: nowhere
    struct host_name *hosts;    // (size + 1), see hosts.c
    struct pulse *pulse;        // NULL: none, see pulse.h
    int patience;               // how many comm_patience_begin have not ended
};

struct group {
    struct world *world;
    char *name;
    int rank, size;
    int *ranks;  // (size) their numbers in the world
    struct traffic traffic[COLLECTIVE_KINDS];
    int64_t collectives;  // begun so far, those between two ranks not counted: the same number on all that have come
};

// Fills world->hosts; all ranks call, once the group of all is there.
void hosts_gather(struct world *world);
// A number that ranks of this run share and those of an earlier one did not.
int64_t hosts_run(const struct world *world);
// "rank 1 on n2".
void hosts_name(const struct world *world, int rank, struct buffer *out);
// "rank 1 on n2, …": the other ranks of a group.
void hosts_name_peers(const struct group *group, struct buffer *out);

// Whether NCCL can carry the tensors of these ranks. All ranks of `host` call and get the same answer.
enum nccl_fit {
    NCCL_MISSING,  // it is not built in, or some device is no GPU
    NCCL_SHARED,   // ranks share a GPU: it refuses them, unless NCCL_HOSTID says that they are on different machines
    NCCL_FITS
};
enum nccl_fit nccl_fit(struct device *device, struct world *host);
// Collectives that wrap another world: `host` (NULL for a single rank) carries ids and host values, and is freed with
// it.
int nccl_world_open(struct world **world, struct device *device, struct world *host);

int self_world_open(struct world **world, struct device *device);
int mpi_world_start(struct world_place *place);
void mpi_world_stop(void);
void mpi_world_abort(enum exit_code code);
int mpi_world_open(struct world **world, struct device *device);
// Host values only; see tcp.c.
int tcp_world_open(struct world **world, struct device *device, const struct world_options *options);

#endif
