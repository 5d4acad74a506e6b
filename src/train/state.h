// Connects a step with its checkpoint: which tensor is stored under which name, and where the run stands. Model tensors
// have the name of their parameter; the optimizer's are exp_avg.NAME, exp_avg_sq.NAME and, if parameters have 16 bits,
// master.NAME; ranges.h has those of products in 8 bits.
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "checkpoint/checkpoint.h"
#include "step/step.h"

// Where a run stands. All of it is saved.
struct progress_state {
    int64_t iteration;
    int64_t consumed_train_samples, consumed_valid_samples;
    int64_t schedule_samples;  // samples of successful updates, which the schedules count
    double flops_so_far;
};

// Before training: fails if a save would, for want of space or because a file that goes along cannot be read. All ranks
// call.
int state_check_save(struct step *step, const struct progress_state *progress);
// All ranks call, and each writes its share.
int state_save(struct step *step, const struct progress_state *progress);
// The same in the background: returns once the state is copied. checkpoint_save_advance publishes it.
int state_save_start(struct step *step, const struct progress_state *progress, struct checkpoint_job **job);
// Whether --load has something to begin with or to continue from; else --pretrained-checkpoint is used.
bool state_is_begun(const struct config *config);
// Finds the checkpoint of --load, or that of --pretrained-checkpoint if --load has none, for this process alone: an
// iter_… folder of this program, or the folder itself if it was written by another one, with the iteration that
// model_source_iteration says.
// state_load and state_load_config take either.
int state_find_here(const struct config *config, bool skip_checksums, char **path, int64_t *iteration);
// Verifies the checkpoint that state_find_here found with skip_checksums. All ranks call, and each checks a share of
// the files.
int state_verify(const struct config *config, const struct mesh *mesh);
// Whether the checkpoint holds weights only and no state to continue from, as a converted one or one of Hugging Face or
// Megatron-LM does. Loading it begins a new run, as --finetune does.
bool state_is_release(const char *path);
// Finds and verifies the checkpoint of --load. All ranks call, and each checks a share of the files. *path is NULL if
// there is none and that is allowed.
int state_find(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration);
// The same for --pretrained-checkpoint, where one must be.
int state_find_pretrained(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration);
// Loads the weights and, with `with_optimizer`, the moments; the weights are then taken from the checkpoint's fp32
// masters if it has some, whatever this run's dtype. Gains of norms become what the flags say, whichever way they are
// stored. Sets *progress from the checkpoint unless it is NULL.
int state_load(struct step *step, const char *path, bool with_optimizer, struct progress_state *progress);
// For a run that goes on: compares the model that the flags describe, how it is stored and the schedules with the
// checkpoint's, see config_match_schedule.
int state_match_schedule(struct config *config, const char *path);
// Takes the flags that define the model from the checkpoint of --load, unless the user gave them. If the checkpoint
// contains the tokenizer's files, those are used.
int state_load_config(struct config *config, const char *path);

#endif
