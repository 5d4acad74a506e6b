// Adam with decoupled weight decay over the flat buffers of a parameter list. In fp32 the parameters are their own
// master copy; in 16 bits the master copy lives here and the parameters are its rounded image. The gradient norm,
// clipping, the loss scale and the update stay on the device: a step asks it nothing.
#ifndef OPTIM_ADAM_H
#define OPTIM_ADAM_H

#include "config/config.h"
#include "ops/ops.h"
#include "optim/scaler.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "tensor/arena.h"

struct adam {
    struct tensor master;   // (n) fp32; none where the parameters are fp32
    struct tensor m, v;     // (n) fp32
    struct tensor scalars;  // (4) fp32: sum of squares, norm, scale, squares of the parameters
    struct scaler scaler;   // of the loss, in fp16
    int64_t step;           // updates done so far
    float beta1, beta2, epsilon, max_norm;
};

// Takes its tensors from the arena, unset; adam_reset clears the moments.
void adam_build(struct adam *adam, struct arena *arena, const struct param_list *params, enum dtype dtype,
                const struct config *config);
void adam_reset(struct adam *adam, struct device *device);

struct adam_update {
    struct device *device;
    const struct mesh *mesh;
    const struct param_list *params;
    struct tensor values;  // (n), the parameters, flat
    struct tensor grads;   // (n) fp32, reduced over the data-parallel ranks
    double lr, weight_decay;
};
void adam_apply(struct adam *adam, const struct adam_update *update);
// Norm of the gradients before clipping; waits for the device.
double adam_grad_norm(const struct adam *adam, struct device *device);
// Norm of the (master) parameters; waits for the device.
double adam_params_norm(const struct adam *adam, const struct adam_update *update);

#endif
