// Checkpoints. SAVE is the folder of --save and --load:
//
//   SAVE/latest_checkpointed_iteration.txt   decimal iteration, newline (Megatron's name); always replaced last
//   SAVE/iter_0000010/model.safetensors      the weights, as whole (global) tensors under the caller's names
//   SAVE/iter_0000010/optimizer.safetensors  Adam's m and v, fp32 master weights if parameters have 16 bits, and the
//                                            ranges of fp8 tensors if matmuls are in fp8
//   SAVE/iter_0000010/state.json             struct checkpoint_state
//   SAVE/iter_0000010/config.json            the configuration of the run, if the caller gives one
//   SAVE/iter_0000010/vocab-file_…           the tokenizer's files, see struct checkpoint_file
//   SAVE/iter_0000010/manifest.json          every other file with its size and SHA-256; written last in the folder
//
// A save writes SAVE/iter_0000010.tmp.…/, syncs it, renames it and then replaces the marker. Whenever the process or
// the machine dies, SAVE holds the old checkpoint or the new one, each complete. The next save removes the leftovers of
// a killed one.
//
// Tensors on disk are global and named, never cut by rank: a checkpoint does not show how the ranks that wrote it were
// laid out. Large checkpoints are written by many ranks at once. Each writes its share of the tensors, whole, to files
// of its own: model-00001-of-00008.safetensors and so on. Ranks that hold slices of a tensor send them to the rank that
// writes it. When loading, every rank reads what it needs. Tensors may lie in any device's memory and must be
// contiguous. The code in this folder that saves and loads knows lists of named tensors and nothing about models.
#ifndef STORE_CHECKPOINT_H
#define STORE_CHECKPOINT_H

#include "comm/comm.h"
#include "ops/device.h"
#include "parallel/pieces.h"
#include "parallel/shard.h"
#include "tensor/moment8.h"
#include "tensor/tensor.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A tensor of a list, and this rank's share: all of it, a slice, or the pieces of either that a split optimizer has
// (see parallel/pieces.h).
struct checkpoint_tensor {
    const char *name;                 // borrowed
    struct tensor tensor;             // this rank's share; its pieces concatenated (n), possibly none
    struct tensor exponents;          // (n / MOMENT8_SHARE) uint8 if the tensor has codes of moment8.h; else none
    enum moment8_kind kind;           // the kind of its codes
    bool is_hosted;                   // in page-locked host memory, which GPU communication libraries may not accept
    const struct shard *shard;        // which slice this rank holds; NULL, or a shard of one part, for all of it
    const struct pieces *pieces;      // NULL for none; if given, `shard` is too, and one replica holds each element
    const struct param_group *group;  // with several ranks and a shard or pieces: who holds which of them
    int64_t offset;                   // with pieces: where the slice begins in the flat buffer
    float added;                      // when loading: added in fp32 to every element
};

// A run's history of NaNs and spikes, so that a resumed run makes the same choices. state.json omits what is empty.
enum { CHECKPOINT_MOST_SPANS = 256, CHECKPOINT_WINDOW = 128 };
struct checkpoint_past {
    // Skipped iterations, first to last of a span; spans ascend, with gaps between them.
    struct checkpoint_span {
        int64_t first, last;
    } skipped[CHECKPOINT_MOST_SPANS];
    int64_t skipped_count;
    // The latest iterations, oldest first.
    double losses[CHECKPOINT_WINDOW], norms[CHECKPOINT_WINDOW];
    int64_t window_count;
    int64_t streak;  // how many of the most recent ones were far above the rest
};

// Where a run stands, apart from its tensors. state.json stores all of it exactly: doubles read back the same.
struct checkpoint_state {
    int64_t iteration;
    int64_t consumed_train_samples;  // determines the position in the data
    int64_t consumed_valid_samples;
    int64_t skipped_train_samples;
    int64_t adam_step;              // successful updates: Adam's t
    int64_t schedule_samples;       // what the learning-rate and weight-decay schedules count
    int64_t seed;                   // of the counter-based generator, which has no other state
    double loss_scale;              // 1 if there is no scaler
    int64_t loss_scale_growth;      // good steps since the scale last changed
    int64_t loss_scale_hysteresis;  // overflows still tolerated
    double flops_so_far;            // floating-point operations of the run so far
    int64_t fp8_steps;              // steps that the ranges of fp8 tensors cover; 0 if there are none
    // Number of copies of the parameters that were compared just before the save and agreed; 1 if there was only one, 0
    // if they were not compared.
    int64_t replicas_verified;
    struct checkpoint_past past;
    char *config_json;      // one JSON object (config_to_json), or NULL
    char *program_version;  // set by loading; saving writes this program's own
};

void checkpoint_state_free(struct checkpoint_state *state);  // the strings; safe on a zeroed one

// A file stored beside the tensors, e.g. the tokenizer's, so that nothing but the folder is needed. It is stored as
// ROLE_NAME: vocab-file_vocab.json, merge-file_merges.txt, tokenizer-model_tokenizer.json (the roles are named after
// the flags), and huggingface_… for what only Hugging Face's tools read, see hf_surroundings.h.
struct checkpoint_file {
    char *role;
    char *path;                 // where it is copied from, or where it was found
    const struct buffer *held;  // its bytes, borrowed from the code that listed it; NULL: they are read from path
};
struct checkpoint_file_list {
    struct checkpoint_file *items;
    size_t count;
};
void checkpoint_file_list_add(struct checkpoint_file_list *list, const char *role, const char *path);  // copies both
void checkpoint_file_list_free(struct checkpoint_file_list *list);
// The files of an iter_… folder.
int checkpoint_file_list_read(struct checkpoint_file_list *list, const char *path);
// The role of the training data's identity, see train/identity.h. Not needed to use a checkpoint as a model.
#define CHECKPOINT_ROLE_DATA "data"
void checkpoint_file_list_drop(struct checkpoint_file_list *list, const char *role);
// The path of the file of that role; NULL if there is none.
const char *checkpoint_file_find(const struct checkpoint_file_list *list, const char *role);

enum checkpoint_part { CHECKPOINT_MODEL, CHECKPOINT_OPTIMIZER };

// ---- saving ----

// The ranks of a run that save together.
struct checkpoint_ranks {
    const struct mesh *mesh;  // the ranks of a stage have the same lists of tensors
    int64_t writers;          // how many ranks of a stage write; 0 for one per 64 MiB
};

struct safetensors_writer;
struct checkpoint_save {
    const char *folder;     // SAVE; created if missing
    struct device *device;  // NULL if the tensors are in host memory, or if there is `produce`
    const struct checkpoint_tensor *model;
    size_t model_count;
    const struct checkpoint_tensor *optimizer;  // none (--no-save-optim): there is no optimizer.safetensors
    size_t optimizer_count;
    const struct checkpoint_ranks *ranks;  // NULL for this process alone
    int64_t shares;                        // how many files of each list this process then writes; 0 is one
    const struct checkpoint_state *state;
    struct checkpoint_file_list files;  // copied; borrowed
    // Writes the elements of tensor i of a list whose tensors are not in memory (data is NULL). NULL otherwise.
    int (*produce)(void *context, enum checkpoint_part part, size_t i, struct safetensors_writer *writer);
    // Inspects the complete folder before it gets its name; NULL for no inspection. A save that fails here leaves
    // nothing.
    int (*check)(void *context, const char *folder);
    void *context;  // of both
    // After a successful save, older checkpoints in SAVE are removed until keep_last are left, including the new one,
    // except those whose iteration is a multiple of retain_interval. keep_last 0 keeps all. Folders that are not
    // checkpoints of this program, and iterations above the new one, are never touched.
    int64_t keep_last;
    int64_t retain_interval;
    int64_t best;  // an iteration that is not removed and not counted; 0 for none
    // Iterations of this run that are removed regardless of keep_last, since this checkpoint replaces them; 0 for none.
    int64_t replaced[2];
    // The iteration of a checkpoint that an earlier save of this run completed but could not make the latest, 0 for
    // none. Once this save is complete it removes that checkpoint, so that attempts do not fill the disk, and sets this
    // if the same happens again. May be NULL; only the first rank's is used, and must live until the save ends.
    int64_t *unmarked;
};

// Saves state->iteration. All ranks call, those of a stage with the same lists. If it fails, it returns -1 on all of
// them; the previous checkpoint and its marker are then unchanged, and nothing half-written is left.
int checkpoint_save(const struct checkpoint_save *save);

// Fails if checkpoint_save would: for lack of space, because files to be copied cannot be read, or because a rank
// cannot write to the folder. Leaves no files. All ranks call.
int checkpoint_save_rehearse(const struct checkpoint_save *save);

// checkpoint_save in parts, so that training can continue while files are written. All ranks call each part, and only
// one job may be under way.
//   1. checkpoint_save_start returns when this rank's share is copied to host memory; a thread then writes it. `save`
//      and what it points to are not needed any more. If a machine has no memory for the copies, this part warns, and
//      returns when the files are written.
//   2. The first checkpoint_save_advance waits until all shares are written; a thread of the first rank then publishes
//      the checkpoint and removes old ones.
//   3. The second one waits for that and ends the job.
struct checkpoint_job;
int checkpoint_save_start(struct checkpoint_job **job, const struct checkpoint_save *save);
// Whether this rank's thread is done. If it is on all ranks, the next part does not wait.
bool checkpoint_save_is_ready(struct checkpoint_job *job);
// The next part. Sets *job to NULL if it was the last one, or if it failed.
int checkpoint_save_advance(struct checkpoint_job **job);
int checkpoint_save_finish(struct checkpoint_job *job);  // all remaining parts, waiting for each; frees the job
// Called by a single rank instead of the remaining parts: a checkpoint that is not being published yet never will be,
// and the next save removes its leftovers.
void checkpoint_save_abandon(struct checkpoint_job *job);

// ---- finding and verifying ----

struct checkpoint_find {
    const char *folder;
    const char *flag;     // that named the folder, for messages; NULL for --load
    int64_t step;         // -1: the one the marker names or, without a (readable) marker, the newest valid one
    bool skip_checksums;  // check sizes only
    bool allow_fallback;  // if the latest is damaged, take the newest valid one before it, with a warning on stderr
    // Receives a descriptor that, until closed, keeps the checkpoint's run from removing it, or -1. NULL: not wanted.
    int *hold;
    // NULL for this process alone. Otherwise all ranks of the group call and get the same result: the first chooses,
    // and all share the work of verifying files.
    struct group *all;
};

// Finds a checkpoint and verifies it against its manifest. The caller frees *path (an iter_… folder). If there is no
// checkpoint, or only damaged ones, returns -1 with EXIT_CODE_NO_CHECKPOINT and a message that names the file and a
// remedy. CHECKPOINT_UNREAD, below 0, if a file could not be read: that is no proof of damage, and no other is taken.
enum { CHECKPOINT_UNREAD = -2 };
int checkpoint_find(const struct checkpoint_find *find, char **path, int64_t *iteration);
// The newest iteration up to `most` whose replicas were verified and which `accepts` (NULL: any) takes; -1 if there is
// none, CHECKPOINT_UNREAD with a message if that cannot be determined. Its files are not checked.
struct checkpoint_wish {
    const char *folder;
    int64_t most;
    bool (*accepts)(const void *context, const struct checkpoint_state *state);
    const void *context;
};
int64_t checkpoint_newest_verified(const struct checkpoint_wish *wish);
// Decides between starting from random weights and calling checkpoint_find: whether SAVE contains anything that claims
// to be a checkpoint (a marker or an iter_… folder), or is something that checkpoint_find must refuse (a file, or an
// iter_… folder itself).
bool checkpoint_exists(const char *folder);
// SAVE/iter_0000010, to be freed.
char *checkpoint_path(const char *folder, int64_t iteration);
// Verifies one iter_… folder: manifest, sizes and, unless skipped, SHA-256. CHECKPOINT_UNREAD as above.
int checkpoint_verify(const char *path, bool skip_checksums);

// ---- loading, from the iter_… folder that checkpoint_find returned ----

int checkpoint_load_state(const char *path, struct checkpoint_state *state);

struct checkpoint_load {
    const char *path;  // an iter_… folder
    enum checkpoint_part part;
    struct device *device;
    const struct checkpoint_tensor *tensors;  // to be filled; names and (whole) shapes must be those of the checkpoint
    size_t count;
    bool is_partial;  // tensors of the checkpoint that were not requested are not an error
};

// Shapes must agree. Values are converted between fp32, bf16 and fp16 (to nearest, ties to even). A checkpoint of
// another model is an error that names the first differing tensor and both shapes; nothing is loaded then. The copies
// are complete when it returns.
int checkpoint_load_tensors(const struct checkpoint_load *load);
// Whether the checkpoint has this part, and whether the part has this tensor. False also if it cannot be read.
bool checkpoint_has_part(const char *path, enum checkpoint_part part);
bool checkpoint_has_tensor(const char *path, enum checkpoint_part part, const char *name);
// 1 if checkpoint_load_tensors would find all requested tensors in these shapes, 0 if not, -1 if it cannot be read.
int checkpoint_fits(const struct checkpoint_load *load);

#endif
