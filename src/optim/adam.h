// Adam with decoupled weight decay over the flat buffers of a parameter list. In fp32 the parameters are their own
// master copy; in 16 bits the master copy lives here and the parameters are its rounded image. The gradient norm,
// clipping, the loss scale and the update stay on the device: a step asks it nothing.
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
    struct tensor master;   // (n / parts) fp32; none where the parameters are fp32
    struct tensor m, v;     // (n / parts) fp32
    struct tensor scalars;  // (4) fp32: sum of squares, norm, scale, squares of the parameters
    struct scaler scaler;   // of the loss, in fp16
    int64_t step;           // updates done so far
    float beta1, beta2, epsilon, max_norm;
};

// Takes its tensors from the arena, unset; adam_reset clears the moments.
void adam_build(struct adam *adam, struct arena *arena, const struct pieces *pieces, enum dtype dtype,
                const struct config *config);
void adam_reset(struct adam *adam, struct device *device);
// Takes the master copies of this rank's pieces from the flat buffer `values` (n) fp32; nothing where there are none.
void adam_set_master(struct adam *adam, struct device *device, struct tensor values);

struct adam_update {
    struct device *device;
    const struct mesh *mesh;
    const struct param_list *params;
    struct tensor values;  // (n), the parameters, flat
    struct tensor grads;   // (n) fp32, reduced over the data-parallel ranks where this rank's pieces are
    double lr, weight_decay;
};
void adam_apply(struct adam *adam, const struct adam_update *update);
// Norm of the gradients before clipping; waits for the device.
double adam_grad_norm(const struct adam *adam, struct device *device);
// Norm of the (master) parameters; waits for the device.
double adam_params_norm(const struct adam *adam, const struct adam_update *update);

#endif
