// Tensors that ranks share, on their way into a file and out of it. Internal to this folder.
#ifndef CHECKPOINT_GATHER_H
#define CHECKPOINT_GATHER_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/stage.h"

bool gather_is_split(const struct checkpoint_tensor *tensor);
// The whole shape of a tensor: returns its rank, and its lengths in `shape`.
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
// For the writer: all elements of the tensor, into gather_bytes of host memory.
void gather_receive(const struct gather *gather, unsigned char *whole);
// For the others: sends what the writer needs of them, which may be nothing.
void gather_send(const struct gather *gather);

// For loading: what this rank holds of a file's tensor.
int gather_take(struct stage *stage, const struct checkpoint_tensor *wanted, const struct safetensors_tensor *found);

#endif
