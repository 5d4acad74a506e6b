// A rank's share of a checkpoint. Tensors are written whole, each by one rank of those that hold it; they are dealt out
// by size, so that all writers have about as much to do, and they go in turns: in each turn every writer is given one
// tensor by those that hold slices of it, and then all write at once. So the largest tensor is all the host memory that
// saving takes, unless it is to go on in the background. Internal to this folder.
#ifndef CHECKPOINT_SHARE_H
#define CHECKPOINT_SHARE_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

enum { SHARE_FILES = 2 };                           // the model's and the optimizer's
extern const char *const share_holds[SHARE_FILES];  // "model", "optimizer"

// A tensor of either list.
struct share_item {
    const struct checkpoint_tensor *tensor;
    size_t number;  // in its list
    int file;       // of which it is
    int writer;     // rank of the stage
    int64_t turn;   // of its writer
    size_t bytes;
};

// What this rank writes of one list.
struct share_file {
    struct safetensors_tensor *entries;  // names are owned
    size_t count;
    unsigned char **kept;  // host copies of the entries' elements, or NULL where they are not kept
    struct safetensors_text metadata[3];
    char iteration[24];
    uint64_t bytes;  // of the file; 0 where this rank has none
    char *name;      // owned
    char sha256[65];
};

struct share {
    struct share_item *items;  // of all writers, by turn and then by writer
    size_t count;
    struct share_file files[SHARE_FILES];
    int self, size;  // which share this is, of how many
};

// Who writes what: a stage's size shares, of which at most `writers` have something; this is number `self`. -1 where
// the tensors make no file.
struct share_options {
    int self, size;
    int64_t writers;  // 0: one for every 64 MiB
};
int share_plan(struct share *share, const struct checkpoint_save *save, const struct share_options *options);
void share_free(struct share *share);
// The name of a rank's file, to be freed, given how many bytes every rank has for each: sizes[SHARE_FILES * rank +
// file].
char *share_file_name(int file, const int64_t *sizes, int rank, int ranks);

// Takes part in all turns and writes this rank's files into the folder. On -1 nothing of them is left; the turns are
// gone through all the same, so that no other rank waits for this one.
int share_write(struct share *share, const struct checkpoint_save *save, const char *folder);
// The same in two halves: copies everything to host memory, and writes it.
int share_keep(struct share *share, const struct checkpoint_save *save);
int share_write_kept(struct share *share, const char *folder);

#endif
