// One training step: the model, the reducer and the optimizer put together, with the memory they need. It knows no
// files, clocks or logs; the trainer brings micro-batches and takes numbers away.
//
// All memory is taken when a step is opened. How much is found by running the step itself once on the paper backend,
// with arenas that only count; so nothing is allocated later, and what does not fit is said before anything starts.
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include "config/config.h"
#include "model/deferred.h"
#include "model/model.h"
#include "optim/adam.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "parallel/schedule.h"
#include "step/channel.h"
#include "parallel/reducer.h"
#include "tensor/arena.h"

enum step_mode { STEP_TRAIN, STEP_EVALUATE, STEP_GENERATE };

// A micro-batch on the host. What its model does not have is NULL; of T5, tokens and what goes with them are the
// encoder's, and labels and mask have S columns.
struct step_input {
    int64_t B, T;
    int64_t S;                         // tokens of a decoder's sample; 0 without a decoder over an encoder
    const int32_t *tokens;             // (B, T)
    const int32_t *positions;          // (B, T), or NULL: 0, 1, …
    const int32_t *labels;             // (B, T or S)
    const float *mask;                 // (B, T or S): 1 where the token counts
    const int32_t *types;              // (B, T), or NULL: all 0
    const int32_t *lengths;            // (B), or NULL: tokens of each sample that are no padding
    const int32_t *first_keys;         // (B, T), or NULL: the column where each token's document begins
    const int32_t *decoder_tokens;     // (B, S)
    const int32_t *decoder_positions;  // (B, S), or NULL: 0, 1, …
    const int32_t *pair_labels;        // (B): of the pair head; NULL: its loss is left out
    const int64_t *samples;            // (B): global number of each sample, below 0 for padding
};

// Hands out the micro-batches of a step in order; -1 where there is none to be had.
struct step_source {
    int (*next)(void *context, struct step_input *input);
    void *context;
    int64_t count;  // micro-batches of this rank in this step
};

struct step_result {
    double loss;        // sum of the counted tokens' losses over all ranks, by their number
    double tokens;      // how many that were
    double grad_norm;   // before clipping
    double pair_loss;   // of BERT's pair head, mean over the samples of all ranks
    double pairs;       // how many samples that were; 0 without that head
    double loss_scale;  // after the step; 1 without one
};

// A step's sums on the device; the first two are added up there, the others come with the inputs.
enum { TOTAL_LOSS, TOTAL_PAIR_LOSS, TOTAL_TOKENS, TOTAL_PAIRS, TOTAL_COUNT };

// So many steps may be queued behind the one whose result is taken next.
enum { STEP_MOST_AHEAD = ADAM_MOST_RATES - 1, STEP_ROWS = STEP_MOST_AHEAD + 1 };

struct step_row {
    float *numbers;      // page-locked host memory: what comes back of a step
    float *rates;        // (ADAM_MOST_RATES, RATE_LENGTH), the same: what goes there
    struct event *done;  // the numbers are there
    bool is_training;
};
struct step_results {
    struct step_row rows[STEP_ROWS];
    float *memory;          // of the rows
    int64_t queued, taken;  // rows so far
    struct step_result last;
};

// Micro-batches travel beside the computation: from `host` to `landing` on the copy stream, from there to their block
// on the compute stream, when its turn comes. With two slots one travels while another is written.
struct step_slot {
    unsigned char *host;    // page-locked staging, laid out as the block
    struct tensor landing;  // on the device
    struct event *copied;   // to the landing: the host memory may be written again
    struct event *taken;    // from the landing
    bool is_used;
};

// A micro-batch on its way through a chunk: what backward needs of it.
struct step_flight {
    struct model_flight model;
    struct arena saved;
    struct deferred *deferred;  // between the halves of a backward pass
    int micro_batch;
    bool is_used;
};

// A piece of the model that this rank has: all of it without a pipeline.
struct step_chunk {
    struct model model;
    struct step_flight *flights;
    int flight_count;           // how many micro-batches are on their way through it at most
    struct deferred *deferred;  // and what those between the halves of their backward put off
    int deferred_count;
    size_t saved_bytes, deferred_bytes;  // of the arenas of each of the former, and of the latter
};

// The inputs of a micro-batch, while it is on its way.
struct step_batch {
    struct tensor block;  // on the device, see step_inputs.c
    struct step_input input;
    struct device_batch batch;
    int micro_batch;
    bool is_used;
};

struct step_pipeline {
    struct schedule schedule;  // for as many micro-batches as there were last
    struct channel channels[LINK_COUNT];
    struct step_batch *batches;
    int batch_count;
};

// A parameter that several stages hold; all stages know all of them, in the same order.
struct step_shared {
    char *name;
    struct param *param;  // NULL where this stage is not one of them
    int *holders;         // the stages, in order; the first one's is no copy
    int count;
};

// What a pass's work depends on, of what may change from step to step.
struct step_shape {
    int64_t B, T, S;
    uint32_t arrays;  // those that the inputs have, see step_input_arrays
    bool is_known;    // ranges of 8 bits, see struct fp8
};
// A pass that was recorded, see replay.c.
struct step_replay {
    struct step_shape shape;
    int runs;                     // passes of the shape that were not replayed
    struct recording *recording;  // NULL: none yet
    bool is_refused;              // it cannot be recorded
};

struct step_memory {
    size_t weights, gradients, optimizer, activations, scratch, total;
};

struct step {
    const struct config *config;
    struct device *device;
    struct mesh mesh;
    enum step_mode mode;
    enum dtype dtype;
    struct param_list params;
    struct step_chunk *chunks;  // pieces of the model, in order
    int chunk_count;
    struct step_pipeline pipeline;
    struct step_shared *shared;
    int shared_count;
    struct adam adam;
    struct reducer reducer;
    struct tensor values, grads;  // (n), flat
    struct tensor totals;         // (TOTAL_COUNT) fp32
    struct tensor logits;         // (1, V) fp32, for generation
    struct kv_cache cache;
    struct tensor encoded;  // (P, C): an encoder's output, for generation
    struct arena state, saved, scratch;
    struct step_slot slots[2];
    int next_slot;
    struct step_results results;
    struct step_replay replays[2][2];  // by whether a pass is the first and the last of its step
    struct step_memory memory;
};

// Builds the model on the device and takes its memory; weights are not set yet.
int step_open(struct step **step, const struct config *config, struct device *device, const struct mesh *mesh,
              enum step_mode mode);
void step_close(struct step *step);  // NULL is fine

// Random weights from the run's seed, optimizer cleared.
void step_initialize(struct step *step);
// Where whole weights are put, a flat buffer of the parameters' layout: the parameters, or where the optimizer has
// master copies a buffer of fp32 (the gradients'). step_weights_are_set then takes them from there.
struct tensor step_weights_target(struct step *step);
void step_weights_are_set(struct step *step);

// Queues one step: forward and backward of all micro-batches, reduction, update. -1 where the source failed; the
// weights are then as before. The device may be busy with it, and with steps before it, when this returns.
int step_train(struct step *step, const struct step_source *source, double lr, double weight_decay);
// The same where the pace depends on how many steps were skipped: paces[k] holds where k of the pending ones were.
// There are step_pending + 1 of them, and at most STEP_MOST_AHEAD steps are pending.
int step_train_paced(struct step *step, const struct step_source *source, const struct adam_pace *paces);
// Losses without learning, added up over the source.
int step_evaluate(struct step *step, const struct step_source *source);
// How many steps it is worth to queue ahead: none where they are done when they are queued.
int step_worth_ahead(const struct step *step);
// Calls of the above whose result was not taken; taking the oldest one's, which waits for it and for nothing after it;
// and what the last call gave. Whoever takes none loses the oldest ones.
int step_pending(const struct step *step);
struct step_result step_take_result(struct step *step);
struct step_result step_result(struct step *step);
// Adds up the results of evaluations, of all that are pending but the latest `but`.
struct step_losses {
    double loss, tokens;      // sum of the tokens' losses, and their number
    double pair_loss, pairs;  // the same of the pair head
};
void step_take_losses(struct step *step, int but, struct step_losses *sum);
double step_params_norm(struct step *step);
// Returns when this rank has all updated parameters, which with --overlap-param-gather may still be on their way after
// a step. Whoever reads parameters other than by a pass calls it first.
void step_settle(struct step *step);
// In replicas.c: -1, naming the parameter, where ranks that should hold the same do not. All ranks call.
int step_check_replicas(struct step *step);
int64_t step_count_zero_gradients(struct step *step);

// Logits (V, the unpadded part is the caller's business) after the T tokens, which follow those in the cache. Of T5
// they are the decoder's, and step_encode comes before the first.
void step_logits(struct step *step, const int32_t *tokens, int64_t T, float *logits);
void step_encode(struct step *step, const int32_t *tokens, int64_t T);
void step_forget(struct step *step);  // empties the cache

// Implemented in step_inputs.c: the largest micro-batch of the step, its bytes on the device; copying one there and its
// tensors there.
struct step_input step_largest_input(const struct step *step);
size_t step_input_bytes(const struct step *step, const struct step_input *input);
// Which arrays of enum array (step_inputs.c) it has, one bit each.
uint32_t step_input_arrays(const struct step *step, const struct step_input *input);
// `block` is where on the device it lies. The counts are (2) fp32, as the last two of the totals.
struct tensor step_input_counts(const struct step *step, const struct step_input *input, struct tensor block);
struct device_batch step_input_tensors(const struct step *step, const struct step_input *input, struct tensor block);
struct step_counts {
    double tokens, pairs;
};
struct step_upload {
    bool has_weights;
    double divisor;          // of the weights: micro-batches × data-parallel ranks
    int64_t first_position;  // where positions that are not given begin
    // How many tokens of this rank count, and how many samples of the pair head, in the micro-batches so far; this
    // one's are added.
    struct step_counts counts;
};
void step_upload_input(struct step *step, struct tensor block, const struct step_input *input,
                       struct step_upload *upload);

#endif
