// One training step: the model, the reducer and the optimizer put together, with the memory they need. A step knows no
// flags, files or logs: it takes values and returns values. Of time it knows how long it waited for inputs, and what it
// tells a trace (spans.h).
//
// All memory is taken when a step is opened. How much is needed is measured by running the step itself once on the
// paper backend, with arenas that only count. So nothing is allocated later, and a run that does not fit is refused
// before it starts.
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include "data/batch.h"
#include "model/model.h"
#include "ops/device.h"
#include "optim/updates.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "parallel/schedule.h"

enum step_mode { STEP_TRAIN, STEP_EVALUATE, STEP_GENERATE };

// Provides the micro-batches of a step in order; `next` returns -1 on failure. Their arrays stay until the next call.
struct step_source {
    int (*next)(void *context, struct batch *batch);
    void *context;
    int64_t count;  // micro-batches of this rank in this step
};

struct step_result {
    double loss;                // mean over the counted tokens of all ranks
    double tokens;              // how many tokens counted
    double grad_norm;           // before clipping
    double pair_loss;           // of BERT's pair head: mean over the samples of all ranks
    double pairs;               // how many samples the pair head saw; 0 without that head
    double loss_scale;          // after the step; 1 if there is no loss scaling
    bool is_own_finite;         // the losses of this rank's tokens, before they were summed over ranks
    bool has_finite_gradients;  // the same of this rank's gradients; true if they were not watched
    // ICT's top-k accuracies in the order of their flag: fractions of the queries, which count as tokens.
    double accuracies[OPS_MOST_TOPS];
    int tops;
    // Of multi-token prediction: mean over the tokens that count at each depth, without the factor.
    double depth_losses[CONFIG_MOST_DEPTHS], depth_tokens[CONFIG_MOST_DEPTHS];
    int depths;
    // The losses that balance experts, without their coefficients: means over layers with experts and micro-batches.
    double balance[BALANCE_COUNT];
    bool has_balance[BALANCE_COUNT];
    // Of a training step: how many tokens chose each expert, layer by layer of those with experts. Valid until the next
    // step is queued. NULL without experts.
    const float *expert_counts;
};

// How many steps may be queued behind the one whose result is taken next.
enum { STEP_MOST_AHEAD = UPDATES_MOST_RATES - 1 };

struct step_memory {
    size_t weights, gradients, optimizer, activations, scratch, total;
    size_t beside;      // part of scratch: for forward passes that go beside a backward pass
    size_t buffers;     // "buffers": inputs, messages between stages, and what generation keeps of the tokens so far
    size_t device_own;  // beside the total: what the device takes itself, growing to it in the first step
    size_t copies;      // part of it: tensors in fp32 that the step has in 16 bits
    size_t hosted;      // beside the total: optimizer states in host memory
    size_t offloaded;   // the same: inputs of recomputed layers
    size_t total_kept;  // the total if results are kept that are computed again now; 0 if that was not measured
};

struct step;  // see step/internal.h

// What a step is to do, as values; train/setup.h makes them from flags.
struct step_room;
struct step_options {
    struct device *device;
    const struct mesh *mesh;  // copied
    enum step_mode mode;
    struct model_options model;          // of the whole model, on this mesh
    struct optimizer_options optimizer;  // of most parameters
    // Sets the factors of own parameters; all has the names of every stage's. NULL for the usual ones.
    int (*take_factors)(const struct config *config, const struct param_list *all, struct param_list *own);
    enum dtype dtype;                // of parameters and activations
    uint64_t seed;                   // of initial weights and dropout
    struct batch_form largest;       // micro-batch that the step can be given
    struct schedule_shape schedule;  // of a whole training step
    bool grows;                      // the first steps have fewer micro-batches
    int64_t expert_layers;           // of the whole model: those whose MLP is a mixture of experts
    int depths;                      // of the whole model, of multi-token prediction
    double depth_factor;             // of the losses of each of them
    bool counts_tokens_alike;        // tokens of the global batch, not those of each micro-batch, weigh alike
    int64_t decoder_chunk;           // the number of T5's first decoder chunk; INT64_MAX if there is none
    bool splits_rows;                // ranks that share layers split the residual stream
    bool recomputes;                 // nothing is kept that could be computed again
    bool only_trains;                // a step in STEP_TRAIN is never given an evaluation, and has no room for one
    bool records;                    // passes are recorded and replayed if the device can do so
    bool divides_optimizer, overlaps_reduction, overlaps_gather, rounds_sums;  // see parallel/reducer.h
    bool watches_gradients;                 // see has_finite_gradients of struct step_result
    int64_t bucket_elements, bucket_count;  // of the reduction; at most one of them is given, else 0
    // A step whose weights this one uses instead of its own, to generate text while they are trained; NULL: none. It
    // stays open as long, and step_settle is called for it before this one reads them.
    const struct step *weights_of;
    // Called once the memory is taken, before any of it is used: the system promises host memory that it does not have,
    // and kills who uses it. NULL: nobody is told.
    void (*tell_room)(const void *context, const struct step_room *room);
    const void *room_context;
};
#define STEP_HOSTED_STATES "optimizer states in host memory"
#define STEP_OFFLOADED "inputs of layers in host memory"
// How a step got its memory, for messages to the user. Ranks decide together, and one reports for all.
struct step_room {
    size_t bytes;        // what this rank could take when it last asked: a part of what was free
    int sharers;         // among how many ranks that was split
    bool is_host;        // memory of the host, which is promised before it is there
    size_t reserve;      // of the bytes, held for libraries
    size_t shrunk_from;  // bytes of the larger layout that could not be taken; 0 on ranks that do not report
    bool is_refused;     // on all ranks: one of them has no room, and step_open fails
    const char *lack;    // what there is no room for, e.g. STEP_HOSTED_STATES; NULL on ranks that do not report
    size_t lack_bytes;
    struct step_memory needed;  // of the layout that was tried last
};
// Builds the model on the device and takes its memory. The weights are not set yet. All ranks call. *room is set also
// on failure; on paper it means nothing.
int step_open(struct step **step, const struct step_options *options, struct step_room *room);
void step_close(struct step *step);  // NULL is fine

struct device *step_device(const struct step *step);
const struct mesh *step_mesh(const struct step *step);
const struct param_list *step_params(const struct step *step);
const struct step_memory *step_memory(const struct step *step);
// All parameters, (n), flat.
struct tensor step_values(const struct step *step);

// Clears the optimizer; step_initialize also sets random weights from the run's seed.
void step_reset_optimizer(struct step *step);
void step_initialize(struct step *step);
// Where to put whole weights, as a flat buffer in the parameters' layout: the parameters themselves or, if the
// optimizer has master copies, an fp32 buffer (that of the gradients). step_accept_weights then takes them from there.
struct tensor step_weights_target(struct step *step);
void step_draw_weights(struct step *step);  // random ones from the run's seed, put there
void step_accept_weights(struct step *step);
// The optimizer's master copies of what this rank updates of every group, (n / parts) fp32, none if parameters are
// fp32. They may lie in the gradients' buffer, so no step comes before step_close_masters. They are for reading.
void step_open_masters(struct step *step, struct tensor masters[PARAM_MOST_GROUPS]);
void step_close_masters(struct step *step);
// With --ema-decay: exchanges the weights and their moving averages, so that passes use those; a second call undoes it.
// No training step may come between the two, and nothing is saved. The gradients are gone. All ranks call.
void step_exchange_averages(struct step *step);
// The optimizer of a group of parameters: its named states, and which pieces of them this rank holds.
const struct optimizer *step_optimizer(const struct step *step, int group);
// The tensors of the fp8 ranges. All ranks that hold a layer have the same.
struct step_range {
    const char *name;
    const struct param *weight;  // of the layer
    struct tensor tensor;
};
int step_range_count(const struct step *step);
struct step_range step_range(const struct step *step, int i);
// The bias of a router, (E) fp32; layers with experts are counted from 0 on, whichever stage holds them. None without.
struct tensor step_expert_bias(const struct step *step, int64_t layer);
// The same for each expert's load in the last step, with the loss over the global batch.
struct tensor step_expert_load(const struct step *step, int64_t layer);
// The numbers that a run resumes with. step_counters waits for the device; step_resume comes after loading the tensors.
struct step_counters {
    int64_t updates;             // made so far, without skipped ones
    struct scaler_state scaler;  // of the loss
    int64_t fp8_steps;           // that fp8 ranges were moved in
    bool has_ranges;             // to resume: they were loaded; else the next step measures them
};
// Everything on this rank's device that the next step depends on, as it is stored there: the parameters, the biases of
// routers, and what the optimizer and fp8 keep. With the counters it is all that the same step on the same layout needs
// to resume. Fills `list` unless it is NULL; returns how many. To read them, call step_settle first.
int step_list_state(const struct step *step, struct tensor *list);
struct step_counters step_counters(const struct step *step);
void step_resume(struct step *step, const struct step_counters *counters);

// Queues one step: forward and backward of all micro-batches, reduction, update. Returns -1 if the source failed; the
// weights are then unchanged. When it returns, the device may still be busy with this step and with earlier ones.
int step_train(struct step *step, const struct step_source *source, double lr, double weight_decay);
// The same when the pace depends on how many steps were skipped: paces[k] applies if k of the pending ones were. There
// are step_pending + 1 paces, and at most STEP_MOST_AHEAD steps are pending.
int step_train_paced(struct step *step, const struct step_source *source, const struct pace *paces);
// The same, but the gradients are computed twice, from two sources of the same micro-batches. Returns -1 on all ranks
// (EXIT_CODE_CORRUPT), naming the rank, if one of them got different bits; the weights are then unchanged. Not with
// fp8, whose ranges see every pass, and not on a device whose sums change from run to run.
int step_train_twice(struct step *step, const struct step_source *first, const struct step_source *again,
                     const struct pace *paces);
// Computes losses without learning, summed over the source.
int step_evaluate(struct step *step, const struct step_source *source);
// How long the host has waited for micro-batches of training so far, in seconds.
double step_data_seconds(const struct step *step);
// Whether passes are replayed from now on, if the device can do so.
void step_set_records(struct step *step, bool records);
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
    double loss, tokens;         // sum of the tokens' losses, and how many tokens
    double pair_loss, pairs;     // the same for the pair head
    double hits[OPS_MOST_TOPS];  // how many queries had their context among the k best
    int tops;
    double depth_losses[CONFIG_MOST_DEPTHS], depth_tokens[CONFIG_MOST_DEPTHS];  // as the first two, of each depth
    int depths;
};
void step_take_losses(struct step *step, int but, struct step_losses *sum);
// What one evaluation of all of them would have returned.
struct step_result step_mean_losses(const struct step_losses *sum);
// Of the masters, if there are any; the gradients are gone then.
double step_params_norm(struct step *step);
// Returns when this rank has all updated parameters; with overlaps_gather they may still be on their way after a
// step. Must be called before parameters are read in any way other than by a pass.
void step_settle(struct step *step);
// Returns -1 on all ranks (EXIT_CODE_CORRUPT), naming the parameter and the ranks, if ranks that should hold the same
// values do not. The gradients are gone then. All ranks call. See replicas.c.
int step_check_replicas(struct step *step);
// The value that this rank holds now of the first element that differed when such a check last failed; NAN if no
// element did, or if other ranks hold it.
double step_suspect(const struct step *step);
// A digest of what this rank holds of parameters, master copies and optimizer states.
int64_t step_digest(struct step *step);
// How many copies of a parameter that compares, at most; 1 if no rank holds what another does.
int step_replica_count(const struct step *step);
int64_t step_count_zero_gradients(struct step *step);

// The logits of the last evaluation of one micro-batch, without a pipeline. Any later call may overwrite them.
struct tensor step_evaluated_logits(const struct step *step);
// The same for ICT's embeddings in fp32: of this rank's queries (B, E), and of the contexts of all data-parallel ranks,
// one after the other (B * dp, E).
struct step_embeddings {
    struct tensor queries, contexts;
};
struct step_embeddings step_evaluated_embeddings(const struct step *step);
bool step_has_encoder(const struct step *step);     // whether a decoder answers what an encoder has read
int64_t step_vocabulary(const struct step *step);   // V, padding included
int64_t step_window(const struct step *step);       // how many tokens the model sees at most
int64_t step_window_left(const struct step *step);  // how many of them may follow those in the cache
// Logits after these T tokens, which follow those in the cache. There are V of them, padding included. All ranks call
// and get them. For T5 the tokens are the decoder's, and step_encode must have been called before the first.
void step_logits(struct step *step, const int32_t *tokens, int64_t T, float *logits);
void step_encode(struct step *step, const int32_t *tokens, int64_t T);
void step_forget(struct step *step);  // empties the cache

#endif
