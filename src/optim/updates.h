// The updates of a run: an optimizer for each group of parameters, clipping, and the loss scale.
//
// The gradient norm, clipping, the loss scale and the update stay on the device: a step never reads from it. The host
// therefore does not know at once whether an update was made or skipped (because the norm was not finite). It sends the
// device the rates of the next update for every possible number of skipped updates, and learns the number later, see
// updates_learn.
#ifndef OPTIM_UPDATES_H
#define OPTIM_UPDATES_H

#include "config/config.h"
#include "ops/ops.h"
#include "optim/optimizer.h"
#include "tensor/arena.h"

// ---- the loss scale ----

// The loss scale of fp16 training, as in Megatron. Gradients that would underflow in 16 bits are preserved by
// multiplying the loss by a large number, found by trial. The scale is on the device: the loss is scaled, an overflow
// detected, the step skipped and the scale adjusted without the host. op_clip_scale has the rule.

struct scaler {
    struct tensor state;  // (LOSS_SCALE_LENGTH) fp32, see ops.h; none without fp16
    struct loss_scale_rule rule;
    double initial;
};

// State saved in a checkpoint.
struct scaler_state {
    double scale;
    int64_t steps, overflows_left;
};

// Without --fp16 there is nothing to build, and the functions below do nothing.
void scaler_build(struct scaler *scaler, struct arena *arena, const struct config *config);
void scaler_reset(struct scaler *scaler, struct device *device);

// weights *= scale, where `weights` multiply the gradient of the loss.
void scaler_scale_loss(const struct scaler *scaler, struct device *device, struct tensor weights);

// The scale, (1) fp32 on the device; none without a scaler.
struct tensor scaler_scale(const struct scaler *scaler);
// The scale is 1 if there is no scaler. Waits for the device.
struct scaler_state scaler_read(const struct scaler *scaler, struct device *device);
// A constant --loss-scale keeps the flag's value, and the state of a run without a scaler (1, 0, 0) changes nothing.
void scaler_write(struct scaler *scaler, struct device *device, const struct scaler_state *state);

// ---- clipping ----

// The norm of the gradients of the whole model, and the factor that keeps it below --clip-grad. Both stay on the
// device.

struct clip {
    // (8) fp32: sum of squares, norm, scale, squares of parameters, skipped updates, of a group, tokens, share of one
    struct tensor scalars;
    float max_norm;
};

// Computes the norm of the gradients and the scale of the update, moves the loss scale, and chooses `rate`, (n), from
// the rows of `rates`, (rows, n), see op_clip_scale. Only queues work on the device.
struct clip_options {
    const struct optimizer *optimizers;  // of every group
    const struct scaler *scaler;
    struct tensor rate, rates;
};

// (1) fp32 on the device: the norm before clipping, and the factor of the gradients.
struct tensor clip_norm(const struct clip *clip);
struct tensor clip_scale(const struct clip *clip);

// The norm of the parameters: of the masters of this rank's pieces, if there are any, else of update->values. Waits for
// the device. Opens the masters, which overwrites the gradients.
double clip_params_norm(const struct clip *clip, const struct update *update, const struct optimizer *optimizers);

enum { UPDATES_MOST_RATES = 3 };

struct updates {
    struct optimizer optimizers[PARAM_MOST_GROUPS];
    int count;
    struct clip clip;
    struct scaler scaler;  // of the loss, in fp16
    struct tensor rate;    // (updates_rate_count) fp32: the rates of this update
    struct tensor rates;   // (UPDATES_MOST_RATES, updates_rate_count) fp32: rows to choose from
    const struct param_list *params;
    struct tensor slots;  // (bytes) uint8: where states in host memory are updated; none without such states
    struct offload *offload;
    int64_t made;     // assumes that updates with unknown outcome were not skipped
    int64_t skipped;  // as told to updates_learn
};

// Numbers in the rates of an update: for every group, RATE_LENGTH each for the usual factors and for each of the list's
// own factors. Without a list there are only the usual ones.
int64_t updates_rate_count(const struct param_list *params, int groups);
// Takes its tensors from the arena without setting them; updates_reset does. Options of every group.
void updates_build(struct updates *updates, struct arena *arena, const struct optimizer_options *options, int count);
// Prepares the visits of states in host memory, once the tensors are on a device; nothing without such states.
void updates_open(struct updates *updates, struct device *device);
void updates_close(struct updates *updates, struct device *device);
void updates_reset(struct updates *updates, struct device *device);

// The learning rates and weight decay of an update.
struct pace {
    double lr, weight_decay;
    double decoupled_lr;  // of the vocabulary's parameters, with --decoupled-lr
};
// Makes the rows of updates->rates: paces[k] applies if k of the updates with unknown outcome were skipped.
void updates_make_rates(const struct updates *updates, const struct pace *paces, int count, float *rates);
// Computes the norm of the gradients and the scale for the following updates of all parts. The rates must be set.
void updates_begin(const struct updates *updates, const struct update *update);
// Call before anything but an update reads or writes states in host memory.
void updates_settle(const struct updates *updates, struct device *device);
// Updates this rank's elements in [first, end) of the flat buffers.
void updates_apply(const struct updates *updates, const struct update *update, int64_t first, int64_t end);
// The functions above only queue work on the device, which may be replayed. This one counts a queued update on the
// host.
void updates_count(struct updates *updates);
// Reports the outcome of the oldest update whose outcome is still unknown.
void updates_learn(struct updates *updates, bool is_skipped);
// Whether parameters have master copies, see optimizer.h. The functions after it work on those of every group.
bool updates_have_masters(const struct updates *updates);
void updates_open_masters(const struct updates *updates, const struct update *update,
                          struct tensor masters[PARAM_MOST_GROUPS]);
void updates_close_masters(const struct updates *updates, const struct update *update);
void updates_take_weights(const struct updates *updates, const struct update *update);
// Moving averages of the weights, with --ema-decay, for every group: see optimizer.h.
bool updates_have_averages(const struct updates *updates);
void updates_begin_averages(const struct updates *updates, const struct update *update);
void updates_exchange_averages(const struct updates *updates, const struct update *update);

#endif
