// Folders of Hugging Face and Megatron-LM in the place of a checkpoint of ours. Internal to this folder.
#ifndef TRAIN_FOREIGN_H
#define TRAIN_FOREIGN_H

#include "formats/model_source.h"
#include "train/state.h"

int foreign_open(struct model_source *source, const struct config *config, const char *path);
// Fills the step's parameters, of which a stage of a pipeline has some, from the folder; the list has each of them.
// Gains of norms become what the flags say, whichever way they are stored. If the flags describe a model with the same
// tensors that would compute something else with them, it says so. Unless run->progress is NULL, sets it to where the
// run that wrote the folder stood, which Hugging Face's do not say.
int foreign_load(const struct run_state *run, const char *path, struct checkpoint_tensor *list);

#endif
