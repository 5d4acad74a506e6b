// Activations that borrow the memory of gradients. Only for the files of this folder.
//
// In a step of one micro-batch, the gradients' buffer is idle until the backward pass writes it, layer by layer from
// the last to the first, and matmuls write without reading. So what the forward pass keeps of the last layers and of
// the heads, which is used up first, may lie where the gradients of the first layers will be. With more micro-batches
// the buffer holds the sum of the earlier ones, and nothing is borrowed.
#ifndef STEP_BORROW_H
#define STEP_BORROW_H

#include "step/internal.h"

// After a training pass that kept `activation_bytes` at most: finds from where on activations may lie in the gradients'
// buffer. Another measurement then takes that into account; borrow_fits says whether what it found has room there.
struct step_borrow borrow_find(const struct step *step, size_t activation_bytes);
bool borrow_fits(const struct step *step);
// Applies it to a flight's arena, before that is used.
void borrow_apply(const struct step *step, struct arena *activations);

#endif
