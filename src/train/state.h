// Connects a step with its checkpoint: which tensor is stored under which name, and where the run stands. Model tensors
// have the name of their parameter; the optimizer's are STATE.NAME for every state of its rule (exp_avg, exp_avg_sq)
// and, if parameters have 16 bits, master.NAME; extra_tensors.h has the others.
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "formats/model_source.h"
#include "store/checkpoint.h"
#include "train/found_checkpoint.h"
#include "recovery/progress.h"
#include "step/step.h"

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
    const struct checkpoint_file_list *kept;
    const char *folder;                               // to save to; NULL for --save
    int64_t *unmarked;                                // there, see struct checkpoint_save
    int64_t best, replaced[2];                        // to save, see struct checkpoint_save
    int (*check)(void *context, const char *folder);  // before a checkpoint gets its name; NULL: not asked
    void *context;
};

// Before training: fails if a save would, for want of space or because a file that goes along cannot be read. All ranks
// call.
int state_check_save(const struct run_state *run);
// All ranks call, and each writes its share.
int state_save(const struct run_state *run);
// Saves in the background: returns once the state is copied. checkpoint_save_advance publishes it.
int state_save_start(const struct run_state *run, struct checkpoint_job **job);
// Loads the weights and, with `with_optimizer`, the moments; the weights are then taken from the checkpoint's fp32
// masters if it has some, whatever this run's dtype. Gains of norms become what the flags say, whichever way they are
// stored. Sets run->progress from the checkpoint unless it is NULL.
int state_load(const struct run_state *run, const char *path, bool with_optimizer);
// Opens the folder of another program.
int foreign_open(struct model_source *source, const struct config *config, const char *path, int64_t step);
// state_load for what was found. Of other programs only weights are loaded. Gains of norms become what the flags say,
// whichever way they are stored. If the flags describe a model with the same tensors that would compute something else
// with them, it says so.
int state_load_found(const struct run_state *run, const struct found_checkpoint *from, bool with_optimizer);
// For a resumed run: compares the model that the flags describe, how it is stored and the schedules with the
// checkpoint's, see config_match_schedule.
int state_match_schedule(struct config *config, const char *path);
// The configuration of the run that wrote the checkpoint; *object is NULL if it has none, and to be freed.
int state_read_config(struct json **object, const char *path);
// That of the checkpoint of --load which this run resumes; *object is NULL if it begins anew.
int state_read_resumed(struct json **object, const struct config *config);
// Takes the flags that define the model from the checkpoint, unless the user gave them. If the checkpoint
// contains the tokenizer's files, those are used.
int state_load_config(struct config *config, const struct found_checkpoint *from);

#endif
