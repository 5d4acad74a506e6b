// One training step: the model, the reducer and the optimizer put together, with the memory they need. A step knows no
// files, clocks or logs; the trainer brings micro-batches and takes the numbers away.
//
// All memory is taken when a step is opened. How much is needed is measured by running the step itself once on the
// paper backend, with arenas that only count. So nothing is allocated later, and a run that does not fit is refused
// before it starts.
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include "base/buffer.h"
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

// A micro-batch on the host. What the model does not use is NULL. For T5, tokens and the arrays that go with them
// belong to the encoder, and labels and mask have S columns.
struct step_input {
    int64_t B, T;
    int64_t S;                         // tokens per sample of the decoder; 0 unless there is a decoder over an encoder
    const int32_t *tokens;             // (B, T)
    const int32_t *positions;          // (B, T), or NULL: 0, 1, …
    const int32_t *labels;             // (B, T or S)
    const float *mask;                 // (B, T or S): 1 if the token counts
    const int32_t *types;              // (B, T), or NULL: all 0
    const int32_t *lengths;            // (B), or NULL: how many tokens of each sample are not padding
    const int32_t *first_keys;         // (B, T), or NULL: the column where each token's document begins
    const int32_t *decoder_tokens;     // (B, S)
    const int32_t *decoder_positions;  // (B, S), or NULL: 0, 1, …
    const int32_t *pair_labels;        // (B): for the pair head; NULL to leave out its loss
    const int64_t *samples;            // (B): global number of each sample, negative for padding
};

// Provides the micro-batches of a step in order; `next` returns -1 on failure.
struct step_source {
    int (*next)(void *context, struct step_input *input);
    void *context;
    int64_t count;  // micro-batches of this rank in this step
};

struct step_result {
    double loss;        // mean over the counted tokens of all ranks
    double tokens;      // how many tokens counted
    double grad_norm;   // before clipping
    double pair_loss;   // of BERT's pair head: mean over the samples of all ranks
    double pairs;       // how many samples the pair head saw; 0 without that head
    double loss_scale;  // after the step; 1 if there is no loss scaling
};

// A step's sums on the device. The first two are accumulated there; the others arrive with the inputs.
enum { TOTAL_LOSS, TOTAL_PAIR_LOSS, TOTAL_TOKENS, TOTAL_PAIRS, TOTAL_COUNT };

// How many steps may be queued behind the one whose result is taken next.
enum { STEP_MOST_AHEAD = ADAM_MOST_RATES - 1, STEP_ROWS = STEP_MOST_AHEAD + 1 };

struct step_row {
    float *numbers;      // page-locked host memory: what comes back from a step
    float *rates;        // (ADAM_MOST_RATES, RATE_LENGTH), page-locked: what is sent to it
    struct event *done;  // recorded when the numbers have arrived
    bool is_training;
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
    struct arena saved;
    struct deferred *deferred;  // only between the two halves of a backward pass
    int micro_batch;
    bool is_used;
};

// A piece of the model that this rank holds; the whole model if there is no pipeline.
struct step_chunk {
    struct model model;
    struct step_flight *flights;
    int flight_count;           // how many micro-batches are in flight through it at most
    struct deferred *deferred;  // weight gradients put off by those that are between the halves of their backward
    int deferred_count;
    size_t saved_bytes, deferred_bytes;  // of each flight's arena, and of each deferred one
    bool grows_backward;                 // a backward pass keeps more than the forward pass before it
};

// The inputs of a micro-batch while it is in flight.
struct step_batch {
    struct tensor block;  // on the device, see step_inputs.c
    struct step_input input;
    struct device_batch batch;
    int micro_batch;
    bool is_used;
};

struct step_pipeline {
    struct schedule schedule;  // for the number of micro-batches of the last step
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

// What the work of a pass depends on, apart from what stays the same over all steps.
struct step_shape {
    int64_t B, T, S;
    uint32_t arrays;  // which arrays the inputs have, see step_input_arrays
    bool is_known;    // whether the 8-bit ranges are, see struct fp8
};
// A recorded pass, see replay.c.
struct step_replay {
    struct step_shape shape;
    int runs;                     // passes of this shape that were not replayed
    struct recording *recording;  // NULL: none yet
    bool is_refused;              // it cannot be recorded
};

// Where a flight's arena turns into the gradients' buffer, see borrow.h.
struct step_borrow {
    size_t border;  // height of the arena; 0: it does not
    size_t room;    // bytes there
    int64_t first;  // element of the gradients where they begin
};

struct step_memory {
    size_t weights, gradients, optimizer, activations, scratch, total;
    size_t buffers;     // "buffers": inputs, messages between stages, and what generation keeps of the tokens so far
    size_t device_own;  // beside the total: what the device takes itself, growing to it in the first step
    size_t total_kept;  // the total if results are kept that are computed again now; 0 if that was not measured
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
    struct step_replay replays[2][2];  // indexed by whether a pass is the first, and the last, of its step
    struct step_borrow borrow;
    bool keeps_results;  // see struct pass
    struct step_memory memory;
};

// Appends "1.23 GB (weights 0.45, …)".
void step_describe_memory(const struct step_memory *memory, struct buffer *out);

// Builds the model on the device and takes its memory. The weights are not set yet.
int step_open(struct step **step, const struct config *config, struct device *device, const struct mesh *mesh,
              enum step_mode mode);
void step_close(struct step *step);  // NULL is fine

// Sets random weights from the run's seed and clears the optimizer.
void step_initialize(struct step *step);
// Where to put whole weights, as a flat buffer in the parameters' layout: the parameters themselves or, if the
// optimizer has master copies, an fp32 buffer (that of the gradients). step_accept_weights then takes them from there.
struct tensor step_weights_target(struct step *step);
void step_accept_weights(struct step *step);
// The optimizer's master copies of what this rank updates, (n / parts) fp32, none if parameters are fp32. They may
// lie in the gradients' buffer, so no step comes before step_close_masters. They are for reading.
struct tensor step_open_masters(struct step *step);
void step_close_masters(struct step *step);

// Queues one step: forward and backward of all micro-batches, reduction, update. Returns -1 if the source failed; the
// weights are then unchanged. When it returns, the device may still be busy with this step and with earlier ones.
int step_train(struct step *step, const struct step_source *source, double lr, double weight_decay);
// The same when the pace depends on how many steps were skipped: paces[k] applies if k of the pending ones were. There
// are step_pending + 1 paces, and at most STEP_MOST_AHEAD steps are pending.
int step_train_paced(struct step *step, const struct step_source *source, const struct adam_pace *paces);
// Computes losses without learning, summed over the source.
int step_evaluate(struct step *step, const struct step_source *source);
// How many steps are worth queueing ahead: none if the device completes a step while it is being queued.
int step_lookahead(const struct step *step);
// step_pending counts the calls of the functions above whose results have not been taken. step_take_result takes the
// oldest one; it waits for that step and for nothing after it. step_result returns the result of the last call. Results
// that are never taken are lost, oldest first.
int step_pending(const struct step *step);
struct step_result step_take_result(struct step *step);
struct step_result step_result(struct step *step);
// Adds up the results of all pending evaluations except the latest `but`.
struct step_losses {
    double loss, tokens;      // sum of the tokens' losses, and how many tokens
    double pair_loss, pairs;  // the same for the pair head
};
void step_take_losses(struct step *step, int but, struct step_losses *sum);
// Of the masters, if there are any; the gradients are gone then.
double step_params_norm(struct step *step);
// Returns when this rank has all updated parameters; with --overlap-param-gather they may still be on their way after a
// step. Must be called before parameters are read in any way other than by a pass.
void step_settle(struct step *step);
// Returns -1, naming the parameter, if ranks that should hold the same values do not. All ranks call. See replicas.c.
int step_check_replicas(struct step *step);
int64_t step_count_zero_gradients(struct step *step);

// Logits after these T tokens, which follow those in the cache. There are V of them, padding included. All ranks call
// and get them. For T5 the tokens are the decoder's, and step_encode must have been called before the first.
void step_logits(struct step *step, const int32_t *tokens, int64_t T, float *logits);
void step_encode(struct step *step, const int32_t *tokens, int64_t T);
void step_forget(struct step *step);  // empties the cache

#endif
