// Activations that borrow the memory of gradients. Only for the files of this folder.
//
// In a step of one micro-batch, the gradients' buffer is idle until the backward pass writes it, layer by layer from
// the last to the first, and matmuls write without reading. So what the forward pass keeps of a layer, and of the
// heads, may lie where the gradients of earlier layers will be. With more micro-batches the buffer holds the sum of the
// earlier ones, and nothing is borrowed.
#ifndef STEP_BORROW_H
#define STEP_BORROW_H

#include "step/internal.h"

// After a training pass on paper whose activations reached the height `peak`: finds from where on they may lie in the
// gradients' buffer. If the pass borrowed, and that was right, this is what it borrowed; else another pass must show
// whether the answer is.
struct step_borrow borrow_find(const struct step *step, size_t peak);
// After an evaluation, which writes no gradients, but whose activations may have reached the height `peak`: what was
// found before it, raised so that they have room.
struct step_borrow borrow_raise(const struct step *step, struct step_borrow borrow, size_t peak);
// Applies it to a flight's arena, before that is used.
void borrow_apply(const struct step *step, struct arena *activations);

#endif
