// Weights of another model or program, with which a run of ours begins. Internal to this folder.
#ifndef TRAIN_INITIAL_WEIGHTS_H
#define TRAIN_INITIAL_WEIGHTS_H

#include "formats/model_source.h"
#include "train/state.h"

// ---- of another program: foreign.c ----

int foreign_open(struct model_source *source, const struct config *config, const char *path, int64_t step);
// Fills the step's parameters, of which a stage of a pipeline has some, from the folder; the list has each of them.
// Gains of norms become what the flags say, whichever way they are stored. If the flags describe a model with the same
// tensors that would compute something else with them, it says so. Unless run->progress is NULL, sets it to where the
// run that wrote the folder stood, which Hugging Face's do not say.
int foreign_load(const struct run_state *run, const char *path, struct checkpoint_tensor *list);

// ---- of a dense model, for a mixture of experts: upcycle.c ----
//
// A dense checkpoint as the beginning of a mixture of experts (--moe-use-upcycling): every expert is a copy of the
// dense MLP, and routers are drawn. A router whose weights add up to 1 then gives what the dense model gave. With a
// softmax before the choice they add up to less: weights of experts are scaled as in Megatron (arXiv:2410.07524), which
// keeps the mean size of results.

// Sets all weights. All ranks call.
int upcycle_load(const struct run_state *run, const char *path);

// ---- of a BERT, for both towers of a retriever: bert_load.c ----
//
// --bert-load: the towers of a new ICT run begin with the encoder of a BERT.

// Sets all weights. Projections, which a BERT lacks, are random, the same for both towers. All ranks call.
int bert_load(struct step *step, const struct config *config);

#endif
