// Tensors that ranks share, on their way into a file and out of it. Internal to this folder.
#ifndef STORE_GATHER_H
#define STORE_GATHER_H

#include "store/checkpoint.h"
#include "store/safetensors.h"
#include "store/stage.h"

bool gather_is_split(const struct checkpoint_tensor *tensor);
// The shape of a whole tensor: returns its rank, and its lengths in `shape`.
int gather_shape(const struct checkpoint_tensor *tensor, int64_t shape[TENSOR_MAX_RANK]);
size_t gather_bytes(const struct checkpoint_tensor *tensor);  // of the whole

// Brings one tensor to the rank of the stage that writes it. All ranks of the stage call, tensor by tensor in the same
// order.
struct gather {
    struct device *device;
    const struct checkpoint_ranks *ranks;  // NULL for this process alone
    const struct checkpoint_tensor *tensor;
    int writer;
};
// The writer: receives all elements of the tensor into `whole`, which holds gather_bytes.
void gather_receive(const struct gather *gather, unsigned char *whole);
// The other ranks: sends their part, possibly nothing.
void gather_send(const struct gather *gather);

// Loads this rank's part of a file's tensor.
int gather_take(struct stage *stage, const struct checkpoint_tensor *wanted, const struct safetensors_tensor *found);

#endif
