// The identity of a run's datasets and tokenizer. Every checkpoint has it, so that a resumed run detects files that
// were replaced, extended or truncated, and does not train on other samples than it says.
//
// It is one JSON object, kept as data_identity.json:
//
//   {"format": 1, "datasets": [{"name": …, "files": [{"ending": ".idx", "bytes": …, "hash": HEX, "modified": …,
//    "whole": HEX}, …]}, …], "tokenizer": HEX}
//
// `name` is what the flags name, a prefix or a text. Hashes are those of file_print.h: of a file over 32 MiB they
// cover 64 pieces, so that a start does not have to read terabytes. That of the tokenizer covers every token.
// `modified`, in nanoseconds, is a hint: a larger file with another date and the same pieces may have been copied or
// changed, so it is a warning. `whole`, the hash of all bytes, is there with --check-data full. Both may be missing.
#ifndef TRAIN_IDENTITY_H
#define TRAIN_IDENTITY_H

#include "base/buffer.h"
#include "config/config.h"
#include "data/tokenizer/tokenizer.h"
#include "parallel/mesh.h"
#include "store/checkpoint.h"
#include "train/text_data.h"

#define IDENTITY_NAME "identity.json"

struct identity {
    struct buffer json;  // empty on ranks that took none, and of a run without datasets and tokenizer
};

struct identity_sources {
    const struct config *config;
    const struct mesh *mesh;
    const struct text_data *texts;      // datasets made of text
    const struct tokenizer *tokenizer;  // NULL if there is none
};

// All ranks call; the first reads the datasets of all splits. What cannot be read is left out: opening it says why.
void identity_take(struct identity *identity, const struct identity_sources *sources);
void identity_free(struct identity *identity);  // safe on a zeroed one

// For a run that resumes from a checkpoint of ours: compares the datasets of the same name, and the tokenizer. What
// differs is an error with EXIT_CODE_BAD_DATA, or a warning with --allow-changed-data. Passes if one of the two has no
// identity. Datasets that only one of them names are another choice of flags, which is not judged here.
int identity_check(const struct identity *identity, const struct config *config, const char *path);
// For commands that only read a checkpoint: warns if it was trained with another tokenizer. Never fails.
void identity_warn_of_tokenizer(const struct tokenizer *tokenizer, const char *path);
// Compares two texts; `path` names the checkpoint in messages.
int identity_compare(const struct buffer *now, const struct buffer *then, const char *path);

// ---- kept files ----

// The files that every checkpoint of a run keeps beside its tensors: those of the tokenizer, what came with a model of
// Hugging Face, and what the run trains on. They are read once, at the start, so that the folder they came
// from may be moved or removed later.

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
