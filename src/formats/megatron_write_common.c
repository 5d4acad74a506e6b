// common.pt of a distributed checkpoint for Megatron-LM. Its arguments define the model and the settings of a resumed
// run; the optimizer's dict has the parameter groups of a distributed optimizer and, under the names of one that is not
// distributed, the step.
#include "base/error.h"
#include "base/memory.h"
#include "formats/megatron_folder.h"
#include "formats/model_source.h"
#include "formats/torch_write.h"
#include <string.h>

static void put_bool(struct buffer *out, const char *name, bool value) {
    pickle_text(out, name);
    pickle_bool(out, value);
}

static void put_int(struct buffer *out, const char *name, int64_t value) {
    pickle_text(out, name);
    pickle_int(out, value);
}

static void put_double(struct buffer *out, const char *name, double value) {
    pickle_text(out, name);
    pickle_double(out, value);
}

static void put_text(struct buffer *out, const char *name, const char *value) {
    pickle_text(out, name);
    pickle_text(out, value);
}

static void put_arguments(struct buffer *out, const struct model_source *source) {
    const struct config *config = &source->config;
    const struct checkpoint_state *state = &source->state;
    pickle_begin_object(out, "argparse", "Namespace");
    megatron_put_arguments(out, config);
    put_int(out, "iteration", state->iteration);
    put_int(out, "consumed_train_samples", state->consumed_train_samples);
    put_int(out, "consumed_valid_samples", state->consumed_valid_samples);
    put_int(out, "skipped_train_samples", state->skipped_train_samples);
    put_int(out, "seed", state->seed);
    put_text(out, "optimizer", "adam");
    put_bool(out, "use_distributed_optimizer", true);
    put_double(out, "adam_beta1", config->run.adam_beta1);
    put_double(out, "adam_beta2", config->run.adam_beta2);
    put_double(out, "adam_eps", config->run.adam_eps);
    put_double(out, "clip_grad", config->run.clip_grad);
    pickle_end_object(out);
}

static void put_schedule(struct buffer *out, const struct model_source *source) {
    const struct config *config = &source->config;
    pickle_text(out, "opt_param_scheduler");
    pickle_begin_dict(out);
    put_double(out, "max_lr", config->run.lr);
    put_double(out, "min_lr", config->run.min_lr);
    pickle_text(out, "lr_warmup_steps");
    if (config->run.lr_warmup_steps == (double)(int64_t)config->run.lr_warmup_steps)
        pickle_int(out, (int64_t)config->run.lr_warmup_steps);
    else
        pickle_double(out, config->run.lr_warmup_steps);
    put_int(out, "num_steps", source->state.schedule_samples);
    put_text(out, "lr_decay_style", config->run.lr_decay_style);
    put_int(out, "lr_decay_steps", config->run.lr_decay_steps);
    put_double(out, "start_wd", config->run.start_weight_decay);
    put_double(out, "end_wd", config->run.end_weight_decay);
    put_text(out, "wd_incr_style", config->run.weight_decay_incr_style);
    put_int(out, "wd_incr_steps", config->run.wd_incr_steps);
    pickle_end_dict(out);
}

// Matrices decay and vectors do not.
static void put_groups(struct buffer *out, const struct model_source *source) {
    const struct config *config = &source->config;
    pickle_text(out, "param_groups");
    pickle_begin_list(out);
    for (int decays = 1; decays >= 0; decays--) {
        pickle_begin_dict(out);
        put_double(out, "wd_mult", decays);
        put_double(out, "lr_mult", 1);
        put_bool(out, "is_expert_parallel", false);
        put_bool(out, "is_decoupled_lr", false);
        put_bool(out, "default_config", true);
        put_double(out, "max_lr", config->run.lr);
        put_double(out, "min_lr", config->run.min_lr);
        put_double(out, "lr", config->run.lr);
        put_double(out, "weight_decay", decays * config->run.weight_decay);
        pickle_text(out, "betas");
        pickle_begin_tuple(out);
        pickle_double(out, config->run.adam_beta1);
        pickle_double(out, config->run.adam_beta2);
        pickle_end_tuple(out);
        put_double(out, "eps", config->run.adam_eps);
        put_bool(out, "bias_correction", true);         // read by fused optimizers
        put_bool(out, "decoupled_weight_decay", true);  // read by torch's own
        put_int(out, "step", source->state.adam_step);
        pickle_end_dict(out);
    }
    pickle_end_list(out);
}

// Storage 0 is the loss scale.
static void put_optimizer(struct buffer *out, const struct model_source *source) {
    static const int64_t one = 1;
    pickle_text(out, "optimizer");
    pickle_begin_dict(out);
    pickle_text(out, "optimizer");
    pickle_begin_dict(out);
    put_groups(out, source);
    pickle_end_dict(out);
    put_text(out, "param_state_sharding_type", "fully_reshardable");
    if (source->state.loss_scale > 1) {
        pickle_text(out, "grad_scaler");
        pickle_begin_dict(out);
        pickle_text(out, "scale");
        pickle_tensor(out, DTYPE_F32, &one, 1, 0);
        put_int(out, "growth_tracker", source->state.loss_scale_growth);
        put_int(out, "hysteresis_tracker", source->state.loss_scale_hysteresis);
        pickle_end_dict(out);
    }
    pickle_end_dict(out);
    pickle_text(out, "content_metadata");
    pickle_begin_dict(out);
    put_text(out, "distrib_optim_sharding_type", "fully_reshardable");
    put_bool(out, "chained_optim_avoid_prefix", true);
    pickle_end_dict(out);
}

int megatron_write_common(const struct model_write *write, const char *folder) {
    const struct model_source *source = write->source;
    float scale = (float)source->state.loss_scale;
    OWNED_BY(buffer_free) struct buffer out = {0};
    pickle_begin(&out);
    pickle_begin_dict(&out);
    pickle_text(&out, "args");
    put_arguments(&out, source);
    put_double(&out, "checkpoint_version", 3);
    put_int(&out, "iteration", source->state.iteration);
    put_double(&out, "num_floating_point_operations_so_far", source->state.flops_so_far);
    if (source->has_optimizer) {
        put_schedule(&out, source);
        put_optimizer(&out, source);
    }
    pickle_end_dict(&out);
    pickle_end(&out);
    OWNED char *path = file_join(folder, "common.pt");
    struct file_writer file;
    int result = file_create(&file, path);
    if (result == 0)
        result = torch_write(&file, &out, &(struct torch_storage_bytes){&scale, sizeof scale}, 1);
    if (result == 0)
        result = file_commit(&file);
    else
        file_abort(&file);
    return result;
}
