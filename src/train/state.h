// Between a step and its checkpoint: which tensor is stored under which name, and where the run stands.
// Model tensors have their parameter's name; the optimizer's are exp_avg.NAME, exp_avg_sq.NAME and, where parameters
// have 16 bits, master.NAME.
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "checkpoint/checkpoint.h"
#include "step/step.h"

// Where a run stands; all of it is saved.
struct progress_state {
    int64_t iteration;
    int64_t consumed_train_samples, consumed_valid_samples;
    int64_t schedule_samples;  // samples of successful updates: what the schedules count
    double flops_so_far;
};

// Before training: an error where nothing can be written into the folder of --save.
int state_prepare_save(const struct config *config, const struct mesh *mesh);
// All ranks call, and write their share.
int state_save(struct step *step, const struct progress_state *progress);
// The same in the background: returns when the state is copied. checkpoint_save_go_on publishes it.
int state_save_start(struct step *step, const struct progress_state *progress, struct checkpoint_job **job);
// The checkpoint of --load for this process alone: an iter_… folder of ours, or the folder itself where it is one of
// Hugging Face or Megatron-LM (iteration 0). Both are what state_load and state_load_config take.
int state_find_here(const struct config *config, bool skip_checksums, char **path, int64_t *iteration);
// Proves the checkpoint that state_find_here has found, where the caller has skipped that: all ranks call, each looks
// at a share of the files.
int state_prove(const struct config *config, const struct mesh *mesh);
// Whether the checkpoint holds weights and nothing to go on from: a converted one, one of Hugging Face or Megatron-LM.
// Loading it begins a run, as --finetune does.
bool state_is_release(const char *path);
// Finds the checkpoint of --load, and proves it: all ranks call, each looks at a share of the files. *path is NULL
// where there is none and that is allowed.
int state_find(const struct config *config, const struct mesh *mesh, char **path, int64_t *iteration);
// Weights, and with `with_optimizer` the moments; progress is set from the checkpoint unless it is NULL.
int state_load(struct step *step, const char *path, bool with_optimizer, struct progress_state *progress);
// Compares the schedules of the flags with the checkpoint's, see config_match_schedule.
int state_match_schedule(struct config *config, const char *path);
// Takes the flags that define the model, where the user did not give them, from the checkpoint of --load. The
// tokenizer's files are those that the checkpoint holds itself, where it does.
int state_load_config(struct config *config, const char *path);

#endif
