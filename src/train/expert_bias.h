// The biases that balance experts, to a checkpoint and back. They are part of the model: model.safetensors has
// decoder.layers.N.mlp.router.expert_bias, (E) fp32, for each layer with experts. Every rank has those of all layers.
#ifndef TRAIN_EXPERT_BIAS_H
#define TRAIN_EXPERT_BIAS_H

#include "store/checkpoint.h"
#include "train/state.h"

// Number of bias tensors; 0 without --moe-router-enable-expert-bias.
size_t expert_bias_count(const struct step *step, const struct config *config);
// Fills a list of that many tensors. The names are to be freed.
void expert_bias_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list);
// A new run may begin with a checkpoint without biases (--finetune): they are 0 then.
int expert_bias_load(const struct run_state *run, const char *path);

// Each expert's load in the last step, which global_aux_loss needs: expert_load.decoder.layers.N.mlp.router, (E) fp32,
// beside the states of the optimizer. The first stage saves all of them.
size_t expert_load_count(const struct step *step, const struct config *config);
void expert_load_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list);
// A checkpoint without loads is of a run without that loss: they begin with 0.
int expert_load_read(const struct run_state *run, const char *path);

#endif
