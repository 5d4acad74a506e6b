// A rank's share of a checkpoint. Tensors are written whole, each by one of the ranks that hold it. They are assigned
// by size, so that all writers have about the same amount of work, and written in turns: in each turn, every writer
// receives one tensor from the ranks that hold slices of it, and then all write at once. Saving thus needs host memory
// for the largest tensor only, unless it is done in the background. Internal to this folder.
#ifndef STORE_SHARE_H
#define STORE_SHARE_H

#include "store/checkpoint.h"
#include "store/safetensors.h"
#include <stdint.h>

enum { SHARE_FILES = 2 };                           // the model's and the optimizer's
extern const char *const share_holds[SHARE_FILES];  // "model", "optimizer"

// A tensor of either list.
struct share_item {
    const struct checkpoint_tensor *tensor;
    size_t number;  // its index in its list
    int file;       // which of the two files it belongs to
    int writer;     // rank in the stage
    int64_t turn;   // its place among its writer's tensors
    size_t bytes;
};

// This rank's file of one list.
struct share_file {
    struct safetensors_tensor *entries;  // names are owned
    size_t count;
    unsigned char **kept;  // host copies of the entries' elements, or NULL if they are not kept
    struct safetensors_text metadata[3];
    char iteration[24];
    uint64_t bytes;                    // size of the file; 0 if this rank has none
    char *name;                        // owned
    struct safetensors_digest digest;  // once it is written
};

struct share {
    struct share_item *items;  // all writers' items, by turn and then by writer
    size_t count;
    struct share_file files[SHARE_FILES];
    int self, size;  // index and number of shares
};

// Assigns tensors to shares: there is one share per rank of the stage, of which at most `writers` are not empty; this
// is number `self`. Returns -1 if the tensors cannot form a file.
struct share_options {
    int self, size;
    int64_t writers;  // 0: one for every 64 MiB
};
int share_plan(struct share *share, const struct checkpoint_save *save, const struct share_options *options);
void share_free(struct share *share);
// The name of a rank's file, to be freed, from the sizes of every rank's files: sizes[SHARE_FILES * rank + file].
char *share_file_name(int file, const int64_t *sizes, int rank, int ranks);

// Takes part in all turns and writes this rank's files to the folder. If it fails, its files are removed, but it still
// goes through the turns, so that no other rank waits for this one.
int share_write(struct share *share, const struct checkpoint_save *save, const char *folder);
// share_write in two halves: share_keep copies everything to host memory, share_write_kept then writes it.
int share_keep(struct share *share, const struct checkpoint_save *save);
int share_write_kept(struct share *share, const char *folder);

// ---- room for the files ----

// -1 with a message if `available` bytes are not enough for files of `bytes` and the small ones.
int space_check(const char *folder, uint64_t bytes, uint64_t available);
// -1 with a message if this process may not write a file of `bytes` (ulimit -f).
int space_check_limit(const char *folder, uint64_t bytes);

#endif
