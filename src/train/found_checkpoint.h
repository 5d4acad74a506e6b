// The checkpoint that a run begins with or resumes from: of --load, --save-fallback or --pretrained-checkpoint, ours or
// another program's. Its folder is looked at once; what it is, is said by the value.
#ifndef TRAIN_FOUND_CHECKPOINT_H
#define TRAIN_FOUND_CHECKPOINT_H

#include "config/config.h"
#include "formats/contents.h"
#include "parallel/mesh.h"

struct found_checkpoint {
    const char *folder;       // the flag's value, borrowed from the configuration
    char *path;               // an iter_… folder of this program, or the folder of another; NULL if there is none
    enum contents_kind kind;  // CONTENTS_OURS or a foreign one
    int64_t iteration;        // -1 if the folder does not say
    bool is_pretrained;       // of --pretrained-checkpoint
    int hold;                 // keeps a run in progress from removing it until it is closed; -1 for none
};
void found_checkpoint_free(struct found_checkpoint *found);
bool found_checkpoint_is_foreign(const struct found_checkpoint *found);
// Whether it holds weights only and no state to continue from, as a converted one or one of Hugging Face or Megatron-LM
// does. Loading it begins a new run, as --finetune does.
bool found_checkpoint_is_release(const struct found_checkpoint *found);

// Finds it for this process alone, with its sizes verified: that of --load, or that of --pretrained-checkpoint if
// --load has none. found->path is NULL if there is none and `may_lack`.
int find_checkpoint_here(struct found_checkpoint *found, const struct config *config, bool may_lack);
// Verifies the files of what find_checkpoint_here has found. All ranks call, and each checks a share. found->path
// becomes that of rank 0, which may have found a newer one than others.
int found_checkpoint_verify(struct found_checkpoint *found, const struct mesh *mesh);
// Finds and verifies it. All ranks call, and each checks a share of the files. found->path is NULL if there is none and
// that is allowed. --load first; a --pretrained-checkpoint must exist.
int find_checkpoint_together(struct found_checkpoint *found, const struct config *config, const struct mesh *mesh);
// The iteration of the latest checkpoint that a run resumes from, by the names of folders; -1 if there is none of ours.
int64_t find_checkpoint_latest(const struct config *config);

#endif
