// Moments in 8 bits on their way to a file and back. Files store the decoded numbers, in a dtype that holds them
// exactly, so that they do not show how ranks shared the codes. Internal to this folder.
#ifndef STORE_CODED_H
#define STORE_CODED_H

#include "store/checkpoint.h"
#include "store/safetensors.h"
#include "store/stage.h"

static inline bool coded_is(const struct checkpoint_tensor *tensor) {
    return tensor->exponents.data != NULL;
}
// The dtype of a tensor in a file; its own if it has no codes.
enum dtype coded_dtype(const struct checkpoint_tensor *tensor);
// The elements that this rank holds, in that dtype, to host memory.
void coded_copy_out(struct device *device, void *to, const struct checkpoint_tensor *tensor);
// The reverse, from a tensor in host memory of the same shape and any float dtype; rounds to nearest.
int coded_copy_in(struct stage *stage, const struct checkpoint_tensor *to, const struct safetensors_tensor *from);

#endif
