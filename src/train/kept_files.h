// The files that every checkpoint of a run keeps beside its tensors: those of the tokenizer, what came with a model of
// Hugging Face, and what the run trains on (identity.h). They are read once, at the start, so that the folder they came
// from may be moved or removed later.
#ifndef TRAIN_KEPT_FILES_H
#define TRAIN_KEPT_FILES_H

#include "config/config.h"
#include "store/checkpoint.h"
#include "train/identity.h"

struct kept_files {
    struct checkpoint_file_list files;
    struct buffer *bytes;  // (held_count) of the first files; of those that are too large to be held, empty
    size_t held_count;
};

// Reads them; a zeroed one keeps nothing. A file that is gone is taken from the latest checkpoint in --save, so that it
// is not lost with --keep-last; if that has none, a warning says so. The identity must outlive it.
void kept_files_open(struct kept_files *kept, const struct config *config, const struct identity *identity);
void kept_files_close(struct kept_files *kept);

#endif
