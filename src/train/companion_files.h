// The files that came with a model of Hugging Face, from the checkpoint or folder a run began with into every
// checkpoint that it saves, so that the trained model can go back with all of them. Internal to this folder.
#ifndef TRAIN_COMPANION_FILES_H
#define TRAIN_COMPANION_FILES_H

#include "config/config.h"
#include "store/checkpoint.h"

// Adds them to the files of a save. Those of the tokenizer are left out if the run has another tokenizer now.
void surroundings_add(struct checkpoint_file_list *files, const struct config *config);

#endif
