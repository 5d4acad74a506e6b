// The updates of a run: an optimizer for each group of parameters, clipping, and the loss scale.
//
// The gradient norm, clipping, the loss scale and the update stay on the device: a step never reads from it. The host
// therefore does not know at once whether an update was made or skipped (because the norm was not finite). It sends the
// device the rates of the next update for every possible number of skipped updates, and learns the number later, see
// updates_learn.
#ifndef OPTIM_UPDATES_H
#define OPTIM_UPDATES_H

#include "optim/clip.h"
#include "optim/optimizer.h"
#include "optim/scaler.h"

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
