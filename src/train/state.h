// Connects a step with its checkpoint: which tensor is stored under which name, and where the run stands. Model tensors
// have the name of their parameter; the optimizer's are STATE.NAME for every state of its rule (exp_avg, exp_avg_sq)
// and, if parameters have 16 bits, master.NAME; fp8_ranges.h has those of fp8 matmuls.
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "store/checkpoint.h"
#include "recovery/progress.h"
#include "step/step.h"
#include "train/kept_files.h"
#include "train/save_folder.h"

// Whether a run that stands there has done all its iterations.
bool state_is_done(const struct config *config, const struct progress_state *at);
// Before the first iteration: says if nothing is left to train, or if the learning rate is 0 in the rest of the run.
void state_describe_rest(const struct config *config, const struct progress_state *at);

// A run, for what follows. progress is only read to save, and may be NULL to load; kept counts on the first rank that
// saves, and may be NULL.
struct run_state {
    struct step *step;
    const struct config *config;
    struct progress_state *progress;
    const struct kept_files *kept;
    const char *folder;         // to save to; NULL for --save
    int64_t *unmarked;          // there, see struct checkpoint_save
    int64_t best, replaced[2];  // to save, see struct checkpoint_save
    struct save_folder *place;  // its lock must still be held before a checkpoint gets its name; NULL: not asked
};

// Before training: fails if a save would, for want of space or because a file that goes along cannot be read. All ranks
// call.
int state_check_save(const struct run_state *run);
// All ranks call, and each writes its share.
int state_save(const struct run_state *run);
// Saves in the background: returns once the state is copied. checkpoint_save_advance publishes it.
int state_save_start(const struct run_state *run, struct checkpoint_job **job);
// The iteration of the latest checkpoint that a run resumes from, by the names of folders; -1 if there is none of ours.
int64_t state_latest(const struct config *config);
// Whether --load has something to begin with or to continue from; else --pretrained-checkpoint is used. -1 with a
// message if that cannot be told.
int state_is_begun(const struct config *config, bool *is_begun);
// Finds the checkpoint of --load, or that of --pretrained-checkpoint if --load has none, for this process alone: an
// iter_… folder of this program, or the folder itself if it was written by another one, with the iteration that
// model_source_iteration says.
// state_load and state_load_config take either.
int state_find_here(const struct config *config, bool skip_checksums, char **path, int64_t *iteration);
// state_find_here for a checkpoint of a running run, which may remove it: *hold, a descriptor or -1, protects it until
// closed.
int state_find_held(const struct config *config, char **path, int64_t *iteration, int *hold);
// Verifies the checkpoint of this iteration, which state_find_held found. All ranks call, and each checks a share of
// the files. *path becomes that of rank 0, which may have found a newer one than others.
int state_verify(const struct config *config, const struct mesh *mesh, int64_t iteration, char **path);
// Whether the checkpoint holds weights only and no state to continue from, as a converted one or one of Hugging Face or
// Megatron-LM does. Loading it begins a new run, as --finetune does.
bool state_is_release(const char *path);
// Finds and verifies the checkpoint of --load. All ranks call, and each checks a share of the files. *path is NULL if
// there is none and that is allowed.
int state_find(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration);
// Finds and verifies the checkpoint of --pretrained-checkpoint, which must exist.
int state_find_pretrained(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration);
// Loads the weights and, with `with_optimizer`, the moments; the weights are then taken from the checkpoint's fp32
// masters if it has some, whatever this run's dtype. Gains of norms become what the flags say, whichever way they are
// stored. Sets run->progress from the checkpoint unless it is NULL.
int state_load(const struct run_state *run, const char *path, bool with_optimizer);
// For a resumed run: compares the model that the flags describe, how it is stored and the schedules with the
// checkpoint's, see config_match_schedule.
int state_match_schedule(struct config *config, const char *path);
// The configuration of the run that wrote the checkpoint; *object is NULL if it has none, and to be freed.
int state_read_config(struct json **object, const char *path);
// Takes the flags that define the model from the checkpoint of --load, unless the user gave them. If the checkpoint
// contains the tokenizer's files, those are used.
int state_load_config(struct config *config, const char *path);

#endif
