// Moves tensors between a device and a file in pieces, so that host memory for one piece is enough. If device memory is
// host memory, there is no piece and no copy. Internal to this folder.
#ifndef STORE_STAGE_H
#define STORE_STAGE_H

#include "ops/device.h"
#include "store/checkpoint.h"
#include "store/safetensors.h"

struct stage {
    struct device *device;
    void *piece;  // NULL until it is needed
};

// Appends the elements of a contiguous tensor to the file.
int stage_out(struct stage *stage, struct tensor from, struct safetensors_writer *writer);
// Fills a contiguous tensor from a file's tensor with as many elements, converting if the float types differ. The file
// must stay open until stage_end.
int stage_in(struct stage *stage, struct tensor to, const struct safetensors_tensor *from);
// Waits for the copies and frees the piece.
void stage_end(struct stage *stage);

// Moments in 8 bits. Files store the decoded numbers, in a dtype that holds them exactly, so that they do not show how
// ranks shared the codes.
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
