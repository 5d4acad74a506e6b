// What lies at a path that a user names with --load, --save or --input: whose checkpoints they are, what can be read,
// and the latest iteration. It is found by one look at the names and the first bytes of files, and all code that loads,
// writes or removes checkpoints reads this value. Two rules follow from it: nothing is written into a folder that holds
// another program's checkpoint, and nothing is removed that this program did not write.
#ifndef FORMATS_CONTENTS_H
#define FORMATS_CONTENTS_H

#include <stdbool.h>
#include <stdint.h>

enum contents_owner {
    OWNER_NOBODY,  // it does not exist, is a file, or holds no checkpoint; its files stay as they are
    OWNER_OURS,    // checkpoints of this program, perhaps damaged, or only their marker
    OWNER_OTHERS,  // checkpoints of another program, or the folder of one iteration
};

// The program whose format is read. All but our own are foreign: checkpoint_find does not read them.
enum contents_kind {
    CONTENTS_NONE,
    CONTENTS_OURS,  // a folder of --save with checkpoints, or one of its iter_… folders
    CONTENTS_HUGGINGFACE,
    CONTENTS_MEGATRON,
    CONTENTS_LLMC,
    CONTENTS_FAIRSEQ,
    CONTENTS_KINDS
};

struct contents {
    enum contents_owner owner;
    enum contents_kind kind;
    const char *what;  // OTHERS: "a Megatron-LM checkpoint (torch_dist)"
    char name[256];    // OTHERS: the entry that shows it, e.g. iter_0000100; "" if the whole folder does
    // The requested iteration or, of ours, the marker's, or else the newest before it; of Megatron-LM's, the marker's.
    // -1 if there is none or it is unknown.
    int64_t iteration;
    // Whether anything claims to be a checkpoint: a marker, an iter_… folder, a foreign model, or a path that
    // checkpoint_find must refuse (a file, an iter_… folder itself). If not, a run starts from random weights.
    bool is_claimed;
};

// A folder whose marker names a checkpoint of ours is ours, whatever else it contains. step: --ckpt-step, -1 for the
// latest. -1 if that cannot be read.
int contents_look(struct contents *contents, const char *path, int64_t step);
// Whether model_source_open reads it and checkpoint_find does not.
bool contents_is_foreign(const struct contents *contents);

// -1, with a message that ends in the remedy, if the folder holds another program's checkpoint.
int contents_refuse_others(const struct contents *contents, const char *folder, const char *remedy);
// -1 if the folder holds any program's checkpoint; `flag` named it.
int contents_check_free(const char *folder, const char *flag);

#endif
