// Who owns a folder? All code that writes checkpoints or removes something asks here first. Two rules follow: nothing
// is written into a folder that holds another program's checkpoint, and nothing is removed that this program did not
// write.
#ifndef FORMATS_OWNER_H
#define FORMATS_OWNER_H

#include <stdbool.h>
#include <stdint.h>

enum owner_kind {
    OWNER_NOBODY,  // it does not exist or holds no checkpoint; its files stay as they are
    OWNER_OURS,    // checkpoints of this program, perhaps damaged, or only their marker
    OWNER_OTHERS,  // checkpoints of another program
};

struct owner {
    enum owner_kind kind;
    const char *what;   // OTHERS: "a Megatron-LM checkpoint (torch_dist)"
    char name[256];     // OTHERS: the entry that shows it, e.g. iter_0000100; "" if the whole folder does
    int64_t iteration;  // OURS: the marker's, or else the newest before it; -1 if there is none
};

// Reads names and first bytes only. A folder whose marker names a checkpoint of ours is ours, whatever else it
// contains. A path that is not a folder has no owner. -1 if the folder cannot be listed.
int owner_find(struct owner *owner, const char *folder);
// -1, with a message that ends in the remedy, if the folder holds another program's checkpoint.
int owner_check(struct owner *owner, const char *folder, const char *remedy);
// -1 if the folder holds any program's checkpoint; `flag` named it.
int owner_check_free(const char *folder, const char *flag);

// Whether this program wrote an iter_… folder or a leftover of one, judging by its files' names.
bool owner_is_ours(const char *path);

#endif
