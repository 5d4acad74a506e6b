// Initial state of a training run: a checkpoint to resume from, weights of another run or program, or random ones.
#ifndef TRAIN_BEGINNING_H
#define TRAIN_BEGINNING_H

#include "recovery/memory_checkpoint.h"
#include "train/identity.h"
#include "train/state.h"

struct beginning_options {
    struct step *step;
    struct config *config;
    const struct identity *identity;  // of the first rank
    struct memory_checkpoint *memory;
};
// Sets the step's weights: those of a checkpoint in host memory, of --load or of --pretrained-checkpoint, or random
// ones. A resumed run gets its moments and its place (*at), too, and takes from the checkpoint what
// config_match_schedule says; its data must be the checkpoint's.
int beginning_set_weights(const struct beginning_options *options, struct progress_state *at);
// For a run that goes back (see recovery/rewind.h): loads the checkpoint at `path`, or with NULL the weights that the
// run began with. options->memory is not used.
int beginning_load_earlier(const struct beginning_options *options, struct progress_state *at, const char *path);

#endif
