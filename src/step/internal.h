// The parts of a step. Only for the files of this folder; step.h is the interface for others.
#ifndef STEP_INTERNAL_H
#define STEP_INTERNAL_H

#include "model/deferred.h"
#include "model/model.h"
#include "parallel/reducer.h"
#include "parallel/schedule.h"
#include "step/channel.h"
#include "step/step.h"
#include "tensor/arena.h"

// A step's sums on the device, one row for each kind: step_total gives it, count_total in memory.c its length. The
// numbers of tokens and of samples with a pair label arrive with the inputs; all others are accumulated on the device.
enum total_kind {
    TOTAL_LOSS,
    TOTAL_PAIR_LOSS,
    TOTAL_TOKENS,
    TOTAL_PAIRS,
    TOTAL_HITS,  // of ICT's top-k accuracies
    // Of routers, see step_sum_totals: the losses that balance experts, indexed by enum balance_kind; rows per expert,
    // layer by layer; and, equally long, for the loss over the global batch sums of shares, and counts of rows.
    TOTAL_BALANCE,
    TOTAL_EXPERT_ROWS,
    TOTAL_GLOBAL_SHARES,
    TOTAL_GLOBAL_ROWS,
    TOTAL_DEPTH_LOSSES,  // of multi-token prediction
    TOTAL_DEPTH_TOKENS,
    TOTAL_KINDS
};

// Index of the weight in a batch's `counts`; before it are TOTAL_TOKENS and TOTAL_PAIRS.
enum { COUNT_SHARE = 2 };

enum { STEP_ROWS = STEP_MOST_AHEAD + 1 };

struct step_row {
    float *numbers;      // page-locked host memory: results of a step
    float *rates;        // shaped like updates.rates, page-locked: rates sent to the step
    struct event *done;  // recorded when the numbers have arrived
    bool is_training;
    int64_t micro_batches;  // of all ranks
};
struct step_results {
    struct step_row rows[STEP_ROWS];
    float *memory;          // backs all rows
    int64_t queued, taken;  // numbers of rows so far
    struct step_result last;
};

// Micro-batches are copied while the device computes: from `host` to `landing` on the copy stream, and later from there
// to their block on the compute stream. There are two slots, so that one is copied while the other is written.
struct step_slot {
    unsigned char *host;    // page-locked staging memory with the block's layout
    struct tensor landing;  // on the device
    struct event *copied;   // to the landing: the host memory may be overwritten
    struct event *taken;    // from the landing
    bool is_used;
};

// Saved activations of one micro-batch in a chunk, for backward.
struct step_flight {
    struct model_flight model;
    struct arena activations;
    struct deferred *deferred;  // only between the two halves of a backward pass
    int micro_batch;
    bool is_used;
};

// A chunk of the model on this rank; the whole model without a pipeline.
struct step_chunk {
    struct model model;
    struct step_flight *flights;
    int flight_count;           // most micro-batches in flight through it
    struct deferred *deferred;  // deferred weight gradients of flights between the halves of their backward
    int deferred_count;
    size_t activation_bytes, deferred_bytes;  // of each flight's arena, and of each deferred object's
    int deferred_matmuls;                     // capacity of a deferred object
    bool grows_backward;                      // a backward pass keeps more memory than its forward pass
};

// The inputs of a micro-batch while it is in flight.
struct step_batch {
    struct tensor block;     // on the device, see step_inputs.c
    struct batch_form form;  // as loaded, before ranks split it
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

// A parameter held by several stages. All stages list the same parameters in the same order.
struct step_shared {
    char *name;
    struct param *param;  // NULL if this stage does not hold it
    int *holders;         // the stages that hold it, in order; all but the first hold a copy
    int count;
};

// The variable inputs that determine the work of a range.
struct step_shape {
    struct batch_form form;  // of the inputs
    bool is_known;           // whether the fp8 ranges are known, see struct fp8
};
// A recorded range of the list, see replay.c.
struct step_replay {
    struct step_shape shape;
    int runs;                     // runs of such ranges without replay
    struct recording *recording;  // NULL: none yet
    bool is_refused;              // it cannot be recorded
};

// Where a flight's arena continues in the gradients' buffer, see borrow.h.
struct step_borrow {
    size_t border;  // height of the arena; 0: it does not continue there
    size_t room;    // bytes there
    size_t peak;    // height of the arena without borrowing; a higher border gains nothing
    int64_t first;  // first lent element of the gradients
    bool is_trial;  // on paper, to place activations: with a border, but without borrowing
};

// Place of the difference that a check of replicas found last.
struct step_suspect {
    const struct param *param;  // NULL if none yet among this rank's parameters
    int64_t element;            // of its value; -1 if that is the same
};

// This rank's own values of a step: TOTAL_LOSS before the sum over ranks, and the squares of its gradients.
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
    struct tensor values, grads;       // (n), flat
    struct tensor totals;              // fp32, of all kinds
    int total_first[TOTAL_KINDS + 1];  // the row of each kind begins there
    struct tensor expert_bias;         // (step_experts) fp32, of all layers on every rank, or none
    struct tensor expert_load;         // same shape: each expert's load in the last step, see router.h
    struct tensor own;                 // (OWN_COUNT) fp32, after the totals
    struct tensor scores;              // (3, rows) fp32 of the last micro-batch, with keeps_scores: struct token_scores
    struct tensor logits;              // (1, V) fp32, for generation
    struct tensor encoded;             // (P, C): an encoder's output, for generation
    int64_t cached;                    // tokens so far, for generation
    int32_t *seen;                     // these tokens, with LongRoPE; else NULL
    struct arena state, activations, scratch;
    struct arena beside;                 // scratch of forward passes, if the schedule has pairs
    struct coroutine *coroutine;         // of the two passes of a pair, or NULL
    struct arena hosted;                 // page-locked host memory: optimizer states
    struct input_offload input_offload;  // and inputs of recomputed blocks
    struct step_slot slots[2];
    int next_slot;
    struct step_results results;
    struct step_replay replays[2][2];  // indexed by whether a range has the first, and the last, pass of its step
    struct step_borrow borrow;
    struct step_suspect suspect;
    bool expects_gradients;  // the running step must compute gradients with this digest
    int64_t expected_gradients;
    bool keeps_results;   // see struct pass
    bool rehearses_one;   // rehearses one micro-batch: never more than one is in flight
    bool is_recording;    // the device records work without executing it
    double data_seconds;  // host's waits for training micro-batches so far
    struct step_memory memory;
};

// Number of losses that balance experts: all or none.
static inline int step_balances(const struct step *step) {
    return step->chunks[0].model.choices.experts.E > 0 ? BALANCE_COUNT : 0;
}

// Number of experts of all layers together.
static inline int step_experts(const struct step *step) {
    return (int)(step->options.expert_layers * step->chunks[0].model.choices.experts.E);
}

// step_experts if the loss over the global batch balances experts, else 0.
static inline int step_loaded(const struct step *step) {
    const struct expert_choices *experts = &step->chunks[0].model.choices.experts;
    return experts->E > 0 && experts->coefficients[BALANCE_GLOBAL] > 0 ? step_experts(step) : 0;
}

static inline int step_total_count(const struct step *step, enum total_kind kind) {
    return step->total_first[kind + 1] - step->total_first[kind];
}

// Empty if there are none of this kind.
static inline struct tensor step_total(const struct step *step, enum total_kind kind) {
    int count = step_total_count(step, kind);
    return count > 0 ? tensor_rows(step->totals, step->total_first[kind], count) : (struct tensor){0};
}

// Called before each item of a training step's list.
void step_reach_faults(struct step *step, enum work work);

#endif
