// Activations that borrow the memory of gradients. Only for the files of this folder.
//
// In a step of one micro-batch, the gradients' buffer is idle until the backward pass writes it, layer by layer from
// the last to the first, and matmuls write without reading. The activations of a layer, and of the heads, may therefore
// use the memory of earlier layers' gradients. With more micro-batches the buffer holds the sum of the earlier ones,
// and nothing is borrowed.
#ifndef STEP_BORROW_H
#define STEP_BORROW_H

#include "step/internal.h"

// After a training pass on paper whose activations reached the height `peak`: finds from where on they may use the
// gradients' buffer. Equals the pass's own borrowing if that was right; else another pass must verify the answer.
struct step_borrow borrow_find(const struct step *step, size_t peak);
// After an evaluation, which writes no gradients but whose activations may reach the height `peak`: raises the earlier
// result so that they fit.
struct step_borrow borrow_raise(const struct step *step, struct step_borrow borrow, size_t peak);
// Applies it to a flight's arena, before that is used.
void borrow_apply(const struct step *step, struct arena *activations);

#endif
