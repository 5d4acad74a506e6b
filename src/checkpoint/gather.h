// Tensors that ranks share, on their way into a file and out of it. Saving: the first rank of the group receives every
// other's slice, puts the whole together in host memory and writes it; the others send theirs in the same order. One
// tensor is on its way at a time, so the largest one is all the memory it takes. Internal to this folder.
#ifndef CHECKPOINT_GATHER_H
#define CHECKPOINT_GATHER_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/stage.h"

struct gather {
    struct device *device;
    struct group *group;
    const struct checkpoint_tensor *lists[2];  // the model's and the optimizer's
    size_t counts[2];
    size_t given;  // tensors of both lists that are through
};

bool gather_is_split(const struct checkpoint_tensor *tensor);
// The whole shape of a tensor: rank and, in `shape`, its lengths.
int gather_shape(const struct checkpoint_tensor *tensor, int64_t shape[TENSOR_MAX_RANK]);
// Loading: this rank's slice of a file's tensor, or all of it where it is not split.
int gather_take(struct stage *stage, const struct checkpoint_tensor *wanted, const struct safetensors_tensor *found);
// The first rank: the next tensor of the lists, gathered and written. With a NULL writer it is received and forgotten.
int gather_next(struct gather *gather, struct safetensors_writer *writer);
// The first rank, where saving failed: the others must not wait for ever.
void gather_forget_rest(struct gather *gather);
// The others: all their slices.
void gather_give(struct gather *gather);

#endif
