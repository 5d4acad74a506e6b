// What ranks do besides computing, as events on paper: what those that meet over TCP say to each other by way of rank
// 0, what all of them ask of the file system when they save and load, and how long it takes them to say who hangs.
// Tables with a row of each rank go to all of them, and ranks read each other's files: what grows faster than the ranks
// shows here.
#ifndef PLAN_CONTROL_H
#define PLAN_CONTROL_H

#include "parallel/mesh.h"

enum control_phase {
    CONTROL_JOIN,          // all ranks connect to rank 0
    CONTROL_ADDRESSES,     // rank 0 tells all of them each other's addresses
    CONTROL_HOSTS,         // names of machines, devices
    CONTROL_GROUPS,        // ports of the groups' first ranks; then the groups join, all at the same time
    CONTROL_REHEARSAL,     // the first save is tried with empty files
    CONTROL_LOG,           // times of all ranks, at every log line
    CONTROL_SAVE,          // sizes, digests and sums of the files, at every save
    CONTROL_SAVE_FILES,    // the files that all ranks create, without their bytes
    CONTROL_HEARTBEAT,     // a round, every second while ranks work with files
    CONTROL_LOAD_FILES,    // the files that all ranks open to resume, without their bytes
    CONTROL_HANG_RECORDS,  // ranks that wait for most of the deadline leave their files
    CONTROL_HANG_REPORT,   // from the deadline to the first message that names the rank that hangs
    CONTROL_PHASES
};

struct control_cost {
    double bytes;       // that rank 0 sends
    double seconds;     // that the phase takes
    double operations;  // of the file system
    double growth;      // with twice the replicas, seconds are 2^growth as many
};
extern const char *const control_names[CONTROL_PHASES];

struct control_shape {
    int ranks, stages;
    int replicas;             // of a rank: they wait for each other's gradients
    int groups;               // of a rank
    double joined;            // ranks that join the groups of a rank
    double weights, states;   // tensors of a checkpoint, and the tensors of the optimizer for each
    bool splits_optimizer;    // among replicas
    double checkpoint_bytes;  // written by `writers` of a stage
    int64_t writers;          // 0: one for every 64 MiB
    bool removes_old;
    double operations_per_second;  // of the file system; 0: those that are usual
};
// The mesh must be placed, but not connected. What concerns checkpoints is the caller's.
struct control_shape control_shape_of(const struct mesh *mesh);
void control_plan(const struct control_shape *shape, struct control_cost costs[CONTROL_PHASES]);
// Of the phases before the first iteration.
double control_start_seconds(const struct control_cost costs[CONTROL_PHASES]);
// The files of tensors of a checkpoint, at most.
double control_files(const struct control_shape *shape);

#endif
