// Connects a step with its checkpoint: which tensor is stored under which name, and where the run stands. Model tensors
// have the name of their parameter; the optimizer's are STATE.NAME for every state of its rule (exp_avg, exp_avg_sq)
// and, if parameters have 16 bits, master.NAME.
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "formats/model_source.h"
#include "parallel/param.h"
#include "recovery/memory_checkpoint.h"
#include "recovery/progress.h"
#include "step/step.h"
#include "store/checkpoint.h"
#include "train/found_checkpoint.h"
#include "train/identity.h"

// ---- tensors that are neither parameters nor states of an optimizer ----

// The biases that balance experts, to a checkpoint and back. They are part of the model: model.safetensors has
// decoder.layers.N.mlp.router.expert_bias, (E) fp32, for each layer with experts. Every rank has those of all layers.

// Frees a list that owns its names.
void tensors_free(struct checkpoint_tensor *list, size_t count);

// Number of bias tensors; 0 without --moe-router-enable-expert-bias.
size_t expert_bias_count(const struct step *step, const struct config *config);
// Fills a list of that many tensors. The names are to be freed.
void expert_bias_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list);
// A new run may begin with a checkpoint without biases (--finetune): they are 0 then.
int expert_bias_load(const struct step *step, const struct config *config, const char *path);

// Each expert's load in the last step, which global_aux_loss needs: expert_load.decoder.layers.N.mlp.router, (E) fp32,
// beside the states of the optimizer. The first stage saves all of them.
size_t expert_load_count(const struct step *step, const struct config *config);
void expert_load_list(const struct step *step, const struct config *config, struct checkpoint_tensor *list);
// A checkpoint without loads is of a run without that loss: they begin with 0.
int expert_load_read(const struct step *step, const struct config *config, const char *path);

// ---- ranges of fp8 tensors ----

// The ranges of fp8 tensors in a checkpoint, so that a run with --fp8-format resumes bit for bit. Each layer whose
// matmuls are in fp8 has fp8_ranges.NAME, (FP8_ROLES, RANGE_LENGTH), and fp8_history.NAME, (FP8_ROLES,
// --fp8-amax-history-len), where NAME is its weight's. They lie beside the optimizer's tensors. All ranks that hold a
// layer have the same ranges between steps, so each of them has the whole tensors, and any layout finds those of its
// layers.

// Fills a list of step_range_count tensors. The names are to be freed.
void ranges_list(const struct step *step, struct checkpoint_tensor *list);
// Loads them, given how many steps those of the checkpoint have seen. If it lacks those of a layer, or has histories of
// another length, none are loaded: the first step measures, as that of every run does, and a note says so. All ranks
// call, and do the same, whichever stage of a pipeline holds the layer.
int ranges_load(struct step *step, const struct config *config, const char *path, int64_t steps, bool *are_loaded);

// ---- gains of norms ----

// Gains of norms are stored as such or, by --apply-layernorm-1p, as their distance from 1. That is how a model is kept
// and not which one it is: weights that a run begins with may be stored either way.

// Makes the loading of the list, which has a tensor for each parameter in their order, convert the gains to the form
// that the parameters have. `is_centered`: the folder holds distances.
void gains_convert(struct checkpoint_tensor *list, const struct param_list *params, bool is_centered);

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

// ---- initial state: a checkpoint to resume from, weights of another run or program, or random ones ----

struct beginning_options {
    struct step *step;
    struct config *config;
    const struct identity *identity;  // of the first rank
    struct memory_checkpoint *memory;
};
// Sets the step's weights: those of a checkpoint in host memory, of --load or of --pretrained-checkpoint, or random
// ones; with --bert-load both towers of a new ICT run begin with the encoder of a BERT, which lacks their projections:
// these are random, the same for both. A resumed run gets its moments and its place (*at), too, and takes from the
// checkpoint what config_match_schedule says; its data must be the checkpoint's.
int beginning_set_weights(const struct beginning_options *options, struct progress_state *at);
// For a run that goes back (see recovery/rewind.h): loads the checkpoint at `path`, or with NULL the weights that the
// run began with. options->memory is not used.
int beginning_load_earlier(const struct beginning_options *options, struct progress_state *at, const char *path);

// --bert-load: sets all weights of both towers. All ranks call.
int bert_load(struct step *step, const struct config *config);

// ---- of a dense model, for a mixture of experts: upcycle.c ----
//
// A dense checkpoint as the beginning of a mixture of experts (--moe-use-upcycling): every expert is a copy of the
// dense MLP, and routers are drawn. A router whose weights add up to 1 then gives what the dense model gave. With a
// softmax before the choice they add up to less: weights of experts are scaled as in Megatron (arXiv:2410.07524), which
// keeps the mean size of results.

// Sets all weights. All ranks call.
int upcycle_load(const struct run_state *run, const char *path);

#endif
