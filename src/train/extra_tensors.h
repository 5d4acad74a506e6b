// Tensors of a checkpoint that are neither parameters nor states of an optimizer.
//
// The biases that balance experts, to a checkpoint and back. They are part of the model: model.safetensors has
// decoder.layers.N.mlp.router.expert_bias, (E) fp32, for each layer with experts. Every rank has those of all layers.
#ifndef TRAIN_EXTRA_TENSORS_H
#define TRAIN_EXTRA_TENSORS_H

#include "parallel/param.h"
#include "step/step.h"
#include "store/checkpoint.h"

// Frees a list that owns its names.
void tensors_free(struct checkpoint_tensor *list, size_t count);

// Number of bias tensors; 0 without --moe-router-enable-expert-bias.
size_t expert_bias_count(const struct step *step, const struct config *config);
// Fills a list of that many tensors. The names are to be freed.
void expert_bias_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list);
// A new run may begin with a checkpoint without biases (--finetune): they are 0 then.
int expert_bias_load(const struct step *step, const struct config *config, const char *path);

// Each expert's load in the last step, which global_aux_loss needs: expert_load.decoder.layers.N.mlp.router, (E) fp32,
// beside the states of the optimizer. The first stage saves all of them.
size_t expert_load_count(const struct step *step, const struct config *config);
void expert_load_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list);
// A checkpoint without loads is of a run without that loss: they begin with 0.
int expert_load_read(const struct step *step, const struct config *config, const char *path);

// ---- ranges of fp8 tensors ----

// The ranges of fp8 tensors in a checkpoint, so that a run with --fp8-format resumes bit for bit. Each layer whose
// matmuls are in fp8 has fp8_ranges.NAME, (FP8_ROLES, RANGE_LENGTH), and fp8_history.NAME, (FP8_ROLES,
// --fp8-amax-history-len), where NAME is its weight's. They lie beside the optimizer's tensors. All ranks that hold a
// layer have the same ranges between steps, so each of them has the whole tensors, and any layout finds those of its
// layers.

// Fills a list of step_range_count tensors. The names are to be freed.
void ranges_list(const struct step *step, struct checkpoint_tensor *list);
// Loads them, given how many steps those of the checkpoint have seen. If it lacks those of a layer, or has histories of
// another length, none are loaded: the first step measures, as that of every run does, and a note says so. All ranks
// call, and do the same, whichever stage of a pipeline holds the layer.
int ranges_load(struct step *step, const struct config *config, const char *path, int64_t steps, bool *are_loaded);

// ---- gains of norms ----

// Gains of norms are stored as such or, by --apply-layernorm-1p, as their distance from 1. That is how a model is kept
// and not which one it is: weights that a run begins with may be stored either way.

// Makes the loading of the list, which has a tensor for each parameter in their order, convert the gains to the form
// that the parameters have. `is_centered`: the folder holds distances.
void gains_convert(struct checkpoint_tensor *list, const struct param_list *params, bool is_centered);

#endif
