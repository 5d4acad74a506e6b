// The norm of the gradients of the whole model, and the factor that keeps it below --clip-grad. Both stay on the
// device.
#ifndef OPTIM_CLIP_H
#define OPTIM_CLIP_H

#include "optim/optimizer.h"
#include "optim/scaler.h"

struct clip {
    // (8) fp32: sum of squares, norm, scale, squares of parameters, skipped updates, of a group, tokens, share of one
    struct tensor scalars;
    float max_norm;
};

void clip_build(struct clip *clip, struct arena *arena, const struct config *config);
void clip_reset(struct clip *clip, struct device *device);

// Computes the norm of the gradients and the scale of the update, moves the loss scale, and chooses `rate`, (n), from
// the rows of `rates`, (rows, n), see op_clip_scale. Only queues work on the device.
struct clip_options {
    const struct optimizer *optimizers;  // of every group
    const struct scaler *scaler;
    struct tensor rate, rates;
};
void clip_begin(const struct clip *clip, const struct update *update, const struct clip_options *options);

// (1) fp32 on the device: the norm before clipping, and the factor of the gradients.
struct tensor clip_norm(const struct clip *clip);
struct tensor clip_scale(const struct clip *clip);

// The norm of the parameters: of the masters of this rank's pieces, if there are any, else of update->values. Waits for
// the device. Opens the masters, which overwrites the gradients.
double clip_params_norm(const struct clip *clip, const struct update *update, const struct optimizer *optimizers);

#endif
