// What a run needs and how long it takes, before it is started: the step is run on paper, on a rank of each kind of
// stage, by a device and links that tell the time. Then the lists of all stages are run together, so that bubbles come
// from the schedule itself.
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "config/config.h"
#include "model/census.h"
#include "parallel/schedule.h"
#include "plan/control.h"
#include "plan/hardware.h"
#include "step/step.h"

// What a rank of a stage holds and does.
struct plan_stage {
    int stage;
    int64_t parameters;
    int tensors;  // of the model, of which a rank holds parts
    struct step_memory memory;
    double compute;  // seconds of a step in which its device computes
    // Seconds in which it waits for collectives along these axes, and for others.
    double tensor, context, expert, data;
    double other;
    double flops;   // that its device executes in a step: matmuls and attention, with those that are repeated
    double update;  // seconds after the last pass: norm, optimizer, new parameters; waits included
};

enum { PLAN_MOST_STAGES = 64 };

struct plan {
    int ranks, nodes;
    int data_parallel, expert_parallel;  // replicas of the layers, and how many of them share out the experts
    int64_t parameters, micro_batches, global_batch_size;
    int64_t active;  // parameters that a token meets: of experts, as many as it goes to
    double tokens;   // of a step
    double flops;    // of a step, as Megatron counts them
    int stages, measured;
    struct plan_stage stage[PLAN_MOST_STAGES];  // one for each kind, `measured` of them
    int fullest;                                // the one whose ranks need most memory
    double seconds;                             // of a step
    double bubble;                              // of them, those in which the busiest stage waits for others
    double messages;                            // of these, those that messages between stages take
    double peak;                                // FLOP/s of a GPU in the run's precision
    double executed;                            // FLOPs of a step that the devices of all ranks execute
    double checkpoint_bytes;                    // of weights and optimizer
    struct control_shape control;
};

struct plan_options {
    struct config *config;  // validated for this many ranks; its padded vocabulary size is set
    int ranks;
    const struct machine *machine;
    const struct hardware *hardware;         // NULL: what is known of the machine
    int nodes;                               // 0: as many as the ranks need
    bool hides_tensor;                       // matmuls hide the collectives of tensor parallelism, as in other programs
    double room;                             // a plan of a rank with more bytes stops and has no seconds; 0: never
    const struct census *census;             // of the model, if it is known; NULL: it is taken
    bool runs_all;                           // micro-batches, instead of a few that stand for them
    const struct schedule_watcher *watcher;  // is told all that the stages do in a step; NULL for none
};
int plan_make(struct plan *plan, const struct plan_options *options);

// The matmuls of this run that the machine's GPUs do not have, as people call them: of a recipe with blocks that only
// some GPUs multiply. NULL if there are none.
const char *plan_missing_matmuls(const struct config *config, const struct machine *machine);
// Refuses bf16, fp8 and fp4 on GPUs without them. plan_make calls it.
int plan_check_precision(const struct config *config, const struct machine *machine, const struct hardware *hardware);

// The bytes of a GPU that a run can use.
double plan_room(const struct machine *machine);
bool plan_fits(const struct plan *plan, const struct machine *machine);

// The kind that a stage is of.
const struct plan_stage *plan_stage_of(const struct plan *plan, int stage);
// Seconds of a step by part: those of its slowest kind of stage.
const struct plan_stage *plan_slowest(const struct plan *plan);
// FLOPs of the model, as Megatron counts them, of the peak; and those that devices execute: with what is computed again
// for lack of memory and within attention's backward pass, without what causal attention leaves out.
double plan_mfu(const struct plan *plan);
double plan_hfu(const struct plan *plan);

#endif
