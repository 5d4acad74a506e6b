// The parts of a step. Only for the files of this folder; step.h is the interface for others.
#ifndef STEP_INTERNAL_H
#define STEP_INTERNAL_H

#include "comm/comm.h"
#include "model/deferred.h"
#include "model/model.h"
#include "parallel/reducer.h"
#include "parallel/schedule.h"
#include "step/step.h"
#include "tensor/arena.h"

// ---- messages between stages ----

// Messages between two neighbouring stages, in one direction: a ring of buffers over a link of the mesh. Messages are
// copied into a buffer before sending, and receiving starts before a message is needed, so neither side waits for the
// other's next action. The schedule determines how many messages must fit between two stages.

struct channel {
    struct group *group;     // its first rank sends, its second receives; NULL without a pipeline
    struct tensor *buffers;  // `count` buffers, each as long as the longest message
    struct comm_request *requests;
    int count;
    int64_t started, finished;  // numbers of messages so far
    const char *name;
};

// A ring of `count` buffers at each end.
void channel_open(struct channel *channel, int count, const char *name);
void channel_close(struct channel *channel);
// Takes memory for the buffers. With 0 elements there are none, and nothing may be sent.
void channel_lay_out(struct channel *channel, struct arena *arena, enum dtype dtype, int64_t elements);

// Sending: channel_outgoing returns the buffer for the next message, ready to be written; channel_send sends its first
// `count` elements.
struct tensor channel_outgoing(struct channel *channel);
void channel_send(struct channel *channel, int64_t count);
// Waits until everything sent has left its buffer.
void channel_flush(struct channel *channel);

// Receiving: announces a message of `count` elements. Messages are announced in the order in which they are sent, while
// there is room.
bool channel_has_room(const struct channel *channel);
void channel_expect(struct channel *channel, int64_t count);
// The oldest announced message, once it has arrived. It stays until channel_release.
struct tensor channel_take(struct channel *channel);
void channel_release(struct channel *channel);

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

// Where a flight's arena continues in the gradients' buffer, see borrow.c.
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

// ---- activations that borrow the memory of gradients ----

// In a step of one micro-batch, the gradients' buffer is idle until the backward pass writes it, layer by layer from
// the last to the first, and matmuls write without reading. The activations of a layer, and of the heads, may therefore
// use the memory of earlier layers' gradients. With more micro-batches the buffer holds the sum of the earlier ones,
// and nothing is borrowed.

// After a training pass on paper whose activations reached the height `peak`: finds from where on they may use the
// gradients' buffer. Equals the pass's own borrowing if that was right; else another pass must verify the answer.
struct step_borrow borrow_find(const struct step *step, size_t peak);
// After an evaluation, which writes no gradients but whose activations may reach the height `peak`: raises the earlier
// result so that they fit.
struct step_borrow borrow_raise(const struct step *step, struct step_borrow borrow, size_t peak);
// Applies it to a flight's arena, before that is used.
void borrow_apply(const struct step *step, struct arena *activations);

// ---- memory ----

// Measures the step on paper, takes the memory and lays it out.
int step_take_memory(struct step *step, struct step_room *room);
void step_give_memory_back(struct step *step);

// Fills step->memory by a run on paper; step->keeps_results decides which of the two layouts that is.
int memory_measure(struct step *step);
// Measures, takes the blocks of memory for the arenas, and opens the arenas. All ranks call, since they decide together
// (memory_take.c). -1 on all of them if one has no room for the smaller layout.
int memory_take(struct step *step, struct step_room *room);
void memory_give(struct step *step);

// A step that is empty so far; step_assemble builds its model and everything else but the memory; step_close frees it.
struct step *step_new(const struct step_options *options);
int step_assemble(struct step *step);

// A pass over B sequences of T tokens; the model sets its batch.
struct pass step_pass(struct step *step, int64_t B, int64_t T);

// ---- numbers of a step on the host (results.c) ----

int results_open(struct step *step);
void results_close(struct step *step);
// Takes and drops the oldest results until another step can be queued.
void results_make_room(struct step *step);
// Before a training step: sends the paces, one for every number of pending steps that may turn out to be skipped.
void results_send_rates(struct step *step, const struct pace *paces);
// After a step: fetches its totals and, for a training step, its gradient norm and loss scale.
void results_queue(struct step *step, bool is_training, int64_t micro_batches);

// ---- ranges of a list that are recorded once and then replayed ----

// The end of the longest range of items from number `first` on that can be one recording; `first` if no recording can
// begin there.
int replay_range_end(const struct step *step, const struct schedule *schedule, int first);

struct replay_range {
    const struct step_batch *batch;  // the micro-batch of its passes
    bool is_first, is_last;          // of the step
    void (*run)(void *context);
    void *context;
};
// Does the work of range->run, by calling it or by replaying an earlier call for such a micro-batch.
void replay_run(struct step *step, const struct replay_range *range);
void replay_close(struct step *step);

// ---- the work before and after the passes ----

// After the parameters were declared: lays them out, and determines each rank's part of the optimizer and the buckets
// in which gradients are reduced.
void step_divide_optimizer(struct step *step);
// The optimizer of a group of parameters.
const struct optimizer_rule *step_rule(const struct step *step, int group);
// Before the first pass: clears the sums and gradients that passes add to, and prepares the weights. Only queues work
// on the device.
void step_begin(struct step *step, bool is_learning);
// Whether this rank is alone. Its update may then be replayed with its last pass.
bool step_is_alone(const struct step *step);
// After the last backward pass: starts the reductions that have not been started yet.
void step_reduce_gradients(struct step *step);
// Sums losses and counts over all ranks.
void step_sum_totals(struct step *step);
// Then, in training: updates routers' biases in favour of experts that got few tokens.
void step_balance_experts(struct step *step);
// Called once gradients are reduced; on a rank that is alone they only queue work on the device. First the norm of the
// gradients and their scale; then the update of each bucket, in the order in which the next forward pass needs them, so
// that the first values are sent while the last are computed; or of everything, if no ranks split the update.
void step_clip(struct step *step);
void step_update(struct step *step, int64_t n);

// ---- the inputs of a micro-batch on the device ----

// All its fields are in one block of memory, which is copied there as a whole.

// The form of such a micro-batch in its block: this rank's part of the fields that the model reads.
struct batch_form step_block_form(const struct step *step, const struct batch_form *form);
// A micro-batch of this form, in its block on the device.
struct device_batch step_device_batch(const struct step *step, const struct batch_form *form, struct tensor block);
// If all tokens of the global batch have equal weight, the number of token positions in a whole step, else 0. The
// number of counted tokens is known only at the end of the step: until then weights are shares of this number, and
// step_clip corrects that.
double step_positions(const struct step *step);
struct step_counts {
    double tokens, pairs;
};
struct step_upload {
    bool has_weights;
    double divisor;          // of the weights: micro-batches × data-parallel ranks
    double positions;        // of a whole step, see step_positions; 0: each micro-batch divides by its own tokens
    int64_t first_position;  // first position, if positions are not given
    // Counted tokens and pair samples of this rank in the micro-batches so far; this one's are added.
    struct step_counts counts;
};
// Copies a micro-batch to its block on the device.
void step_upload_batch(struct step *step, struct tensor block, const struct batch *batch, struct step_upload *upload);

#endif
