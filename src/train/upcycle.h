// A dense checkpoint as the beginning of a mixture of experts (--moe-use-upcycling): every expert is a copy of the
// dense MLP, and routers are drawn. A router whose weights add up to 1 then gives what the dense model gave. With a
// softmax before the choice they add up to less: weights of experts are scaled as in Megatron (arXiv:2410.07524), which
// keeps the mean size of results.
#ifndef TRAIN_UPCYCLE_H
#define TRAIN_UPCYCLE_H

#include "train/state.h"

// Sets all weights. All ranks call.
int upcycle_load(const struct run_state *run, const char *path);

#endif
