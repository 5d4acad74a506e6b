// The loss scale of fp16 training, as in Megatron. Gradients that would underflow in 16 bits are preserved by
// multiplying the loss by a large number, found by trial. The scale is on the device: the loss is scaled, an overflow
// detected, the step skipped and the scale adjusted without the host. op_clip_scale has the rule.
#ifndef OPTIM_SCALER_H
#define OPTIM_SCALER_H

#include "config/config.h"
#include "ops/ops.h"
#include "tensor/arena.h"

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

#endif
