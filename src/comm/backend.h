// Interface of the backends of comm.h. A backend fills in `struct collective` and embeds `struct world` and `struct
// group`. comm.c has the common code (groups of one, checks, deadlines); a backend has only what differs.
#ifndef COMM_BACKEND_H
#define COMM_BACKEND_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/library.h"
#include "comm/comm.h"
#include "comm/record.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

// Tensors are passed by address: for a small message, copying views would cost more than starting it.
struct collective {
    const char *name;
    bool is_imaginary;  // moves no data: the host's clock means nothing, and no spans are recorded
    int (*group_create)(struct world *world, struct group **group, const int *ranks, int count, const char *name);
    void (*group_free)(struct group *group);
    void (*world_free)(struct world *world);
    void *(*all_reduce)(struct group *group, const struct tensor *x, enum reduction reduction);
    void *(*all_gather)(struct group *group, const struct tensor *whole, const struct tensor *part);
    void *(*reduce_scatter)(struct group *group, const struct tensor *part, const struct tensor *whole);
    void *(*all_to_all)(struct group *group, const struct comm_exchange *exchange);  // the tensors have no further rows
    void *(*broadcast)(struct group *group, const struct tensor *x, int root);
    void (*connect)(struct group *group);  // see comm_connect; NULL: messages need no preparation
    void *(*send)(struct group *group, const struct tensor *x, int to);
    void *(*receive)(struct group *group, const struct tensor *x, int from);
    bool (*test)(struct group *group, void *handle);  // true: done, and the handle is freed; with the watch's lock
    // Makes the device wait: work enqueued after this call runs after the collective. True: the handle stays valid
    // until `test` returns true. False: the device is recording, the end cannot be observed, and the handle is freed.
    // NULL if the host waits itself. A world whose table has this entry has a watch.
    bool (*order)(struct group *group, void *handle);
    // For a trace: when the collective began and ended on its stream, as stamps of the device (see device_stamp); NULL
    // if the host waits itself. Called before the handle of `order` is freed.
    void (*stamps)(struct group *group, const void *handle, int64_t stamps[2]);
    // A handle for the end of all work enqueued on the device so far; NULL if collectives cannot be recorded.
    void *(*mark)(struct group *group);
    void (*overlap)(struct group *group, void *handle);  // see comm_overlap; NULL: transfers need no help
    // Another thread is about to use host values of a group of its own, or has stopped doing so; told by the owning
    // thread while that thread does not run. False if MPI may be called by one thread only. NULL if there is nothing to
    // tell.
    bool (*share)(struct world *world, bool is_shared);
    // The group of a wrapped world that carries host values; NULL if this group carries its own.
    struct group *(*host_group)(struct group *group);
    // Host values; these are waited for with `test` as well.
    void *(*host_max_i64)(struct group *group, int64_t *values, int count);
    void *(*host_all_gather_i64)(struct group *group, int64_t *table, int count);
    void *(*host_all_gather_rows_i64)(struct group *group, int64_t *table, const int *firsts);
    void *(*host_broadcast_i64)(struct group *group, int64_t *values, int count, int root);
};

enum { WORLD_MAX_GROUPS = 2048 };

// Facts that each rank sends to all others when the world opens, as host values.
struct host_name {
    int64_t words[8];   // the name of its machine, cut off if it is too long
    int64_t device[2];  // the identity of its device; zeros if ranks may share it freely
    int64_t start;      // when it opened the world, in microseconds
    int64_t lacks_nccl;
    int64_t threads;     // compute threads
    int64_t processors;  // in its affinity mask
    int64_t mask;        // a hash of that mask
    int64_t quota;       // its cgroup CPU quota, in processors
};
enum { HOST_NAME_WORDS = sizeof(struct host_name) / sizeof(int64_t) };

// ---- pauses between two looks at an incomplete collective ----

//  - A rank with a processor to itself yields, which is the fastest way to learn of the end.
//  - A yield gives the processor to another program for a whole slice of time, milliseconds, if one is ready to run; a
//    rank that sleeps gets it back within about 100 µs of its own accord. So after a yield that took long, ranks sleep.
//  - If the ranks of the machine have more threads than processors, long waits sleep in any case: the ranks that
//    compute need the processor.
//  - Otherwise only very long waits sleep, to save power, and briefly.
//
// A sleep is bounded by a share of the wait so far, so the end is noticed late by at most that share. If ranks
// outnumber processors, the wait starts over after a look that moved data: a collective takes many such looks.

// Facts about the machine, kept between waits.
struct pause_manner {
    bool is_crowded;      // the ranks of this machine have more threads than processors
    double busy_until;    // another program had the processor a moment ago
    double busy_seconds;  // length of the last busy interval
    struct clock *clock;  // see base/clock.h
};

// One wait; zeroed when it begins.
struct pause {
    int64_t looks;
    double began;    // when it first yielded or slept, or last moved data
    double resumed;  // when it last returned to the caller; 0: not yet
};
// After a look that found nothing. `most` bounds a sleep, for waits whose end is known; HUGE_VAL if it is not.
void pause_after_look(struct pause *pause, struct pause_manner *manner, double most);

struct world {
    const struct collective *collective;
    struct device *device;
    struct world_place place;
    double deadline_seconds;
    struct clock *clock;                     // of the deadline, see base/clock.h
    struct group *groups[WORLD_MAX_GROUPS];  // all groups created, freed with the world; the first holds all ranks
    int group_count;
    struct record record;
    struct watch *watch;  // see pump.h; NULL if the host does all the waiting
    struct link link;
    bool lacks_nccl;             // this rank would use NCCL and could not load it
    const char *record_folder;   // where the record is written when a collective hangs; NULL for nowhere
    char *run_folder;            // record_folder if it is this run's own, created when it is needed; else NULL
    struct host_name *hosts;     // (size), see hosts.c; NULL on paper
    struct pulse *pulse;         // NULL if there is none, see below
    struct pause_manner manner;  // of the host's waits
    double waited_seconds;       // by the host, in comm_wait
    int patience;                // nesting depth of comm_patience_begin
};

struct group {
    struct world *world;
    char *name;
    int rank, size;
    int *ranks;  // (size): their numbers in the world
    struct traffic traffic[COLLECTIVE_KINDS];
    int64_t collectives;  // begun so far, except between two ranks: equal on all ranks that have arrived
};

// A group in `bytes` of memory, which begin with it; NULL if this rank is not a member.
struct group_members {
    const int *ranks;
    int count;
    const char *name;
};
struct group *group_new(struct world *world, size_t bytes, const struct group_members *members);
void group_drop(struct group *group);  // frees what group_new took

// Sets world->hosts. All ranks call; there may be no groups yet.
void hosts_gather(struct world *world);
// A number that identifies this run: equal on all ranks, different from earlier runs.
int64_t hosts_run(const struct world *world);
// "rank 1 on n2".
void hosts_name(const struct world *world, int rank, struct buffer *out);
// "rank 1 on n2, …": the other ranks of a group.
void hosts_name_peers(const struct group *group, struct buffer *out);

// Whether the ranks of this machine have more threads than processors: those of this rank's affinity mask, or of the
// quota that all of them share.
bool hosts_are_crowded(const struct world *world);

// Which ranks of a world have a GPU; the answer is the same on all ranks.
enum devices_fit {
    DEVICES_HOST,    // no rank has a GPU
    DEVICES_MIXED,   // some have; `out` names those who have none: "rank 1 on n2, rank 3 on n4"
    DEVICES_SHARED,  // all have, but not each their own; `out` names two: "rank 0 on n2 and rank 7 on n2 share a GPU"
    DEVICES_OWN
};
enum devices_fit devices_find(const struct world *world, struct buffer *out);
// Names the ranks that could not load NCCL ("rank 1 on n2, rank 3 on n4"); false if there are none.
bool hosts_lack_nccl(const struct world *world, struct buffer *out);

// Libraries that the backends load when they are opened; NULL if the program was built without MPI, or the module for
// GPUs is missing or was built without NCCL.
const struct library *nccl_library(void);
const struct library *mpi_library(void);
int nccl_load(void);
// NCCL refuses ranks that share a GPU unless NCCL_HOSTID says that they are on different machines. A world that wraps
// another: `host` (NULL for a single rank) carries ids and host values, and is freed with it.
int nccl_world_open(struct world **world, struct device *device, struct world *host);

int self_world_open(struct world **world, struct device *device);
void self_world_free(struct world *world);
void paper_world_open(struct world **world, struct device *device, int rank, int size);
int mpi_world_start(struct world_place *place);
void mpi_world_stop(void);
void mpi_world_abort(enum exit_code code);
int mpi_world_open(struct world **world, struct device *device);
// For host values only; see tcp.c.
int tcp_world_open(struct world **world, struct device *device, const struct world_options *options);

// ---- spans in a trace (base/trace.h) ----

// Each collective is a span of its own, from its start to its end, and the wait for it
// is one on the track of the waiter, the host or the device.

// The host has waited for a request.
void request_trace(const struct comm_request *request, double began, double ended);
// Makes the device wait, between two stamps if there is a trace; false if the wait is recorded (struct collective).
bool request_order(struct comm_request *request);

// ---- the pulse of ranks that work with files ----

// Work with files has no deadline: a rank waiting for another's files would
// mistake a slow disk for a hang. Instead, between comm_patience_begin and _end, every rank has a thread that answers
// the others while the rank itself reads and writes. It does so in rounds, each a maximum over all ranks of "I am not
// done yet", until no rank says so. A rank whose thread does not answer within the deadline is not slow but gone:
// killed, stopped, or on a machine that is. The rounds have a group of their own, on the backend that carries host
// values, so they do not mix with the ranks' other messages.

// All ranks call. Returns NULL for a single rank, and if the backend allows calls from one thread only: then waits for
// files have no limit, and noticing a lost rank is left to the launcher.
int pulse_open(struct pulse **pulse, struct world *world);
void pulse_close(struct pulse *pulse);  // NULL is fine
// All ranks call both; the second returns when all have called it. `what` must live as long as the program.
void pulse_start(struct pulse *pulse, const char *what);
void pulse_stop(struct pulse *pulse);
// Called instead of pulse_stop by a rank that is about to end the job. The pulse cannot be started again.
void pulse_drop(struct pulse *pulse);

// ---- MPI ----

// MPI's counts are int: ends the run if `count` elements are too many for one message.
static inline void mpi_check_count(const struct group *group, int64_t count, const char *what) {
    if (count > INT_MAX)
        die_code(EXIT_CODE_USAGE,
                 "%s in group \"%s\": %" PRId64 " elements of a rank, and MPI counts up to %d; give a smaller "
                 "--micro-batch-size, a larger --context-parallel-size for keys and values, or a smaller "
                 "--ddp-bucket-size for parameters; NCCL has no such limit",
                 what, group->name, count, INT_MAX);
}

#endif
