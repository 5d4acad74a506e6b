// Flags that a run needs and that were not given: batch sizes, precision, learning rate and length. They are chosen for
// the model, the data and the machine, and named in one line of the log. With --micro-batch-size, as in all scripts for
// Megatron, the precision and the batch are those of the flags, as before.
#ifndef TRAIN_AUTOMATIC_H
#define TRAIN_AUTOMATIC_H

#include "config/config.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "train/text_data.h"

// What is left open.
struct automatic {
    bool micro_batch_size, global_batch_size, precision;
    bool lr, train_iters;
};

// Whether train chooses the precision: neither it nor --micro-batch-size is given.
bool automatic_has_precision(const struct config *config);
// Before validation: finds what is open, and gives it a value for the moment.
int automatic_begin(struct automatic *open, struct config *config);
bool automatic_is_needed(const struct automatic *open);

struct automatic_run {
    const struct automatic *open;
    struct config *config;  // validated; padded_vocab_size is set
    struct device *device;
    const struct mesh *mesh;
    const struct text_data *texts;
};
// Chooses, says what, and validates again. All ranks call and choose alike. A run that resumes takes from its
// checkpoint what would otherwise be chosen.
int automatic_choose(const struct automatic_run *run);
// The same if flags were left open (run->open may be NULL), with what a run shows meanwhile. Then all arguments are
// known, and `dumps` writes them to stderr.
int automatic_settle(const struct automatic_run *run, bool dumps);

// Samples per rank of an evaluation whose --micro-batch-size is not given: as many as a device needs to be fast and has
// room for, and not more than `samples`, if that is not 0. The result of an evaluation does not depend on it, except
// for ICT, which takes 1. All ranks call and choose alike.
int64_t automatic_evaluation_batch(const struct config *config, struct device *device, const struct mesh *mesh,
                                   int64_t samples);

#endif
