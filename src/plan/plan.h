// Predicts a run's memory and time before it is started. The step is run on paper, on a rank of each kind of stage,
// with a simulated device and links. Then the lists of all stages are simulated together, so that bubbles come from the
// schedule itself.
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "config/config.h"
#include "model/census.h"
#include "parallel/schedule.h"
#include "plan/control.h"
#include "plan/hardware.h"
#include "plan/setup.h"
#include "step/step.h"

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
