// Saving and loading the state of a run; state_find.c finds what is loaded. See state.h.
#include "train/state.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "train/foreign.h"
#include "train/gains.h"
#include "train/kept_files.h"
#include "train/ranges.h"

#include <stdlib.h>
#include <string.h>

enum { MOMENTS = 3 };

// A parameter that several stages of a pipeline hold is loaded by all of them and saved by one.
enum list_use { TO_SAVE, TO_LOAD };

// What this rank's optimizer holds of a parameter, in one of its buffers: its whole slice, or those pieces of it that a
// divided optimizer holds, one after the other.
static struct checkpoint_tensor moment_of(const struct adam *adam, const struct param *param, struct tensor buffer) {
    if (adam->pieces.parts == 1)
        return (struct checkpoint_tensor){.tensor = param_in(param, buffer), .shard = &param->shard};
    int64_t first = 0, count = 0, end = param->offset + shard_local_count(&param->shard);
    struct piece run;
    for (int64_t at = param->offset; pieces_next(&adam->pieces, &at, end, &run); count += run.count)
        first = count == 0 ? run.local_offset : first;
    return (struct checkpoint_tensor){.tensor = tensor_rows(buffer, first, count),
                                      .shard = &param->shard,
                                      .pieces = &adam->pieces,
                                      .offset = param->offset};
}

// The optimizer's list: m, v and, if there are masters, the master copy of every parameter; and to save, the ranges of
// 8-bit tensors, which ranges_load loads. The list owns the names.
static struct checkpoint_tensor *list_optimizer(const struct step *step, enum list_use use, struct tensor masters,
                                                size_t *count) {
    const struct adam *adam = &step->adam;
    const char *const prefixes[MOMENTS] = {"exp_avg", "exp_avg_sq", "master"};
    const struct tensor flats[MOMENTS] = {adam->m, adam->v, masters};
    struct checkpoint_tensor *list =
        memory_alloc(sizeof *list * ((size_t)step->params.count * MOMENTS + ranges_count(step)));
    *count = 0;
    for (int which = 0; which < MOMENTS; which++) {
        if (!flats[which].data)
            continue;
        for (int i = 0; i < step->params.count; i++) {
            const struct param *param = step->params.items[i];
            if (use == TO_SAVE && param->is_copy)
                continue;
            struct checkpoint_tensor *tensor = &list[(*count)++];
            *tensor = moment_of(adam, param, flats[which]);
            tensor->name = memory_printf("%s.%s", prefixes[which], param->name);
        }
    }
    if (use == TO_SAVE) {
        ranges_list(step, list + *count);
        *count += ranges_count(step);
    }
    return list;
}

// Every parameter that this rank has, in the buffer for whole weights. The list owns the names.
static struct checkpoint_tensor *list_weights(struct step *step, const char *prefix) {
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * (size_t)step->params.count);
    struct tensor target = step_weights_target(step);
    for (int i = 0; i < step->params.count; i++) {
        const struct param *param = step->params.items[i];
        list[i] = (struct checkpoint_tensor){.name = memory_printf("%s%s", prefix, param->name),
                                             .tensor = param_in(param, target),
                                             .shard = &param->shard};
    }
    return list;
}

static void free_named_list(struct checkpoint_tensor *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        free((char *)list[i].name);
    free(list);
}

static struct checkpoint_tensor *list_model(const struct step *step, size_t *count) {
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * (size_t)step->params.count);
    *count = 0;
    for (int i = 0; i < step->params.count; i++) {
        const struct param *param = step->params.items[i];
        if (!param->is_copy)
            list[(*count)++] =
                (struct checkpoint_tensor){.name = param->name, .tensor = param->value, .shard = &param->shard};
    }
    return list;
}

// What the three ways of saving share: the lists of a step, and where they go.
struct saving {
    struct buffer json;
    struct checkpoint_state state;
    struct checkpoint_tensor *model, *optimizer;
    struct checkpoint_ranks ranks;
    struct checkpoint_save options;
};

static void begin_saving(struct saving *saving, struct step *step, const struct progress_state *progress) {
    const struct config *config = step->config;
    const struct mesh *mesh = &step->mesh;
    *saving = (struct saving){0};
    step_settle(step);
    struct json_writer writer = {.out = &saving->json};
    config_to_json(config, &writer);
    struct scaler_state scaler = scaler_read(&step->adam.scaler, step->device);
    saving->state = (struct checkpoint_state){.iteration = progress->iteration,
                                              .consumed_train_samples = progress->consumed_train_samples,
                                              .consumed_valid_samples = progress->consumed_valid_samples,
                                              .adam_step = step->adam.step,
                                              .schedule_samples = progress->schedule_samples,
                                              .seed = config->seed,
                                              .loss_scale = scaler.scale,
                                              .loss_scale_growth = scaler.steps,
                                              .loss_scale_hysteresis = scaler.overflows_left,
                                              .flops_so_far = progress->flops_so_far,
                                              .fp8_steps = ranges_steps(step),
                                              .config_json = saving->json.data};
    saving->ranks = (struct checkpoint_ranks){
        .all = mesh->all, .stage = mesh->stage, .parts = mesh->length[AXIS_TENSOR], .writers = config->ckpt_writers};
    saving->options = (struct checkpoint_save){.folder = config->save,
                                               .device = step->device,
                                               .ranks = &saving->ranks,
                                               .state = &saving->state,
                                               .keep_last = config->keep_last,
                                               .retain_interval = config->save_retain_interval};
    struct checkpoint_save *options = &saving->options;
    options->model = saving->model = list_model(step, &options->model_count);
    if (!config->no_save_optim)
        options->optimizer = saving->optimizer =
            list_optimizer(step, TO_SAVE, step_open_masters(step), &options->optimizer_count);
    if (mesh->rank == 0)
        kept_files_list(&options->files, config);
}

static void end_saving(struct saving *saving, struct step *step) {
    if (saving->optimizer)
        step_close_masters(step);
    free(saving->model);
    free_named_list(saving->optimizer, saving->options.optimizer_count);
    checkpoint_file_list_free(&saving->options.files);
    buffer_free(&saving->json);
}

int state_check_save(struct step *step, const struct progress_state *progress) {
    struct saving saving;
    begin_saving(&saving, step, progress);
    int status = checkpoint_save_rehearse(&saving.options);
    end_saving(&saving, step);
    return status;
}

int state_save(struct step *step, const struct progress_state *progress) {
    struct saving saving;
    struct phase *phase = phase_begin("saving the checkpoint");
    begin_saving(&saving, step, progress);
    int status = checkpoint_save(&saving.options);
    end_saving(&saving, step);
    phase_end(phase);
    return status;
}

int state_save_start(struct step *step, const struct progress_state *progress, struct checkpoint_job **job) {
    struct saving saving;
    begin_saving(&saving, step, progress);
    int status = checkpoint_save_start(job, &saving.options);
    end_saving(&saving, step);
    return status;
}

// The configuration in a checkpoint; *object is NULL if it has none.
static int parse_config(struct json **object, const struct checkpoint_state *state, const char *path) {
    *object = NULL;
    if (!state->config_json)
        return 0;
    char *name = memory_printf("%s/config.json", path);
    int status = json_parse(object, state->config_json, strlen(state->config_json), name);
    free(name);
    return status;
}

// The checkpoint must be one of this model, unless its weights begin another run. How it stores gains goes to
// *is_centered; one without a configuration is taken to store them as this run does.
static int check_config(const struct step *step, const struct checkpoint_state *state, const char *path,
                        bool *is_centered) {
    struct json *object;
    TRY(parse_config(&object, state, path));
    int status = object && !step->config->finetune ? config_check_json(step->config, object, path) : 0;
    *is_centered = object ? config_json_is_centered(object) : step->config->apply_layernorm_1p;
    json_free(object);
    return status;
}

static int check_optimizer(const char *path) {
    if (!checkpoint_has_part(path, CHECKPOINT_OPTIMIZER))
        return error_set_code(
            EXIT_CODE_NO_CHECKPOINT,
            "%s has no optimizer.safetensors (it was saved with --no-save-optim); give --no-load-optim "
            "to go on with fresh moments, or --finetune to start a new run from its weights",
            path);
    return 0;
}

// Adam's moments; load_weights has loaded the masters.
static int load_optimizer(struct step *step, const char *path) {
    size_t count;
    struct checkpoint_tensor *list = list_optimizer(step, TO_LOAD, (struct tensor){0}, &count);
    int status = checkpoint_load_tensors(&(struct checkpoint_load){.path = path,
                                                                   .part = CHECKPOINT_OPTIMIZER,
                                                                   .device = step->device,
                                                                   .tensors = list,
                                                                   .count = count,
                                                                   .is_partial = true});
    free_named_list(list, count);
    return status;
}

// Whether the run that wrote the checkpoint had master weights: those of a run in fp32 are its weights.
static bool has_masters(const struct step *step, const char *path) {
    char *first = memory_printf("master.%s", step->params.items[0]->name);
    bool has = checkpoint_has_tensor(path, CHECKPOINT_OPTIMIZER, first);
    free(first);
    return has;
}

// Weights of other programs, which set *progress unless it is NULL. See load_weights.
static int load_foreign_weights(struct step *step, const char *path, struct progress_state *progress) {
    struct checkpoint_tensor *list = list_weights(step, "");
    int status = foreign_load(step, path, list, progress);
    free_named_list(list, (size_t)step->params.count);
    if (status == 0)
        step_accept_weights(step);
    return status;
}

// Everything that this rank computes with, also where the optimizer is divided, is rounded from what is loaded here. So
// whatever the checkpoint's dtype and the run's, all replicas have the same values, and with `from_masters` a run that
// goes on loses nothing.
static int load_weights(struct step *step, const char *path, bool from_masters, bool is_centered) {
    struct checkpoint_tensor *list = list_weights(step, from_masters ? "master." : "");
    size_t count = (size_t)step->params.count;
    gains_convert(list, &step->params, is_centered);
    // A stage of a pipeline has some of the layers only; comparing the flags has shown that the checkpoint is of this
    // model. Beside the masters lie the moments.
    bool is_stage = step->mesh.length[AXIS_PIPELINE] > 1;
    enum checkpoint_part part = from_masters ? CHECKPOINT_OPTIMIZER : CHECKPOINT_MODEL;
    int status = checkpoint_load_tensors(&(struct checkpoint_load){.path = path,
                                                                   .part = part,
                                                                   .device = step->device,
                                                                   .tensors = list,
                                                                   .count = count,
                                                                   .is_partial = from_masters || is_stage});
    free_named_list(list, count);
    if (status == 0)
        step_accept_weights(step);
    return status;
}

static int load(struct step *step, const char *path, bool with_optimizer, struct progress_state *progress) {
    struct checkpoint_state state;
    if (model_source_is_foreign(path)) {
        CHECK(!with_optimizer);
        return load_foreign_weights(step, path, progress);
    }
    bool is_centered = false;
    TRY(checkpoint_load_state(path, &state));
    int status = check_config(step, &state, path, &is_centered);
    if (status == 0 && with_optimizer)
        status = check_optimizer(path);
    if (status == 0)
        status = load_weights(step, path, with_optimizer && has_masters(step, path), is_centered);
    if (status == 0 && with_optimizer)
        status = load_optimizer(step, path);
    if (status == 0 && with_optimizer && step->config->fp8_format)
        status = ranges_load(step, path, state.fp8_steps);
    if (status == 0 && with_optimizer) {
        step->adam.step = state.adam_step;
        scaler_write(&step->adam.scaler, step->device,
                     &(struct scaler_state){.scale = state.loss_scale,
                                            .steps = state.loss_scale_growth,
                                            .overflows_left = state.loss_scale_hysteresis});
    }
    if (status == 0 && progress) {
        progress->iteration = state.iteration;
        progress->consumed_train_samples = state.consumed_train_samples;
        progress->consumed_valid_samples = state.consumed_valid_samples;
        // Without the optimizer the schedule starts again, as in Megatron.
        progress->schedule_samples = with_optimizer ? state.schedule_samples : 0;
        progress->flops_so_far = state.flops_so_far;
    }
    checkpoint_state_free(&state);
    return status;
}

int state_load(struct step *step, const char *path, bool with_optimizer, struct progress_state *progress) {
    struct phase *phase = phase_begin("loading the checkpoint");
    int status = load(step, path, with_optimizer, progress);
    phase_end(phase);
    return status;
}

static void note_changes(const struct config *config, const struct checkpoint_state *state, const char *path) {
    struct buffer changes = {0};
    config_list_changes(config, state->config_json, &changes);
    if (changes.length > 0)
        log_warn_once("the run does not go on as it was in %s: %s; this is fine if it is meant", path, changes.data);
    buffer_free(&changes);
}

int state_match_schedule(struct config *config, const char *path) {
    struct checkpoint_state state;
    struct json *object = NULL;
    TRY(check_optimizer(path));
    TRY(checkpoint_load_state(path, &state));
    int status = parse_config(&object, &state, path);
    // If it is another model, nothing else is worth comparing.
    if (status == 0 && object)
        status = config_check_json(config, object, path);
    if (status == 0 && object)
        status = config_check_storage(config, object, path);
    if (status == 0 && object)
        status = config_match_schedule(config, object, path);
    if (status == 0 && object)
        note_changes(config, &state, path);
    json_free(object);
    checkpoint_state_free(&state);
    return status;
}

// The checkpoint's own copies of the tokenizer's files come before the paths it remembers, which may be of another
// machine.
static int use_own_files(struct config *config, const struct checkpoint_file_list *files) {
    static const char *const roles[] = {"vocab-file", "merge-file", "tokenizer-model"};
    struct flag_table table = config_flag_table(0);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        const char *path = checkpoint_file_find(files, roles[i]);
        char *flag = memory_printf("--%s", roles[i]);
        int status =
            path && !flag_is_given(&config->given, flag) ? flag_set(&table, config, flag, path, FLAG_FROM_PRESET) : 0;
        free(flag);
        TRY(status);
    }
    return 0;
}

static int load_foreign_config(struct config *config, const char *path) {
    struct model_source source;
    TRY(foreign_open(&source, config, path));
    struct buffer text = {0};
    struct json_writer writer = {.out = &text};
    struct json *object = NULL;
    config_to_json(&source.config, &writer);
    int status = json_parse(&object, buffer_string(&text), text.length, path);
    if (status == 0)
        status = config_from_json(config, object);
    if (status == 0)
        status = use_own_files(config, &source.files);
    if (status == 0 && source.notes.length > 0)
        log_warn("%s", buffer_string(&source.notes));
    json_free(object);
    buffer_free(&text);
    model_source_close(&source);
    return status;
}

int state_load_config(struct config *config, const char *path) {
    if (model_source_is_foreign(path))
        return load_foreign_config(config, path);
    struct checkpoint_state state;
    struct checkpoint_file_list files = {0};
    struct json *object = NULL;
    TRY(checkpoint_load_state(path, &state));
    int status = parse_config(&object, &state, path);
    if (status == 0)
        status = object ? config_from_json(config, object)
                        : error_set("%s has no config.json; give the model's flags (--num-layers, …) instead", path);
    if (status == 0)
        status = checkpoint_file_list_read(&files, path);
    if (status == 0)
        status = use_own_files(config, &files);
    checkpoint_file_list_free(&files);
    json_free(object);
    checkpoint_state_free(&state);
    return status;
}
