// The inputs of a micro-batch on the device: all its fields in one block of memory, which is copied there as a whole.
// Only for the files of this folder.
#ifndef STEP_STEP_INPUTS_H
#define STEP_STEP_INPUTS_H

#include "step/internal.h"

// The form of such a micro-batch in its block: this rank's part of the fields that the model reads.
struct batch_form step_block_form(const struct step *step, const struct batch_form *form);
// A micro-batch of this form, in its block on the device.
struct device_batch step_device_batch(const struct step *step, const struct batch_form *form, struct tensor block);
// If all tokens of the global batch have equal weight, the number of token positions in a whole step, else 0. The
// number of counted tokens is known only at the end of the step: until then weights are shares of this number, and
// step_clip corrects that.
double step_positions(const struct step *step);
struct step_counts {
    double tokens, pairs;
};
struct step_upload {
    bool has_weights;
    double divisor;          // of the weights: micro-batches × data-parallel ranks
    double positions;        // of a whole step, see step_positions; 0: each micro-batch divides by its own tokens
    int64_t first_position;  // first position, if positions are not given
    // Counted tokens and pair samples of this rank in the micro-batches so far; this one's are added.
    struct step_counts counts;
};
// Copies a micro-batch to its block on the device.
void step_upload_batch(struct step *step, struct tensor block, const struct batch *batch, struct step_upload *upload);

#endif
