// Flags that a run needs and that were not given: batch sizes, precision, learning rate and length. They are chosen for
// the model, the data and the machine, and named in one line of the log. With --micro-batch-size, which all scripts for
// Megatron have, the precision and the batch are those of the flags.
#ifndef TRAIN_AUTOMATIC_H
#define TRAIN_AUTOMATIC_H

#include "config/config.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "train/text_data.h"

// The flags that were not given.
struct automatic {
    bool micro_batch_size, global_batch_size, precision;
    bool lr, train_iters;
};

// Whether train chooses the precision: neither it nor --micro-batch-size is given.
bool automatic_has_precision(const struct config *config);
// Before validation: finds the flags that were not given, and sets temporary values.
int automatic_begin(struct automatic *open, struct config *config);
bool automatic_is_needed(const struct automatic *open);

struct automatic_run {
    const struct automatic *open;
    struct config *config;  // validated; padded_vocab_size is set
    struct device *device;
    const struct mesh *mesh;
    const struct text_data *texts;
};
// Chooses, logs the choices, and validates again. All ranks call and make the same choices. A resumed run takes them
// from its checkpoint.
int automatic_choose(const struct automatic_run *run);
// automatic_choose if flags are missing (run->open may be NULL), with a run's progress messages. Afterwards all
// arguments are known, and `dumps` writes them to stderr.
int automatic_settle(const struct automatic_run *run, bool dumps);

// Samples per rank of an evaluation whose --micro-batch-size is not given: as many as a device needs to be fast and has
// room for, at most `samples`, if that is not 0. The result of an evaluation does not depend on it, except for ICT,
// which takes 1. All ranks call and make the same choice.
int64_t automatic_evaluation_batch(const struct config *config, struct device *device, const struct mesh *mesh,
                                   int64_t samples);

#endif
