// The files that every checkpoint of a run keeps beside its tensors: those of the tokenizer, and what came with a model
// of Hugging Face.
#ifndef TRAIN_KEPT_FILES_H
#define TRAIN_KEPT_FILES_H

#include "checkpoint/checkpoint.h"
#include "config/config.h"

// Lists them. A file that is gone is taken from the latest checkpoint in --save, so that it is not lost with
// --keep-last; if that has none, a warning says so.
void kept_files_list(struct checkpoint_file_list *files, const struct config *config);

#endif
