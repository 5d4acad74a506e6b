// Checkpoints made of checkpoints: the average of the weights of several, or one divided among other files.
//
// An average is of checkpoints of one model, and has no optimizer. Weights are read one tensor and one checkpoint at a
// time: memory is needed for one tensor. They are summed in double, in the order of iterations and paths, so the order
// in which checkpoints are named does not matter.
#ifndef FORMATS_AVERAGE_H
#define FORMATS_AVERAGE_H

#include "tensor/tensor.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AVERAGE_MOST = 1000 };  // checkpoints

struct average_list {
    char **paths;  // iter_… folders; owned
    size_t count;
};
// Adds the newest `last` checkpoints of a --save folder, which must have that many; or an iter_… folder.
int average_list_add(struct average_list *list, const char *folder, int64_t last);
// Adds the checkpoint of this iteration.
int average_list_add_step(struct average_list *list, const char *folder, int64_t iteration);
void average_list_free(struct average_list *list);

struct average {
    struct average_list *list;  // sorted by the call
    const char *folder;         // --save folder to write
    bool has_dtype;             // otherwise that of the newest checkpoint
    enum dtype dtype;
    bool is_ema;          // average the moving averages of runs with --ema-decay, not the weights
    int64_t iteration;    // out: the newest one; the result has it too
    size_t from_masters;  // out: number of checkpoints whose fp32 master weights were read
};
int average_write(struct average *average);

// Copies the checkpoint of an iter_… folder to another SAVE folder, with this many files per list (0: one per 64 MiB,
// up to 10000). Nothing else changes: every file holds whole tensors.
int checkpoint_rewrite(const char *path, const char *folder, int64_t files);

#endif
