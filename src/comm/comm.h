// The table of collectives. A world holds all ranks of a run; a group is some of them, in order. Code above names
// neither MPI nor NCCL: it starts a collective of a group and waits for it later, so that communication can overlap
// computation.
//
//  - A collective has a name ("gradients", "loss") and a deadline. A wait that outlasts the deadline dies with that
//    name, the group and the rank, and so ends the whole job (exit code 212) instead of hanging it. While ranks work
//    with files there is no deadline, see comm_patience_begin.
//  - Every rank of a group calls the same collectives in the same order with the same sizes.
//  - Buffers are contiguous tensors in the memory of the world's device. A collective starts after the operations
//    queued on the compute stream before it, and operations queued after the wait see its result. The buffer must not
//    be touched between start and wait. This is an order on the device: the host may pass a wait before the collective
//    has begun. So, as after any operation, the host may read or free memory only once the compute stream has passed
//    it, and other streams need events.
//  - Sums of fp32 tensors are computed in fp32, in rank order if the backend can promise that.
//  - In a group of one rank, collectives do nothing and return at once, whatever the backend.
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "base/error.h"
#include "base/library.h"
#include "comm/record.h"
#include "ops/ops.h"

#include <stddef.h>

enum reduction { REDUCE_SUM, REDUCE_MAX };

struct world;
struct group;

struct comm_request {
    struct group *group;
    struct group *carrier;  // the group whose backend moves it: itself, or for host values that of a wrapped world
    const char *name;
    const struct collective *collective;  // the carrier's
    double started;
    double due;        // not complete before this time, see struct link; 0 on a real link
    int64_t number;    // in the flight record
    int64_t sequence;  // among the collectives of the group; 0 for a send or receive
    int peer;          // the other side of a send or receive, a rank of the group; -1 for collectives of all
    enum collective_kind kind;
    int64_t bytes;  // as in the flight record
    bool is_small;  // timed with the coarse clock only
    void *handle;   // the backend's; NULL once the work is done
};

struct world_place {
    int rank, size;              // of the whole run
    int local_rank, local_size;  // on this machine
};

// Meeting point of ranks that know their place, without MPI.
struct world_meeting {
    struct world_place place;
    const char *address;  // of rank 0: a host name or an IP address
    int port;
    const char *token;  // identifies this job
    // Folder that all ranks can read, where rank 0 leaves a secret unless the token is one. NULL for none.
    const char *secret_folder;
    bool is_public_folder;  // other users may create files there
};

// A link that is slower than the real one, for tests and for rehearsing a cluster on one machine: collectives complete
// no sooner than a link of this bandwidth and latency would have carried them, one after the other. The data travels as
// usual; only completion is delayed.

struct link {
    double bytes_per_second;  // 0: the real link
    double latency_seconds;   // per collective
    double free_at;           // when all requests so far have been carried
};

// When a collective that starts now completes; 0 on the real link. `bytes` counts the larger side. A ring of `ranks`
// carries twice (ranks - 1) / ranks of them for a sum, once for a gather, a scatter or an all-to-all.
double link_carry(struct link *link, enum collective_kind kind, size_t bytes, int ranks, double now);

// This process's place and settings from the environment; found by the command line and passed down.
struct world_options {
    const char *backend;                  // "self", "mpi" or "tcp"; NULL for "self": one rank
    const struct world_meeting *meeting;  // for "tcp"
    // Transport of tensors between GPUs: "nccl" (an error if unavailable; no effect on CPUs), "mpi" (through the host),
    // or NULL for whichever works.
    const char *carrier;
    double deadline_seconds;
    // The folder where a rank whose collective outlasts the deadline leaves its flight record, flight-RANK.jsonl, and
    // looks for those of the others. If it is NULL: a folder of this run in `temporary_folder` if all ranks are on one
    // machine, otherwise the current folder, which machines may share. If both are NULL: none.
    const char *record_folder, *temporary_folder;
    struct link link;  // a slower link than the real one; zeroed for none
};

int world_open(struct world **world, const struct world_options *options, struct device *device);
// The libraries that worlds of this build load when they are opened: fills at most WORLD_MOST_LIBRARIES, returns how
// many.
enum { WORLD_MOST_LIBRARIES = 2 };
int world_libraries(const struct library **list);
// A world of `size` ranks of which only this one exists: collectives move nothing, are complete at once, and are
// counted (group_traffic). Host values stay those of this rank.
int world_open_twin(struct world **world, struct device *device, int rank, int size);
// Network of a world on paper: machines of `node` ranks each, in order of their numbers. If the device models time
// (device_set_rates), collectives take time too: each begins when the group's previous one has ended and the compute
// stream has reached it; a wait stalls the stream until it has ended.
struct comm_path {
    double seconds;           // for the smallest message, per step of the algorithm
    double bytes_per_second;  // that a rank reaches in long messages, each way
    double half_bytes;        // message length at which it reaches half of that
};
struct comm_fabric {
    int node;                         // ranks per machine
    struct comm_path inside, across;  // within a machine; between machines, if all its ranks send at the same time
    double exchange;                  // bytes/s of a rank to all others at once, between machines; 0: as `across`
};
void world_set_fabric(struct world *world, const struct comm_fabric *fabric);
// Seconds of a message between two ranks without other traffic.
double world_message_seconds(const struct world *world, int from, int to, double bytes);
// Hides this part of the group's time behind computation although the step waits for it: models programs that send
// tiles of a matmul while computing the next ones.
void group_set_hidden(struct group *group, double part);
// Slows computation during a collective of the group by this part of the time that they overlap: kernels that send
// occupy processors of the device.
void group_set_burden(struct group *group, double part);
// Seconds that this rank's compute stream has stalled in waits for collectives of the group, on paper.
double group_exposed_seconds(const struct group *group);
// Finds the place of this rank before a device is chosen; starts MPI if the backend is "mpi". Ranks that meet over TCP
// know their place already.
int world_start(const char *backend, struct world_place *place);
void world_close(struct world *world);  // called by all ranks at the successful end of a run
// Ends what world_start began, if no world was opened.
void world_stop(const char *backend);
// This rank is about to end the job: if it is between comm_patience_begin and _end, it stops waiting for other ranks.
void world_failed(struct world *world);
// Called by a rank that has failed: ends all ranks with this exit code. Returns if there is only one.
void world_abort(const char *backend, enum exit_code code);
struct world_place world_place(const struct world *world);
struct group *world_group_all(struct world *world);
// Creates a group of the given ranks in this order. Every rank of the world must call, with its own group or with count
// 0.
int world_group(struct world *world, struct group **group, const int *ranks, int count, const char *name);
int group_rank(const struct group *group);
int group_size(const struct group *group);
// Whether that rank of the group is on the same machine as this one.
bool group_is_neighbour(const struct group *group, int rank);
// The name of the machine that a rank of the group is on; "" on paper. It lives as long as the world.
const char *group_host(const struct group *group, int rank);
// How many ranks of the group compute on this rank's device, itself included. Only devices that cannot be shared freely
// are distinguished. A group that is NULL is this rank alone.
int group_device_sharers(const struct group *group);
// Traffic of this rank in this group's collectives of this kind; tensors only.
struct traffic group_traffic(const struct group *group, enum collective_kind kind);
const struct record *world_record(const struct world *world);
const char *world_backend(const struct world *world);  // "self", "mpi", "nccl", …

// x becomes the sum (or maximum) over the group, on every rank.
struct comm_request comm_all_reduce_start(struct group *group, struct tensor x, enum reduction reduction,
                                          const char *name);
// Sets `whole` to the concatenation of every rank's `part`; `part` may be this rank's slice of `whole`.
struct comm_request comm_all_gather_start(struct group *group, struct tensor whole, struct tensor part,
                                          const char *name);
// Sets `part` to this rank's slice of the sum of `whole`; `part` may be that slice itself.
struct comm_request comm_reduce_scatter_start(struct group *group, struct tensor part, struct tensor whole,
                                              const char *name);
// Rows that the ranks of a group send each other, any number of them, including none. In `from` they are ordered by the
// rank that they go to, in `to` by the rank that they come from; further rows stay as they are. Rows have the same
// length in both tensors, which do not overlap. A side without rows may be a zeroed tensor. The counts are read at the
// start.
struct comm_exchange {
    struct tensor to, from;
    const int64_t *received, *sent;  // (size): how many rows from each rank, and to it
};
struct comm_request comm_all_to_all_start(struct group *group, const struct comm_exchange *exchange, const char *name);
struct comm_request comm_broadcast_start(struct group *group, struct tensor x, int root, const char *name);
// Prepares a group of two ranks for messages from the first to the second; both call. Without it the first message may
// block the host of one side until the other side's host reaches it too, so that two hosts wait for each other.
void comm_connect(struct group *group);
struct comm_request comm_send_start(struct group *group, struct tensor x, int to, const char *name);
struct comm_request comm_receive_start(struct group *group, struct tensor x, int from, const char *name);
// Lets the request make progress during computation: if a backend's transfers stall between calls, it makes those calls
// from a thread of its own until the request is waited for.
void comm_overlap(struct comm_request *request);
void comm_wait(struct comm_request *request);

// Seconds that this rank's host has spent in comm_wait so far, for any group. Waits of the device do not count.
double comm_waited_seconds(const struct group *group);

// Whether collectives of the group may be part of a device's recording (device_record_begin), if they are both started
// and waited for within it.
bool comm_records(const struct group *group);
// A recording that contains collectives of this group has been replayed: if one of them hangs, the message has this
// name.
void comm_replayed(struct group *group, const char *name);

// Start and wait in one.
void comm_all_reduce(struct group *group, struct tensor x, enum reduction reduction, const char *name);
void comm_broadcast(struct group *group, struct tensor x, int root, const char *name);
void comm_barrier(struct group *group, const char *name);
// Host values, for decisions that all ranks must share (a signal has arrived, a checkpoint is saved).
void comm_max_i64(struct group *group, int64_t *values, int count, const char *name);
// `table` (size, count): every rank has set its own row and gets those of the others.
void comm_all_gather_i64(struct group *group, int64_t *table, int count, const char *name);
// comm_all_gather_i64 with rows of different lengths: a rank's row is [firsts[rank], firsts[rank + 1]) of `table`.
// `firsts` has size + 1 entries, the first of them 0, and is the same on every rank.
void comm_all_gather_rows_i64(struct group *group, int64_t *table, const int *firsts, const char *name);
void comm_broadcast_i64(struct group *group, int64_t *values, int count, int root, const char *name);
// Whether all ranks of the group succeeded in something they did with files: 0, or -1 on every rank, with the message
// and the number of the first rank that failed.
int comm_agree(struct group *group, int status, const char *name);
// Sends a text of rank `root` to the others, which get a copy to free.
void comm_broadcast_text(struct group *group, char **text, int root, const char *name);

// Between these two, no wait of this rank has a deadline: some ranks work with files for an unknown time, and others
// wait for them. All ranks of the world call both, with the group of all ranks; the second returns when all ranks have
// called it. A rank that is killed or stopped in the meantime is still noticed by the deadline, which ends the job
// (exit code 212), see pulse_start in backend.h. Calls may be nested. `what` names the work and must live as long as
// the program.
void comm_patience_begin(struct group *all, const char *what);
void comm_patience_end(struct group *all);

#endif
