// One training step: the model, the reducer and the optimizer put together, with the memory they need. A step knows no
// flags, files or logs: it takes values and returns values. It measures only its waits for inputs and the spans of a
// trace (spans.h).
//
// All memory is taken when a step is opened. The amount is measured by running the step once on the paper backend, with
// arenas that only count. Nothing is allocated later, and a run that does not fit is refused before it starts.
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
    double tokens;              // number of counted tokens
    double grad_norm;           // before clipping
    double pair_loss;           // BERT's pair head: mean over the samples of all ranks
    double pairs;               // number of samples seen by the pair head; 0 without that head
    double loss_scale;          // after the step; 1 if there is no loss scaling
    bool is_own_finite;         // about the losses of this rank's tokens, before the sum over ranks
    bool has_finite_gradients;  // about this rank's gradients; true if not watched
    // ICT's top-k accuracies in the order of their flag: fractions of the queries, which are counted as tokens.
    double accuracies[OPS_MOST_TOPS];
    int tops;
    // Multi-token prediction: mean over the tokens that count at each depth, without the factor.
    double depth_losses[CONFIG_MOST_DEPTHS], depth_tokens[CONFIG_MOST_DEPTHS];
    int depths;
    // The losses that balance experts, without their coefficients: means over layers with experts and micro-batches.
    double balance[BALANCE_COUNT];
    bool has_balance[BALANCE_COUNT];
    // For a training step: tokens per expert, for each layer with experts. Valid until the next step is queued. NULL
    // without experts.
    const float *expert_counts;
};
// Whether its loss and its gradient norm are finite.
bool step_result_is_good(const struct step_result *result);

// Most steps queued after the one whose result is taken next.
enum { STEP_MOST_AHEAD = UPDATES_MOST_RATES - 1 };

struct step_memory {
    size_t weights, gradients, optimizer, activations, scratch, total;
    size_t beside;      // part of scratch: for forward passes that overlap with a backward pass
    size_t buffers;     // "buffers": inputs, messages between stages, and the cache of generation
    size_t device_own;  // not in the total: memory taken by the device itself, reached in the first step
    size_t copies;      // part of device_own: fp32 copies of tensors that the step has in 16 bits
    size_t hosted;      // not in the total: optimizer states in host memory
    size_t offloaded;   // not in the total: inputs of recomputed layers
    size_t total_kept;  // the total if recomputed results were kept; 0 if not measured
};

struct step;  // see step/internal.h

// The options of a step, as values; plan/setup.h sets them from flags.
struct step_room;
struct step_options {
    struct device *device;
    const struct mesh *mesh;  // copied
    enum step_mode mode;
    struct model_options model;          // of the whole model, on this mesh
    struct optimizer_options optimizer;  // of most parameters
    // Sets the factors of own parameters; `all` has the names of all stages' parameters. NULL: usual factors.
    int (*take_factors)(const struct config *config, const struct param_list *all, struct param_list *own);
    enum dtype dtype;                // of parameters and activations
    uint64_t seed;                   // of initial weights and dropout
    struct batch_form largest;       // largest micro-batch that the step can be given
    struct schedule_shape schedule;  // of a whole training step
    bool grows;                      // the first steps have fewer micro-batches
    int64_t expert_layers;           // layers of the whole model whose MLP is a mixture of experts
    int depths;                      // of the whole model, of multi-token prediction
    double depth_factor;             // of the losses of each of them
    bool counts_tokens_alike;        // equal weights for tokens of the global batch, not only within each micro-batch
    int64_t decoder_chunk;           // the number of T5's first decoder chunk; INT64_MAX if there is none
    bool splits_rows;                // ranks that share layers split the residual stream
    bool recomputes;                 // keeps nothing that could be recomputed
    bool keeps_scores;               // of each token, for step_token_scores
    bool only_trains;                // a step in STEP_TRAIN without room for evaluations
    bool records;                    // passes are recorded and replayed if the device can do so
    bool divides_optimizer, overlaps_reduction, overlaps_gather, rounds_sums;  // see parallel/reducer.h
    bool watches_gradients;                 // see has_finite_gradients of struct step_result
    int64_t bucket_elements, bucket_count;  // of the reduction; at most one of them is given, else 0
    // A step whose weights this one uses, to generate text while they are trained; NULL: none. It must stay open as
    // long, and step_settle must be called for it before this step reads them.
    const struct step *weights_of;
    // Called once the memory is taken, before it is used: the system overcommits host memory, and its OOM killer ends
    // processes that use it. May be NULL.
    void (*tell_room)(const void *context, const struct step_room *room);
    const void *room_context;
};
#define STEP_HOSTED_STATES "optimizer states in host memory"
#define STEP_OFFLOADED "inputs of layers in host memory"
// The outcome of taking memory, for messages to the user. Ranks decide together, and one reports for all.
struct step_room {
    size_t bytes;        // memory that this rank could take at its last query: a part of the free memory
    int sharers;         // number of ranks that shared the free memory
    bool is_host;        // host memory, which the system overcommits
    size_t reserve;      // of the bytes, held for libraries
    size_t shrunk_from;  // bytes of the larger layout that could not be taken; 0 on ranks that do not report
    bool is_refused;     // on all ranks: one of them has no room, and step_open fails
    const char *lack;    // memory that could not be taken, e.g. STEP_HOSTED_STATES; NULL on ranks that do not report
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
// A flat buffer for whole weights in the parameters' layout: the parameters themselves or, if the optimizer has master
// copies, an fp32 buffer (that of the gradients). step_accept_weights then takes the weights from it.
struct tensor step_weights_target(struct step *step);
void step_draw_weights(struct step *step);  // fills it with random weights from the run's seed
void step_accept_weights(struct step *step);
// The optimizer's master copies of this rank's parameters in every group, (n / parts) fp32, none if parameters are
// fp32. They may be in the gradients' buffer, so no step may run before step_close_masters. They are read-only.
void step_open_masters(struct step *step, struct tensor masters[PARAM_MOST_GROUPS]);
void step_close_masters(struct step *step);
// With --ema-decay: swaps the weights and their moving averages, so that passes use the averages; a second call undoes
// it. Between the two calls, do not train or save. Overwrites the gradients. All ranks call.
void step_exchange_averages(struct step *step);
// The optimizer of a group of parameters: its named states, and this rank's pieces of them.
const struct optimizer *step_optimizer(const struct step *step, int group);
// The tensors of the fp8 ranges. All ranks that hold a layer have the same.
struct step_range {
    const char *name;
    const struct param *weight;  // of the layer
    struct tensor tensor;
};
int step_range_count(const struct step *step);
struct step_range step_range(const struct step *step, int i);
// The bias of a router, (E) fp32, or none; layers with experts are numbered from 0 on over all stages.
struct tensor step_expert_bias(const struct step *step, int64_t layer);
// Each expert's load in the last step, for the loss over the global batch; same numbering.
struct tensor step_expert_load(const struct step *step, int64_t layer);
// The numbers that a run resumes with. step_counters waits for the device; step_resume comes after loading the tensors.
struct step_counters {
    int64_t updates;             // made so far, without skipped ones
    struct scaler_state scaler;  // of the loss
    int64_t fp8_steps;           // steps in which fp8 ranges were updated
    bool has_ranges;             // for step_resume: they were loaded; else the next step measures them
};
// All tensors on this rank's device that the next step depends on, as stored: the parameters, the biases of routers,
// and the state of the optimizer and fp8. With the counters they are all that the same step on the same layout needs to
// resume. Fills `list` unless it is NULL; returns the number. Call step_settle before reading them.
int step_list_state(const struct step *step, struct tensor *list);
struct step_counters step_counters(const struct step *step);
void step_resume(struct step *step, const struct step_counters *counters);

// Queues one step: forward and backward of all micro-batches, reduction, update. Returns -1 if the source failed; the
// weights are then unchanged. When it returns, the device may still be busy with this step and with earlier ones.
int step_train(struct step *step, const struct step_source *source, double lr, double weight_decay);
// step_train with a pace that depends on the number of skipped steps: paces[k] applies if k of the pending ones were
// skipped. There are step_pending + 1 paces, and at most STEP_MOST_AHEAD steps are pending.
int step_train_paced(struct step *step, const struct step_source *source, const struct pace *paces);
// step_train, but computes the gradients twice, from two sources of the same micro-batches. Returns -1 on all ranks
// (EXIT_CODE_CORRUPT), naming the rank, if one of them got different bits; the weights are then unchanged. Not with
// fp8, whose ranges see every pass, and not on a device whose sums change from run to run.
int step_train_twice(struct step *step, const struct step_source *first, const struct step_source *again,
                     const struct pace *paces);
// Computes losses without learning, summed over the source.
int step_evaluate(struct step *step, const struct step_source *source);
// Seconds that the host has waited for training micro-batches so far.
double step_data_seconds(const struct step *step);
// Whether passes are replayed from now on, if the device can do so.
void step_set_records(struct step *step, bool records);
// Number of steps worth queueing ahead: 0 if the device completes a step while it is being queued.
int step_lookahead(const struct step *step);
// step_pending counts the calls of the functions above whose results have not been taken. step_take_result takes the
// oldest one; it waits for that step and for nothing after it. step_result returns the result of the last call. Results
// that are never taken are lost, oldest first.
int step_pending(const struct step *step);
struct step_result step_take_result(struct step *step);
struct step_result step_result(struct step *step);
// Adds up the results of all pending evaluations except the latest `but`: *sums, zeroed before the first call, has sums
// where a result has means.
void step_take_losses(struct step *step, int but, struct step_result *sums);
// The result that one evaluation of all of them would have returned.
struct step_result step_mean_losses(const struct step *step, const struct step_result *sums);
// The norm of the masters, if there are any, else of the parameters. Masters overwrite the gradients.
double step_params_norm(struct step *step);
// Returns when this rank has all updated parameters; with overlaps_gather they may still be in flight after a step.
// Must be called before parameters are read other than by a pass.
void step_settle(struct step *step);
// Returns -1 on all ranks (EXIT_CODE_CORRUPT), naming the parameter and the ranks, if ranks that should hold the same
// values do not. Overwrites the gradients. All ranks call. See replicas.c.
int step_check_replicas(struct step *step);
// This rank's current value of the first element that differed when such a check last failed; NAN if no element
// differed, or if other ranks hold it.
double step_suspect(const struct step *step);
// A digest of this rank's parameters, master copies and optimizer states.
int64_t step_digest(struct step *step);
// Most copies of a parameter that step_check_replicas compares; 1 if no rank holds a copy.
int step_replica_count(const struct step *step);
int64_t step_count_zero_gradients(struct step *step);

// The scores of the tokens of the last evaluation, which had one micro-batch: of this rank's part of it. Ranks without
// them have none: those before the last stage, and all but the first of those that share layers.
struct step_scores {
    int64_t count;
    int64_t *places;                     // row * T + column of each token; the arrays have room for B * T
    float *losses, *largest, *of_label;  // the loss, the largest logit and that of the label
};
void step_token_scores(const struct step *step, struct step_scores *scores);

// The logits of the last evaluation of one micro-batch, without a pipeline. Any later call may overwrite them.
struct tensor step_evaluated_logits(const struct step *step);
// ICT's embeddings of that evaluation, in fp32: of this rank's queries (B, E), and of the contexts of all data-parallel
// ranks in order (B * dp, E).
struct step_embeddings {
    struct tensor queries, contexts;
};
struct step_embeddings step_evaluated_embeddings(const struct step *step);
bool step_has_encoder(const struct step *step);     // whether there are an encoder and a decoder
int64_t step_vocabulary(const struct step *step);   // V, padding included
int64_t step_window(const struct step *step);       // most tokens that the model sees
int64_t step_window_left(const struct step *step);  // how many more tokens fit after the cached ones
// V logits, padding included, after these T tokens, which follow those in the cache. All ranks call and get them. For
// T5 the tokens are the decoder's, and step_encode must have been called before the first.
void step_logits(struct step *step, const int32_t *tokens, int64_t T, float *logits);
void step_encode(struct step *step, const int32_t *tokens, int64_t T);
void step_forget(struct step *step);  // empties the cache

#endif
