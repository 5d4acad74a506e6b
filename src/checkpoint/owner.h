// Whose folder is this? Everything that writes checkpoints or removes something asks here first. Two rules follow from
// the answer: nothing is written into a folder that holds somebody else's checkpoint, and nothing is removed that this
// program did not write.
#ifndef CHECKPOINT_OWNER_H
#define CHECKPOINT_OWNER_H

#include <stdbool.h>
#include <stdint.h>

enum owner_kind {
    OWNER_NOBODY,  // it is not there, or holds no checkpoint: whatever files are in it stay as they are
    OWNER_OURS,    // checkpoints of this program, perhaps damaged ones, or a marker that is left of them
    OWNER_OTHERS,  // checkpoints of another program
};

struct owner {
    enum owner_kind kind;
    const char *what;   // OTHERS: "a Megatron-LM checkpoint (torch_dist)"
    char name[256];     // OTHERS: what in the folder says so, e.g. iter_0000100; "" if it is all of it
    int64_t iteration;  // OURS: the one that the marker names, or else the newest before it; -1 if there is none
};

// Reads names and first bytes only. A folder in which the marker names a checkpoint of ours is ours, whatever else is
// in it. A path that is not a folder has no owner. -1 if the folder cannot be listed.
int owner_find(struct owner *owner, const char *folder);
// -1, with a message that ends in the remedy, if the folder holds somebody else's checkpoint.
int owner_check(struct owner *owner, const char *folder, const char *remedy);
// -1 if the folder holds a checkpoint of anybody; `flag` named it.
int owner_check_free(const char *folder, const char *flag);

// An iter_… folder, or a leftover of one: whether this program wrote it, as far as its names tell.
bool owner_is_ours(const char *path);
// Whether it holds only files that this program wrote, so that it may be removed. Otherwise *stranger, to be freed, is
// one that it did not write.
bool owner_may_remove(const char *path, char **stranger);

#endif
