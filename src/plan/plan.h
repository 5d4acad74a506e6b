// Predicts a run's memory and time before it is started. The step is run on paper, on a rank of each kind of stage,
// with a simulated device and links. Then the lists of all stages are simulated together, so that bubbles come from the
// schedule itself.
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "config/config.h"
#include "model/census.h"
#include "parallel/mesh.h"
#include "parallel/schedule.h"
#include "plan/hardware.h"
#include "plan/setup.h"
#include "step/step.h"
#include <stdbool.h>

// ---- the control plane ----

// Simulates the control plane of a run: messages of TCP ranks by way of rank 0, file system operations of saving and
// loading, and the time to report a hanging rank. Tables with a row per rank are sent to all ranks, and ranks read each
// other's files: this shows which costs grow faster than the number of ranks.

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

// Memory, times and work of a rank of a stage.
struct plan_stage {
    int stage;
    int64_t parameters;
    int tensors;  // tensors of the model of which a rank holds parts
    struct step_memory memory;
    double compute;  // seconds per step in which its device computes
    // Seconds per step of waiting for collectives along these axes, and for other collectives.
    double tensor, context, expert, data;
    double other;
    double flops;   // executed by its device per step: matmuls and attention, including recomputation
    double update;  // seconds after the last pass, including waits: norm, optimizer, new parameters
};

enum { PLAN_MOST_STAGES = 64 };

struct plan {
    int ranks, nodes;
    int data_parallel, expert_parallel;  // replicas of the layers; those that share out the experts
    int64_t parameters, micro_batches, global_batch_size;
    int64_t active;  // parameters used by a token: only the experts it goes to
    double tokens;   // of a step
    double flops;    // per step, as Megatron counts them
    int stages, measured;
    struct plan_stage stage[PLAN_MOST_STAGES];  // one for each kind, `measured` of them
    int fullest;                                // the kind whose ranks need most memory
    double seconds;                             // of a step
    double bubble;                              // of these, waits of the busiest stage for others
    double messages;                            // of these, waits due to messages between stages
    double peak;                                // FLOP/s of a GPU in the run's precision
    double executed;                            // FLOPs per step executed by all devices
    double checkpoint_bytes;                    // of weights and optimizer
    struct control_shape control;
};

struct plan_options {
    struct config *config;  // validated for this many ranks; its padded vocabulary size is set
    int ranks;
    const struct machine *machine;
    const struct hardware *hardware;         // NULL: the machine's known hardware
    int nodes;                               // 0: as needed by the ranks
    bool hides_tensor;                       // matmuls hide collectives of tensor parallelism, as in other programs
    double room;                             // if a rank needs more bytes, the plan stops without seconds; 0: never
    const struct census *census;             // the model's, if known; NULL: it is computed
    bool runs_all;                           // simulates all micro-batches instead of a few
    const struct schedule_watcher *watcher;  // called for all items of a step; NULL for none
};
int plan_make(struct plan *plan, const struct plan_options *options);

// The usual name of this run's matmuls that the machine's GPUs lack: those of recipes with blocks, which only some GPUs
// multiply. NULL if there are none.
const char *plan_missing_matmuls(const struct config *config, const struct machine *machine);
// Refuses bf16, fp8 and fp4 on GPUs without them. plan_make calls it.
int plan_check_precision(const struct config *config, const struct machine *machine, const struct hardware *hardware);

// Bytes of a GPU available to a run.
double plan_room(const struct machine *machine);
bool plan_fits(const struct plan *plan, const struct machine *machine);

// The kind of a stage.
const struct plan_stage *plan_stage_of(const struct plan *plan, int stage);
// The slowest kind of stage, whose parts make up the seconds of a step.
const struct plan_stage *plan_slowest(const struct plan *plan);
// The parts of a step on the slowest stage. They add up to the step.
enum { PLAN_PARTS = 8 };
struct plan_part {
    const char *key, *name;
    double seconds;
};
void plan_list_parts(const struct plan *plan, struct plan_part parts[PLAN_PARTS]);
// Fractions of the peak: the model's FLOPs as Megatron counts them; and the executed FLOPs, which include
// recomputation, also that within attention's backward pass, but not the part that causal attention skips.
double plan_mfu(const struct plan *plan);
double plan_hfu(const struct plan *plan);

// ---- a rank of one stage on paper ----

// Runs a rank of one stage on paper: its memory, and the costs of the items of its list.

enum { STAGE_MOST_CHUNKS = 32 };

// Seconds of the items of a kind in a step, and their number.
struct stage_costs {
    double seconds[WORK_COUNT][STAGE_MOST_CHUNKS];
    double count[WORK_COUNT][STAGE_MOST_CHUNKS];
    double pair_seconds[STAGE_MOST_CHUNKS], pairs[STAGE_MOST_CHUNKS];  // by the chunk of the backward
};

bool work_is_pass(enum work work);
// A stage that was measured.
struct measured_stage {
    const struct plan_stage *stage;
    const struct stage_costs *costs;
};
// Runs steps of the setup's rank, whose device tells the time. If the stage is too large for options->room, only memory
// and parameters are set. Takes the times from `like`, a stage with the same layers, unless NULL.
int stage_run(const struct setup *setup, const struct plan_options *options, struct plan_stage *stage,
              struct stage_costs *costs, const struct measured_stage *like);

#endif
