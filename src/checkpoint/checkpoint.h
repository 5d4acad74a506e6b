// Checkpoints. SAVE is the folder of --save and --load:
//
//   SAVE/latest_checkpointed_iteration.txt   decimal iteration, no newline (Megatron's name); always replaced last
//   SAVE/iter_0000010/model.safetensors      the weights, whole (global) tensors under the caller's names
//   SAVE/iter_0000010/optimizer.safetensors  Adam's m and v, fp32 master weights where parameters have 16 bits
//   SAVE/iter_0000010/state.json             struct checkpoint_state
//   SAVE/iter_0000010/config.json            the configuration of the run, where the caller gives one
//   SAVE/iter_0000010/vocab-file_…           the tokenizer's files, see struct checkpoint_file
//   SAVE/iter_0000010/manifest.json          every other file with its size and SHA-256; written last in the folder
//
// A save writes SAVE/iter_0000010.tmp.…/, syncs it, renames it and then replaces the marker. So whenever the
// process or the machine dies, SAVE holds the old checkpoint or the new one, each whole; what a killed save left is
// removed by the next one.
//
// Tensors on disk are global and named, never cut by rank: how ranks were laid out when a checkpoint was written
// does not show in it. Large checkpoints are written by many ranks at once, each its share of the tensors, whole, into
// files of its own: model-00001-of-00008.safetensors and so on. Ranks that hold slices of a tensor send them to the one
// that writes it. Every rank reads what it needs. Tensors may lie in any device's memory and must be contiguous. The
// code here knows lists of named tensors and nothing of models.
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include "comm/comm.h"
#include "ops/device.h"
#include "parallel/pieces.h"
#include "parallel/shard.h"
#include "tensor/tensor.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A tensor of a list, and what this rank holds of it: all, a slice, or of either the pieces that a divided optimizer
// has (see parallel/pieces.h).
struct checkpoint_tensor {
    const char *name;             // borrowed
    struct tensor tensor;         // what this rank holds; of pieces one after the other (n), maybe none
    const struct shard *shard;    // where that is a slice; NULL, or of one part: it is all
    const struct pieces *pieces;  // NULL: none. Then `shard` is there, and every element is held by one replica
    int64_t offset;               // of pieces: where the slice begins in the flat buffer
};

// Where a run stands besides its tensors. Everything is in state.json, exactly: doubles read back the same.
struct checkpoint_state {
    int64_t iteration;
    int64_t consumed_train_samples;  // the data position follows from it
    int64_t consumed_valid_samples;
    int64_t skipped_train_samples;
    int64_t adam_step;              // successful updates: Adam's t
    int64_t schedule_samples;       // n of the learning-rate and weight-decay schedules
    int64_t seed;                   // of the counter-based generator, which has no other state
    double loss_scale;              // 1 where there is no scaler
    int64_t loss_scale_growth;      // good steps since the scale last changed
    int64_t loss_scale_hysteresis;  // overflows still tolerated
    double flops_so_far;            // floating-point operations of the run up to here
    char *config_json;              // one JSON object (config_to_json), NULL for none
    char *program_version;          // set by loading; saving writes this program's own
};

void checkpoint_state_free(struct checkpoint_state *state);  // the strings; safe on a zeroed one

// A file that is kept in the checkpoint beside the tensors, so that the folder is all that is needed: the tokenizer's.
// It stands there as ROLE_NAME: vocab-file_vocab.json, merge-file_merges.txt, tokenizer-model_tokenizer.json (the roles
// are the flags'), huggingface_… for what only Hugging Face's tools read.
struct checkpoint_file {
    char *role;
    char *path;  // where it is copied from, or where it was found
};
struct checkpoint_file_list {
    struct checkpoint_file *items;
    size_t count;
};
void checkpoint_file_list_add(struct checkpoint_file_list *list, const char *role, const char *path);  // copies both
void checkpoint_file_list_free(struct checkpoint_file_list *list);
// The files of an iter_… folder.
int checkpoint_file_list_read(struct checkpoint_file_list *list, const char *path);
// The path of the file of that role, NULL where there is none.
const char *checkpoint_file_find(const struct checkpoint_file_list *list, const char *role);

// ---- saving ----

// The ranks of a run that save together.
struct checkpoint_ranks {
    struct group *all;
    struct group *stage;  // those that have the same lists of tensors; ranks that share layers are neighbours in it
    int parts;            // how many share layers; the stage holds everything stage size / parts times
    int64_t writers;      // how many of a stage write; 0: one for every 64 MiB
};

struct safetensors_writer;
struct checkpoint_save {
    const char *folder;     // SAVE; created where missing
    struct device *device;  // NULL: the tensors are in host memory, or there is `produce`
    const struct checkpoint_tensor *model;
    size_t model_count;
    const struct checkpoint_tensor *optimizer;  // none (--no-save-optim): the checkpoint has no optimizer.safetensors
    size_t optimizer_count;
    const struct checkpoint_ranks *ranks;  // NULL: this process alone
    int64_t shares;                        // how many files of each list it then writes; 0 is one
    const struct checkpoint_state *state;
    struct checkpoint_file_list files;  // copied; borrowed
    // Where the model's tensors are not in memory (data NULL): writes the elements of tensor i. NULL otherwise.
    int (*produce)(void *context, size_t i, struct safetensors_writer *writer);
    void *context;
    // After a successful save, older checkpoints of SAVE are removed until keep_last are left (the new one counts),
    // except those whose iteration is a multiple of retain_interval. 0 in keep_last keeps all. Folders that are not
    // checkpoints of this program, and iterations above the new one, are never touched.
    int64_t keep_last;
    int64_t retain_interval;
};

// Saves state->iteration. All ranks call, those of a stage with the same lists. On -1, which all get, the previous
// checkpoint and its marker stand as before and nothing half-written is left.
int checkpoint_save(const struct checkpoint_save *save);

// The same in parts, so that training can go on while files are written. The first returns when this rank's share is
// copied to host memory, and a thread writes it; the second hears that all shares are written, and a thread of the
// first rank publishes the checkpoint and removes old ones; the third hears of that and ends the job. All ranks call
// each, and only one job may be under way. `save` and what it points to may go after the first part. Where a machine
// has no memory for the copies, the first part warns, and returns when the files are written.
struct checkpoint_job;
int checkpoint_save_start(struct checkpoint_job **job, const struct checkpoint_save *save);
// Whether this rank's thread is done. Where it is on all ranks the next part has nothing to wait for.
bool checkpoint_save_is_ready(struct checkpoint_job *job);
// The next part; *job is NULL where it was the last one, or failed.
int checkpoint_save_go_on(struct checkpoint_job **job);
int checkpoint_save_end(struct checkpoint_job *job);  // all parts that are left, waiting for each; frees the job
// Instead of the parts that are left, by one rank for itself: a checkpoint that is not being published yet will not be,
// and the next save removes what it left.
void checkpoint_save_drop(struct checkpoint_job *job);

// The checkpoint of an iter_… folder once more in another SAVE folder, in so many files of each list (0: one for every
// 64 MiB, up to 10000). Nothing else changes: tensors are whole in all of them.
int checkpoint_rewrite(const char *path, const char *folder, int64_t files);

// ---- finding and verifying ----

struct checkpoint_find {
    const char *folder;
    const char *flag;     // that named the folder, for messages; NULL: --load
    int64_t step;         // -1: the one the marker names; without a (readable) marker the newest that is valid
    bool skip_checksums;  // sizes only
    bool allow_fallback;  // the latest is damaged: take the newest older one that is valid, with a warning on stderr
    // NULL: this process alone. Else all of the group call and get the same: the first chooses, and all divide the
    // files to be proved among themselves.
    struct group *all;
};

// Finds a checkpoint and proves it against its manifest. *path (iter_… folder) is the caller's to free. Where there
// is no checkpoint, or only damaged ones, -1 with EXIT_CODE_NO_CHECKPOINT and a message naming file and remedy.
int checkpoint_find(const struct checkpoint_find *find, char **path, int64_t *iteration);
// Whether SAVE holds anything that says it is a checkpoint (a marker or an iter_… folder), or is something that
// checkpoint_find must refuse (a file, an iter_… folder itself): what decides between starting from random and
// checkpoint_find.
bool checkpoint_exists(const char *folder);
// SAVE/iter_0000010, to be freed.
char *checkpoint_path(const char *folder, int64_t iteration);
// Proves one iter_… folder: manifest, sizes, and SHA-256 unless skipped.
int checkpoint_verify(const char *path, bool skip_checksums);

// ---- loading, from the iter_… folder that checkpoint_find returned ----

int checkpoint_load_state(const char *path, struct checkpoint_state *state);

enum checkpoint_part { CHECKPOINT_MODEL, CHECKPOINT_OPTIMIZER };

struct checkpoint_load {
    const char *path;  // an iter_… folder
    enum checkpoint_part part;
    struct device *device;
    const struct checkpoint_tensor *tensors;  // filled; names and (whole) shapes must be those of the checkpoint
    size_t count;
    bool is_partial;  // tensors of the checkpoint that are not asked for are no error
};

// Shapes must agree; between fp32, bf16 and fp16 values are converted (to nearest, ties to even). A checkpoint of
// another model is an error that names the first differing tensor and both shapes; nothing has been loaded then. The
// copies are done when it returns.
int checkpoint_load_tensors(const struct checkpoint_load *load);
// Whether the checkpoint has this part; whether the part has this tensor. False also where it cannot be read.
bool checkpoint_has_part(const char *path, enum checkpoint_part part);
bool checkpoint_has_tensor(const char *path, enum checkpoint_part part, const char *name);

#endif
