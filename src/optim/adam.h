// Adam with decoupled weight decay over the flat buffers of a parameter list. In fp32 the parameters are their own
// master copy; in fp16 the master copy lives here and the parameters are its rounded image. In bf16 the parameters are
// the upper half of the master copy and what they lack lives here, in 16 bits: 16 bytes a parameter in all, where a
// whole copy would make it 18. See tensor/half.h: nothing is lost but the last place of a tie.
//
// The gradient norm, clipping, the loss scale and the update stay on the device: a step asks it nothing. Nor does the
// host know at once whether an update was made or skipped (a norm that is not finite): it tells how far the next one
// goes for every number of skipped ones there can be, and learns later, see adam_learn.
//
// The optimizer may be divided among the ranks that hold the same parameters: then each has moments and masters of its
// pieces alone and updates those parameters, and the caller gathers the others' afterwards.
#ifndef OPTIM_ADAM_H
#define OPTIM_ADAM_H

#include "config/config.h"
#include "ops/ops.h"
#include "optim/scaler.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "parallel/pieces.h"
#include "tensor/arena.h"

struct adam {
    struct pieces pieces;   // what this rank holds of the flat buffers of n elements
    struct tensor master;   // (n / parts) fp32, or int16 where the parameters are bf16; none where they are fp32
    struct tensor m, v;     // (n / parts) fp32
    struct tensor scalars;  // (5) fp32: sum of squares, norm, scale, squares of the parameters, skipped updates
    struct tensor rate;     // (RATE_LENGTH) fp32: of this update
    struct tensor rates;    // (ADAM_MOST_RATES, RATE_LENGTH) fp32: what it is chosen from
    struct scaler scaler;   // of the loss, in fp16
    int64_t step;           // updates so far, as if none of those that adam_learn has not heard of were skipped
    int64_t skipped;        // updates that adam_learn was told were skipped
    float beta1, beta2, epsilon, max_norm;
};
enum { ADAM_MOST_RATES = 3 };

// Takes its tensors from the arena, unset; adam_reset clears the moments.
void adam_build(struct adam *adam, struct arena *arena, const struct pieces *pieces, enum dtype dtype,
                const struct config *config);
void adam_reset(struct adam *adam, struct device *device);
struct adam_update {
    struct device *device;
    const struct mesh *mesh;
    const struct param_list *params;
    struct tensor values;  // (n), the parameters, flat
    struct tensor grads;   // (n) fp32, reduced over the data-parallel ranks where this rank's pieces are
};
// The master copies of this rank's pieces, (n / parts) fp32; none where the parameters are fp32. Those in halves are
// put together at the beginning of the gradients' buffer, which is theirs until adam_close_masters: that takes them
// back if they were changed, and clears the buffer.
struct tensor adam_open_masters(const struct adam *adam, const struct adam_update *update);
void adam_close_masters(const struct adam *adam, const struct adam_update *update, bool are_changed);
// Rounds the parameters from whole weights, which lie in the gradients' buffer, takes the master copies of this rank's
// pieces from there, and clears it. Not for parameters in fp32.
void adam_take_weights(const struct adam *adam, const struct adam_update *update);

// How far an update goes.
struct adam_pace {
    double lr, weight_decay;
};
// Rows (count, RATE_LENGTH) for adam->rates: paces[k] holds where k of the updates not learnt of yet were skipped.
void adam_make_rates(const struct adam *adam, const struct adam_pace *paces, int count, float *rates);
// The gradients' norm and what it makes of them, for the updates of all parts that follow. The rates are in place.
void adam_begin(struct adam *adam, const struct adam_update *update);
// Updates what this rank holds of [first, end) of the flat buffers.
void adam_apply(const struct adam *adam, const struct adam_update *update, int64_t first, int64_t end);
// The above are device work alone, which may be replayed; this tells the host that an update was queued.
void adam_count(struct adam *adam);
// What became of the oldest update that is not learnt of.
void adam_learn(struct adam *adam, bool is_skipped);
// Norm of the gradients before clipping, (1) fp32 on the device.
struct tensor adam_grad_norm(const struct adam *adam);
// Norm of the (master) parameters; waits for the device. It opens the masters, so the gradients are gone then.
double adam_params_norm(const struct adam *adam, const struct adam_update *update);

#endif
