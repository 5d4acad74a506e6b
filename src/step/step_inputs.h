// The inputs of a micro-batch on the device: all its arrays in one block of memory, which is copied there as a whole.
// Only for the files of this folder.
#ifndef STEP_STEP_INPUTS_H
#define STEP_STEP_INPUTS_H

#include "step/step.h"

// The largest micro-batch that the step can be given.
struct step_input step_largest_input(const struct step *step);
// Its size on the device.
size_t step_input_bytes(const struct step *step, const struct step_input *input);
// Which arrays of enum array (step_inputs.c) the input has, one bit each.
uint32_t step_input_arrays(const struct step *step, const struct step_input *input);
// `block` is its memory on the device. The counts are (2) fp32, the last two of the totals.
struct tensor step_input_counts(const struct step *step, const struct step_input *input, struct tensor block);
struct device_batch step_input_tensors(const struct step *step, const struct step_input *input, struct tensor block);
struct step_counts {
    double tokens, pairs;
};
struct step_upload {
    bool has_weights;
    double divisor;          // of the weights: micro-batches × data-parallel ranks
    int64_t first_position;  // where positions begin that are not given
    // How many tokens and pair samples of this rank count in the micro-batches so far; this one's are added.
    struct step_counts counts;
};
// Copies a micro-batch to its block on the device.
void step_upload_input(struct step *step, struct tensor block, const struct step_input *input,
                       struct step_upload *upload);

#endif
