// One training step: the model, the reducer and the optimizer put together, with the memory they need. It knows no
// files, clocks or logs; the trainer brings micro-batches and takes numbers away.
//
// All memory is taken when a step is opened. How much is found by running the step itself once on the paper backend,
// with arenas that only count; so nothing is allocated later, and what does not fit is said before anything starts.
#ifndef STEP_STEP_H
#define STEP_STEP_H

#include "config/config.h"
#include "model/gpt.h"
#include "optim/adam.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "tensor/arena.h"

enum step_mode { STEP_TRAIN, STEP_EVALUATE, STEP_GENERATE };

// A micro-batch on the host.
struct step_input {
    int64_t B, T;
    const int32_t *tokens;     // (B, T)
    const int32_t *labels;     // (B, T)
    const int32_t *positions;  // (B, T)
    const float *mask;         // (B, T): 1 where the token counts
    const int64_t *samples;    // (B): global number of each sample
};

// Hands out the micro-batches of a step in order; -1 where there is none to be had.
struct step_source {
    int (*next)(void *context, struct step_input *input);
    void *context;
    int64_t count;  // micro-batches of this rank in this step
};

struct step_result {
    double loss;       // sum of the counted tokens' losses over all ranks, by their number
    double tokens;     // how many that were
    double grad_norm;  // before clipping
};

// Two micro-batches may be on their way to the device at once: a slot is written again only when its copy has ended.
struct step_slot {
    unsigned char *host;  // staging, laid out as the device copy
    struct event *copied;
    bool is_used;
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
    struct gpt gpt;
    struct adam adam;
    struct tensor values, grads;  // (n), flat
    struct tensor totals;         // (2) fp32: sum of losses, number of tokens
    struct tensor logits;         // (1, V) fp32, for generation
    struct kv_cache cache;
    struct arena state, saved, scratch;
    struct tensor inputs;  // one micro-batch on the device, see step_inputs.c
    struct step_slot slots[2];
    int next_slot;
    struct step_memory memory;
};

// Builds the model on the device and takes its memory; weights are not set yet.
int step_open(struct step **step, const struct config *config, struct device *device, const struct mesh *mesh,
              enum step_mode mode);
void step_close(struct step *step);  // NULL is fine

// Random weights from the run's seed, optimizer cleared.
void step_initialize(struct step *step);
// After master copies were loaded: the parameters become their rounded image. Nothing where there are none.
void step_round_master(struct step *step);

// One step: forward and backward of all micro-batches, reduction, update. -1 where the source failed; the weights are
// then as before.
int step_train(struct step *step, const struct step_source *source, double lr, double weight_decay);
// Losses without learning, added up over the source.
int step_evaluate(struct step *step, const struct step_source *source);
// What the last call gave; waits for the device.
struct step_result step_result(struct step *step);
double step_params_norm(struct step *step);
int64_t step_count_zero_gradients(struct step *step);

// Logits (V, the unpadded part is the caller's business) after the T tokens, which follow those in the cache.
void step_logits(struct step *step, const int32_t *tokens, int64_t T, float *logits);
void step_forget(struct step *step);  // empties the cache

// Implemented in step_inputs.c: bytes of a micro-batch on the device; copying one there; its tensors.
size_t step_input_bytes(int64_t rows);
struct device_batch step_input_tensors(const struct step *step, int64_t rows, struct tensor *row_ids);
struct step_upload {
    bool has_weights;
    double divisor;  // of the weights: micro-batches × data-parallel ranks
};
// Returns the number of tokens that count.
double step_upload_input(struct step *step, const struct step_input *input, const struct step_upload *upload);

#endif
