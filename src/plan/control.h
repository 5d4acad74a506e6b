// Simulates the control plane of a run: messages of TCP ranks by way of rank 0, file system operations of saving and
// loading, and the time to report a hanging rank. Tables with a row per rank are sent to all ranks, and ranks read each
// other's files: this shows which costs grow faster than the number of ranks.
#ifndef PLAN_CONTROL_H
#define PLAN_CONTROL_H

#include "parallel/mesh.h"
#include <stdbool.h>

enum control_phase {
    CONTROL_JOIN,          // all ranks connect to rank 0
    CONTROL_ADDRESSES,     // rank 0 sends all ranks' addresses to all ranks
    CONTROL_HOSTS,         // names of machines, devices
    CONTROL_GROUPS,        // ports of the groups' first ranks; then the groups join, all at the same time
    CONTROL_REHEARSAL,     // trial of the first save with empty files
    CONTROL_LOG,           // times of all ranks, at every log line
    CONTROL_SAVE,          // sizes, digests and sums of the files, at every save
    CONTROL_SAVE_FILES,    // the files that all ranks create, without their bytes
    CONTROL_HEARTBEAT,     // a round, every second while ranks work with files
    CONTROL_LOAD_FILES,    // the files that all ranks open to resume, without their bytes
    CONTROL_HANG_RECORDS,  // ranks that have waited for most of the deadline write their files
    CONTROL_HANG_REPORT,   // from the deadline to the first message that names the hanging rank
    CONTROL_PHASES
};

struct control_cost {
    double bytes;       // sent by rank 0
    double seconds;     // duration of the phase
    double operations;  // of the file system
    double growth;      // twice the replicas take 2^growth times the seconds
};
extern const char *const control_names[CONTROL_PHASES];

struct control_shape {
    int ranks, stages;
    int replicas;             // per rank: they wait for each other's gradients
    int groups;               // of a rank
    double joined;            // ranks that join a rank's groups
    double weights, states;   // tensors of a checkpoint, and optimizer tensors for each
    bool splits_optimizer;    // among replicas
    double checkpoint_bytes;  // written by `writers` of a stage
    int64_t writers;          // 0: one for every 64 MiB
    bool removes_old;
    double operations_per_second;  // of the file system; 0: the usual number
};
// The mesh must be placed, but not connected. The caller sets the members about checkpoints.
struct control_shape control_shape_of(const struct mesh *mesh);
void control_plan(const struct control_shape *shape, struct control_cost costs[CONTROL_PHASES]);
// Seconds of the phases before the first iteration.
double control_start_seconds(const struct control_cost costs[CONTROL_PHASES]);
// Most files with tensors in a checkpoint.
double control_files(const struct control_shape *shape);

// ---- ranks that queue at one place ----

// Simulation of many ranks that queue at one place: rank 0 of a star, or the metadata server of a file system. The
// place serves requests in the order in which they arrive, and a rank sends its next request when the last one is
// answered. The end of each thus depends on all others, and superlinear growth shows by itself.

struct rank_queue {
    double service;  // seconds that the place spends on a request
    double delay;    // seconds until an answer arrives, in which the place serves others
    double burst;    // requests of a rank that are served in one event, to save events; at least 1
    double served;   // requests so far
};

// A rank's next action, called at the start and when all its requests are answered: sends `requests` from `time` on.
// False if it is done.
typedef bool rank_queue_next(void *context, int rank, double *time, double *requests);
// Runs all ranks from time 0 on. Returns when the last one is done or, with `stops_at_first`, the first.
double rank_queue_run(struct rank_queue *place, int ranks, rank_queue_next *next, void *context, bool stops_at_first);

#endif
