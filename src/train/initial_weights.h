// Initial state of a training run: a checkpoint to resume from, weights of another run or program, or random ones.
#ifndef TRAIN_INITIAL_WEIGHTS_H
#define TRAIN_INITIAL_WEIGHTS_H

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
// ones; with --bert-load both towers of a new ICT run begin with the encoder of a BERT, which lacks their projections:
// these are random, the same for both. A resumed run gets its moments and its place (*at), too, and takes from the
// checkpoint what config_match_schedule says; its data must be the checkpoint's.
int beginning_set_weights(const struct beginning_options *options, struct progress_state *at);
// For a run that goes back (see recovery/rewind.h): loads the checkpoint at `path`, or with NULL the weights that the
// run began with. options->memory is not used.
int beginning_load_earlier(const struct beginning_options *options, struct progress_state *at, const char *path);

// --bert-load: sets all weights of both towers. All ranks call.
int bert_load(struct step *step, const struct config *config);

// ---- of a dense model, for a mixture of experts: upcycle.c ----
//
// A dense checkpoint as the beginning of a mixture of experts (--moe-use-upcycling): every expert is a copy of the
// dense MLP, and routers are drawn. A router whose weights add up to 1 then gives what the dense model gave. With a
// softmax before the choice they add up to less: weights of experts are scaled as in Megatron (arXiv:2410.07524), which
// keeps the mean size of results.

// Sets all weights. All ranks call.
int upcycle_load(const struct run_state *run, const char *path);

#endif
