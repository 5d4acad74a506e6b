// What a training run begins with: a checkpoint to go on from, weights of another run or program, or random ones.
#ifndef TRAIN_BEGINNING_H
#define TRAIN_BEGINNING_H

#include "train/state.h"

// Sets the step's weights: those of the checkpoint of --load or --pretrained-checkpoint, or random ones. A run that
// goes on gets its moments and its place (*at), too, and takes from the checkpoint what config_match_schedule says.
int beginning_set_weights(struct step *step, struct config *config, struct progress_state *at);

#endif
