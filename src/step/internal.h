// What a step consists of. Only for the files of this folder; see step.h for what others see.
#ifndef STEP_INTERNAL_H
#define STEP_INTERNAL_H

#include "model/deferred.h"
#include "model/model.h"
#include "parallel/reducer.h"
#include "parallel/schedule.h"
#include "step/channel.h"
#include "step/step.h"
#include "tensor/arena.h"

// A step's sums on the device. The first two are accumulated there, as are the hits of ICT's top-k accuracies, which
// follow them all, and behind those the losses that balance experts, the rows of each expert, and the losses and counts
// of multi-token prediction; the others arrive with the inputs.
enum { TOTAL_LOSS, TOTAL_PAIR_LOSS, TOTAL_TOKENS, TOTAL_PAIRS, TOTAL_COUNT };

// Where a batch's `counts` have its weight; before it they are as the totals from TOTAL_TOKENS on.
enum { COUNT_SHARE = TOTAL_COUNT - TOTAL_TOKENS };

enum { STEP_ROWS = STEP_MOST_AHEAD + 1 };

struct step_row {
    float *numbers;      // page-locked host memory: what comes back from a step
    float *rates;        // as updates.rates, page-locked: what is sent to it
    struct event *done;  // recorded when the numbers have arrived
    bool is_training;
    int64_t micro_batches;  // of all ranks
};
struct step_results {
    struct step_row rows[STEP_ROWS];
    float *memory;          // backs all rows
    int64_t queued, taken;  // how many rows so far
    struct step_result last;
};

// Micro-batches are copied while the device computes: from `host` to `landing` on the copy stream, and from there to
// their block on the compute stream, when it is their turn. There are two slots, so that one can travel while the other
// is written.
struct step_slot {
    unsigned char *host;    // page-locked staging memory with the block's layout
    struct tensor landing;  // on the device
    struct event *copied;   // to the landing: the host memory may be overwritten
    struct event *taken;    // from the landing
    bool is_used;
};

// What backward needs of a micro-batch that is in flight through a chunk.
struct step_flight {
    struct model_flight model;
    struct arena activations;
    struct deferred *deferred;  // only between the two halves of a backward pass
    int micro_batch;
    bool is_used;
};

// A chunk of the model that this rank holds; the whole model if there is no pipeline.
struct step_chunk {
    struct model model;
    struct step_flight *flights;
    int flight_count;           // how many micro-batches are in flight through it at most
    struct deferred *deferred;  // weight gradients put off by those that are between the halves of their backward
    int deferred_count;
    size_t activation_bytes, deferred_bytes;  // of each flight's arena, and of each deferred one
    int deferred_matmuls;                     // how many a deferred one has room for
    bool grows_backward;                      // a backward pass keeps more than the forward pass before it
};

// The inputs of a micro-batch while it is in flight.
struct step_batch {
    struct tensor block;     // on the device, see step_inputs.c
    struct batch_form form;  // as it came, before ranks share it
    struct device_batch batch;
    int micro_batch;
    bool is_used;
};

struct step_pipeline {
    struct schedule schedules[2];  // of the last evaluation, and of the last training step
    struct channel channels[LINK_COUNT];
    struct step_batch *batches;
    int batch_count;
};

// A parameter that several stages hold. All stages list the same ones in the same order.
struct step_shared {
    char *name;
    struct param *param;  // NULL if this stage does not hold it
    int *holders;         // the stages that do, in order; all but the first hold a copy
    int count;
};

// What the work of a range depends on, apart from what stays the same over all steps.
struct step_shape {
    struct batch_form form;  // of the inputs
    bool is_known;           // whether the fp8 ranges are, see struct fp8
};
// A recorded range of the list, see replay.c.
struct step_replay {
    struct step_shape shape;
    int runs;                     // ranges of this shape that were not replayed
    struct recording *recording;  // NULL: none yet
    bool is_refused;              // it cannot be recorded
};

// Where a flight's arena turns into the gradients' buffer, see borrow.h.
struct step_borrow {
    size_t border;  // height of the arena; 0: it does not
    size_t room;    // bytes there
    size_t peak;    // height of the arena if it does not; a border above would gain nothing
    int64_t first;  // element of the gradients where they begin
    bool is_trial;  // on paper, to see where activations would lie: the border is there, but nothing is borrowed
};

// Where a check of replicas last found a difference.
struct step_suspect {
    const struct param *param;  // NULL if it found none yet among this rank's parameters
    int64_t element;            // of its value; -1 if that is the same
};

// What only this rank has seen of a step: TOTAL_LOSS before it was summed over ranks, and the squares of its gradients.
enum { OWN_LOSS, OWN_SQUARES, OWN_COUNT };

struct step {
    struct step_options options;
    struct device *device;
    struct mesh mesh;
    enum step_mode mode;
    enum dtype dtype;
    struct param_list params;
    struct step_chunk *chunks;  // of the model, in order
    int chunk_count;
    struct step_pipeline pipeline;
    struct step_shared *shared;
    int shared_count;
    struct updates updates;
    struct reducer reducer;
    struct tensor values, grads;  // (n), flat
    struct tensor totals;         // (step_total_count) fp32
    struct tensor expert_bias;    // (step_experts) fp32, of all layers on every rank, or none
    struct tensor expert_load;    // the same: each expert's load in the last step, see router.h
    struct tensor own;            // (OWN_COUNT) fp32, behind the totals
    struct tensor logits;         // (1, V) fp32, for generation
    struct tensor encoded;        // (P, C): an encoder's output, for generation
    int64_t cached;               // tokens so far, for generation
    int32_t *seen;                // these tokens, with LongRoPE; else NULL
    struct arena state, activations, scratch;
    struct arena beside;  // scratch of forward passes, if the schedule has pairs
    struct turns *turns;  // of the two passes of a pair, or NULL
    struct arena hosted;  // page-locked host memory: optimizer states
    struct away away;     // and inputs of recomputed blocks
    struct step_slot slots[2];
    int next_slot;
    struct step_results results;
    struct step_replay replays[2][2];  // indexed by whether a range has the first, and the last, pass of its step
    struct step_borrow borrow;
    struct step_suspect suspect;
    bool expects_gradients;  // the step that runs must compute gradients with this digest
    int64_t expected_gradients;
    bool keeps_results;   // see struct pass
    bool rehearses_one;   // micro-batch, on paper: a single one is ever in flight
    bool is_recording;    // the device keeps what it is given, and does none of it yet
    double data_seconds;  // that the host has waited for micro-batches of training so far
    struct step_memory memory;
};

// How many top-k accuracies the model reports.
static inline int step_tops(const struct step *step) {
    return step->chunks[0].model.biencoder.top_count;
}

// How many losses balance experts: all or none.
static inline int step_balances(const struct step *step) {
    return step->chunks[0].model.choices.experts.E > 0 ? BALANCE_COUNT : 0;
}

// How many experts all layers have together.
static inline int step_experts(const struct step *step) {
    return (int)(step->options.expert_layers * step->chunks[0].model.choices.experts.E);
}

// The same if the loss over the global batch balances them, else 0.
static inline int step_loaded(const struct step *step) {
    const struct expert_choices *experts = &step->chunks[0].model.choices.experts;
    return experts->E > 0 && experts->coefficients[BALANCE_GLOBAL] > 0 ? step_experts(step) : 0;
}

// All that routers add up: losses, counts of rows, and with the loss over the global batch what it is made of.
static inline int step_router_totals(const struct step *step) {
    return step_balances(step) + step_experts(step) + 2 * step_loaded(step);
}

static inline int step_total_count(const struct step *step) {
    return TOTAL_COUNT + step_tops(step) + step_router_totals(step) + 2 * step->options.depths;
}

// The totals of those losses, indexed by enum balance_kind.
static inline struct tensor step_balance_totals(const struct step *step) {
    return tensor_rows(step->totals, TOTAL_COUNT + step_tops(step), step_balances(step));
}

// How many rows chose each expert, layer by layer.
static inline struct tensor step_expert_counts(const struct step *step) {
    return tensor_rows(step->totals, TOTAL_COUNT + step_tops(step) + step_balances(step), step_experts(step));
}

// Of the loss over the global batch, layer by layer: sums of shares, or counts of rows.
static inline struct tensor step_global_totals(const struct step *step, bool is_counts) {
    int count = step_loaded(step), first = TOTAL_COUNT + step_tops(step) + step_balances(step) + step_experts(step);
    return count > 0 ? tensor_rows(step->totals, first + (is_counts ? count : 0), count) : (struct tensor){0};
}

// Where the losses of depths begin among the totals; how many tokens counted for each follows.
static inline int step_depth_totals(const struct step *step) {
    return step_total_count(step) - 2 * step->options.depths;
}

#endif
