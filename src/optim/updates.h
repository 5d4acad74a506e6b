// The updates of a run: an optimizer for each group of parameters, and beside them clipping and the loss scale.
//
// The gradient norm, clipping, the loss scale and the update stay on the device: a step never reads it. So the host
// does not know at once whether an update was made or skipped (because of a norm that is not finite). It sends
// the device the rates of the next update for every possible number of skipped ones, and learns later how many there
// were, see updates_learn.
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
    struct tensor rates;   // (UPDATES_MOST_RATES, updates_rate_count) fp32: what they are chosen from
    const struct param_list *params;
    struct tensor slots;  // (bytes) uint8: where states in host memory are updated; none without such states
    struct offload *offload;
    int64_t made;     // assuming that no update was skipped that updates_learn has not been told about
    int64_t skipped;  // those that updates_learn was told were skipped
};

// Numbers in the rates of an update: of every group, and for its parameters with the usual factors and with each of the
// list's own, RATE_LENGTH. Without a list there are only the usual ones.
int64_t updates_rate_count(const struct param_list *params, int groups);
// Takes its tensors from the arena without setting them; updates_reset does. Options of every group.
void updates_build(struct updates *updates, struct arena *arena, const struct optimizer_options *options, int count);
// Prepares the visits of states in host memory, once the tensors are on a device; nothing without such states.
void updates_open(struct updates *updates, struct device *device);
void updates_close(struct updates *updates, struct device *device);
void updates_reset(struct updates *updates, struct device *device);

// How far an update goes.
struct pace {
    double lr, weight_decay;
    double decoupled_lr;  // of the vocabulary's parameters, with --decoupled-lr
};
// Makes the rows of updates->rates: paces[k] applies if k of the updates with unknown outcome were skipped.
void updates_make_rates(const struct updates *updates, const struct pace *paces, int count, float *rates);
// Computes the norm of the gradients and the resulting scale for the updates of all parts that follow. The rates must
// be set.
void updates_begin(const struct updates *updates, const struct update *update);
// Before anything but an update reads or writes states in host memory.
void updates_settle(const struct updates *updates, struct device *device);
// Updates what this rank holds of [first, end) of the flat buffers.
void updates_apply(const struct updates *updates, const struct update *update, int64_t first, int64_t end);
// The functions above only queue work on the device, which may be replayed. This one tells the host that an update was
// queued.
void updates_count(struct updates *updates);
// Reports the outcome of the oldest update whose outcome is still unknown.
void updates_learn(struct updates *updates, bool is_skipped);
// Whether parameters have master copies, see optimizer.h; then the functions on them, for every group.
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
