// Adam with decoupled weight decay over the flat buffers of a parameter list. In fp32 the parameters are their own
// master copy. In fp16 the master copy is stored here, and the parameters are its rounded image. In bf16 the parameters
// are the upper half of the master copy, and the 16 bits that they lack are stored here: 16 bytes per parameter in all,
// instead of 18 with a whole copy. Nothing is lost but the last place of a tie, see tensor/half.h.
//
// The gradient norm, clipping, the loss scale and the update stay on the device: a step asks it nothing. So the host
// does not know at once whether an update was made or skipped (because of a norm that is not finite). It tells the
// device how far the next update goes for every possible number of skipped ones, and learns later how many there were,
// see adam_learn.
//
// The optimizer may be divided among the ranks that hold the same parameters. Then each rank has moments and masters
// for its own pieces only and updates those parameters, and the caller gathers the other ranks' pieces afterwards.
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
    struct tensor master;   // (n / parts) fp32; int16 if the parameters are bf16, none if they are fp32
    struct tensor m, v;     // (n / parts) fp32
    struct tensor scalars;  // (5) fp32: sum of squares, norm, scale, squares of the parameters, skipped updates
    struct tensor rate;     // (RATE_LENGTH) fp32: the rates of this update, of both groups of parameters
    struct tensor rates;    // (ADAM_MOST_RATES, RATE_LENGTH) fp32: what they are chosen from
    struct scaler scaler;   // of the loss, in fp16
    int64_t step;           // updates so far, assuming that none of those that adam_learn has not heard of was skipped
    int64_t skipped;        // updates that adam_learn was told were skipped
    float beta1, beta2, epsilon, max_norm;
    bool is_decoupled;  // parameters with is_vocabulary have a learning rate of their own
};
enum { ADAM_MOST_RATES = 3 };

// Takes its tensors from the arena without setting them; adam_reset clears the moments.
void adam_build(struct adam *adam, struct arena *arena, const struct pieces *pieces, enum dtype dtype,
                const struct config *config);
void adam_reset(struct adam *adam, struct device *device);
struct adam_update {
    struct device *device;
    const struct mesh *mesh;
    const struct param_list *params;
    struct tensor values;  // (n): the parameters, flat
    struct tensor grads;   // (n) fp32: reduced over the data-parallel ranks, at least within this rank's pieces
};
// The master copies of this rank's pieces, (n / parts) fp32; none if the parameters are fp32. Masters in halves are put
// together at the beginning of the gradients' buffer, which they occupy until adam_close_masters clears it. They are
// for reading; adam_take_weights sets them.
struct tensor adam_open_masters(const struct adam *adam, const struct adam_update *update);
void adam_close_masters(const struct adam *adam, const struct adam_update *update);
// Rounds the parameters from whole weights in the gradients' buffer, takes the master copies of this rank's pieces from
// there, and clears the buffer. Not for parameters in fp32.
void adam_take_weights(const struct adam *adam, const struct adam_update *update);

// How far an update goes.
struct adam_pace {
    double lr, weight_decay;
    double decoupled_lr;  // of the vocabulary's parameters, if adam->is_decoupled
};
// Makes rows (count, RATE_LENGTH) for adam->rates: paces[k] applies if k of the updates not yet learnt of were skipped.
void adam_make_rates(const struct adam *adam, const struct adam_pace *paces, int count, float *rates);
// Computes the norm of the gradients and the resulting scale for the updates of all parts that follow. The rates must
// be set.
void adam_begin(struct adam *adam, const struct adam_update *update);
// Updates what this rank holds of [first, end) of the flat buffers.
void adam_apply(const struct adam *adam, const struct adam_update *update, int64_t first, int64_t end);
// The functions above only queue work on the device, which may be replayed. This one tells the host that an update was
// queued.
void adam_count(struct adam *adam);
// Says what became of the oldest update that has not been learnt of.
void adam_learn(struct adam *adam, bool is_skipped);
// The norm of the gradients before clipping, (1) fp32 on the device.
struct tensor adam_grad_norm(const struct adam *adam);
// The norm of the (master) parameters; waits for the device. It opens the masters, which overwrites the gradients.
double adam_params_norm(const struct adam *adam, const struct adam_update *update);

#endif
