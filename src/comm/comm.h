// The table of collectives. A world holds all ranks of a run; a group is some of them, in order. Code above names
// neither MPI nor NCCL: it asks its group for a collective by name, starts it and later waits for it, so that
// communication can run under computation.
//
//  - A collective names itself ("gradients", "loss"), and has a deadline: a wait that outlasts it dies with that
//    name, the group and the rank, which ends the whole job (exit code 212) instead of hanging it. Where ranks work
//    with files it has none, see comm_patience_begin.
//  - Every rank of a group calls the same collectives in the same order with the same sizes.
//  - Buffers are contiguous tensors in the memory of the world's device. Start is ordered after the operations queued
//    on the compute stream so far, and operations queued after wait see the result. A buffer must not be touched
//    between the two. That is order on the device: the host may be past a wait before the collective has begun, so it
//    reads and frees memory as after any operation, when the compute stream has passed, and other streams need events.
//  - Sums are fp32 for fp32 tensors, in rank order where the backend can promise it.
//  - A group of one rank does nothing, at once, whatever the backend.
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include "base/error.h"
#include "comm/link.h"
#include "comm/record.h"
#include "ops/ops.h"

enum reduction { REDUCE_SUM, REDUCE_MAX };

struct world;
struct group;

struct comm_request {
    struct group *group;
    const char *name;
    const struct collective *collective;
    double started;
    double due;        // not complete before, see link.h; 0 where the link is the real one
    int64_t number;    // in the flight record
    int64_t sequence;  // among the collectives of the group
    int peer;          // whom it is sent to or received from, a rank of the group; -1: it is everybody's
    bool is_patient;   // has no deadline, see comm_patience_begin
    bool is_small;     // timed to the tick of the clock only
    void *handle;      // the backend's; NULL where the work is done
};

struct world_place {
    int rank, size;              // of the whole run
    int local_rank, local_size;  // on this machine
};

// Where ranks that know their place meet, without MPI.
struct world_meeting {
    struct world_place place;
    const char *address;  // of rank 0: a host name or number
    int port;
    const char *token;  // what tells this job from others
};

// What the environment says about this process, found by the command line and passed down.
struct world_options {
    const char *backend;                  // "self", "mpi" or "tcp"
    const struct world_meeting *meeting;  // of "tcp"
    // What carries tensors between the GPUs of several ranks: "nccl", or it is an error; "mpi", through the host; or
    // NULL, whichever can.
    const char *carrier;
    double deadline_seconds;
    // Where a rank whose collective outlasts the deadline leaves its flight record, as flight-RANK.jsonl, and looks
    // for those of the others; NULL: nowhere.
    const char *record_folder;
    struct link link;  // a slower link than the real one; zeroed for none
};

int world_open(struct world **world, const struct world_options *options, struct device *device);
// Finds the place before a device is chosen: MPI is started here where the backend is "mpi". Those who meet over TCP
// know theirs.
int world_start(const char *backend, struct world_place *place);
void world_close(struct world *world);  // all ranks, at the good end of a run
// Ends what world_start began where no world was opened.
void world_stop(const char *backend);
// This rank will end the job: where it is in the middle of comm_patience_begin and _end, it leaves that to itself.
void world_failed(struct world *world);
// One rank has failed: ends all of them with this exit code. Returns where there is only one.
void world_abort(const char *backend, enum exit_code code);
struct world_place world_place(const struct world *world);
struct group *world_group_all(struct world *world);
// A group of the given ranks, in this order; every rank of the world must call, with its own group or with count 0.
int world_group(struct world *world, struct group **group, const int *ranks, int count, const char *name);
int group_rank(const struct group *group);
int group_size(const struct group *group);
const char *group_name(const struct group *group);
// Whether a rank of the group is on this one's machine.
bool group_is_neighbour(const struct group *group, int rank);
// What this rank has given this group so far, tensors of one kind of collective.
struct traffic group_traffic(const struct group *group, enum collective_kind kind);
const struct record *world_record(const struct world *world);
const char *world_backend(const struct world *world);  // "self", "mpi", "nccl", …

// x becomes the sum (or maximum) over the group, on every rank.
struct comm_request comm_all_reduce_start(struct group *group, struct tensor x, enum reduction reduction,
                                          const char *name);
// whole is the concatenation of every rank's part; part may be whole's own slice.
struct comm_request comm_all_gather_start(struct group *group, struct tensor whole, struct tensor part,
                                          const char *name);
// part becomes this rank's slice of the sum of whole; part may be whole's own slice.
struct comm_request comm_reduce_scatter_start(struct group *group, struct tensor part, struct tensor whole,
                                              const char *name);
struct comm_request comm_broadcast_start(struct group *group, struct tensor x, int root, const char *name);
struct comm_request comm_send_start(struct group *group, struct tensor x, int to, const char *name);
struct comm_request comm_receive_start(struct group *group, struct tensor x, int from, const char *name);
// The request is to go on under computation: a backend whose transfers stand still between calls makes those calls from
// a thread of its own until it is waited for.
void comm_overlap(struct comm_request *request);
void comm_wait(struct comm_request *request);

// Whether collectives of the group may be part of a device's recording (device_record_begin): those that are started
// and waited for within it.
bool comm_records(const struct group *group);
// A recording with collectives of this group has been replayed: one of them that hangs is noticed by this name.
void comm_replayed(struct group *group, const char *name);

// Start and wait in one.
void comm_all_reduce(struct group *group, struct tensor x, enum reduction reduction, const char *name);
void comm_broadcast(struct group *group, struct tensor x, int root, const char *name);
void comm_barrier(struct group *group, const char *name);
// Host values, for decisions all ranks must share (a signal arrived, a checkpoint was saved).
void comm_max_i64(struct group *group, int64_t *values, int count, const char *name);
void comm_broadcast_i64(struct group *group, int64_t *values, int count, int root, const char *name);
// Whether all of the group have been successful at something they did with files: 0, or -1 on every rank with the
// message of the first that was not, and its number.
int comm_agree(struct group *group, int status, const char *name);
// A text of rank `root`, which the others get a copy of to free.
void comm_broadcast_text(struct group *group, char **text, int root, const char *name);

// Between these two no wait of this rank's has a deadline: some ranks work with files, which takes as long as it takes,
// and others wait for them. All ranks of the world call both, with the group of all; the second returns when all have
// called it. A rank that is killed or stopped meanwhile is noticed nevertheless, by the deadline, and ends the job
// (exit code 212), see pulse.h. They may be nested. `what` names the work and lives as long as the program.
void comm_patience_begin(struct group *all, const char *what);
void comm_patience_end(struct group *all);

#endif
