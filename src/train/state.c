// Saving and loading the state of a run; found_checkpoint.c finds what is loaded. See state.h.
#include "train/state.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/watchdog.h"
#include "model/likeness.h"
#include "optim/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A parameter that several stages of a pipeline hold is loaded by all of them and saved by one.
enum list_use { TO_SAVE, TO_LOAD };

// This rank's part of a parameter in one of the optimizer's buffers: its whole slice, or with a split optimizer its
// pieces of the slice, concatenated.
static struct checkpoint_tensor held_of(const struct optimizer *optimizer, const struct param_group *group,
                                        const struct param *param, const struct optimizer_state *state) {
    const struct pieces *pieces = &optimizer->pieces;
    struct checkpoint_tensor held = {
        .shard = &param->shard, .group = group, .kind = state->kind, .is_hosted = state->is_hosted};
    if (pieces->parts == 1) {
        int64_t at = param->offset - pieces->first;
        held.tensor = param_at(param, state->tensor, at);
        if (state->exponents.data)
            held.exponents = optimizer_exponents(state, at, tensor_count(held.tensor));
        return held;
    }
    int64_t first = 0, count = 0, end = param->offset + shard_local_count(&param->shard);
    struct piece run;
    for (int64_t at = param->offset; pieces_next(pieces, &at, end, &run); count += run.count)
        first = count == 0 ? run.local_offset : first;
    held.tensor = tensor_rows(state->tensor, first, count);
    held.pieces = pieces;
    held.offset = param->offset;
    if (state->exponents.data)
        held.exponents = optimizer_exponents(state, first, count);
    return held;
}

// The optimizer's list: its states and, with `masters` of every group, the master copy of every parameter; and to save,
// the ranges of fp8 tensors, which ranges_load loads, and the loads of experts. The list owns the names.
static struct checkpoint_tensor *list_optimizer(const struct run_state *run, enum list_use use,
                                                const struct tensor *masters, size_t *count) {
    struct step *step = run->step;
    const struct param_list *params = step_params(step);
    size_t others = (size_t)step_range_count(step) + expert_load_count(step, run->config);
    struct checkpoint_tensor *list =
        memory_alloc(sizeof *list * ((size_t)params->count * (OPTIMIZER_MOST_STATES + 1) + others));
    *count = 0;
    for (int which = 0; which <= OPTIMIZER_MOST_STATES; which++)
        for (int i = 0; i < params->count; i++) {
            const struct param *param = params->items[i];
            const struct optimizer *optimizer = step_optimizer(step, param->group);
            struct optimizer_state state = {0};
            if (which < optimizer->state_count)
                state = optimizer->states[which];
            else if (which == OPTIMIZER_MOST_STATES && masters)
                state = (struct optimizer_state){.name = "master", .tensor = masters[param->group]};
            if (!state.tensor.data || (use == TO_SAVE && param->is_copy))
                continue;
            struct checkpoint_tensor *tensor = &list[(*count)++];
            *tensor = held_of(optimizer, &params->groups[param->group], param, &state);
            tensor->name = memory_printf("%s.%s", state.name, param->name);
        }
    if (use == TO_SAVE) {
        ranges_list(step, list + *count);
        expert_load_list(step, run->config, list + *count + step_range_count(step));
        *count += others;
    }
    return list;
}

// Every parameter that this rank has, in the buffer for whole weights. The list owns the names.
static struct checkpoint_tensor *list_weights(struct step *step, const char *prefix) {
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * (size_t)step_params(step)->count);
    struct tensor target = step_weights_target(step);
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        list[i] = (struct checkpoint_tensor){.name = memory_printf("%s%s", prefix, param->name),
                                             .tensor = param_in(param, target),
                                             .shard = &param->shard};
    }
    return list;
}

// The weights, and on the first stage the biases of all routers. Of these the list owns the names, see free_model_list.
static struct checkpoint_tensor *list_model(const struct step *step, const struct config *config, size_t *count) {
    bool is_first = step_mesh(step)->place[AXIS_PIPELINE] == 0;
    size_t biases = is_first ? expert_bias_count(step, config) : 0;
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * ((size_t)step_params(step)->count + biases));
    *count = 0;
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        if (!param->is_copy)
            list[(*count)++] = (struct checkpoint_tensor){.name = param->name,
                                                          .tensor = param->value,
                                                          .shard = &param->shard,
                                                          .group = &step_params(step)->groups[param->group]};
    }
    if (biases > 0)
        expert_bias_list(step, config, list + *count);
    *count += biases;
    return list;
}

// Weights have the names of their parameters, and shards.
static void free_model_list(struct checkpoint_tensor *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!list[i].shard)
            free((char *)(uintptr_t)list[i].name);
    free(list);
}

// Shared by the three ways of saving: the lists of a step, and their destination.
struct saving {
    struct buffer json;
    struct checkpoint_state state;
    struct checkpoint_tensor *model, *optimizer;
    struct checkpoint_ranks ranks;
    struct checkpoint_save options;
};

// The save borrows the bytes that are held. A large file that has gone is left out.
static void list_files(const struct checkpoint_file_list *kept, struct checkpoint_file_list *files) {
    for (size_t i = 0; kept && i < kept->count; i++) {
        const struct checkpoint_file *file = &kept->items[i];
        if (!file->held && !file_exists(file->path)) {
            log_warn("%s no longer exists; the checkpoint is saved without it", file->path);
            continue;
        }
        checkpoint_file_list_add(files, file->role, file->path);
        files->items[files->count - 1].held = file->held;
    }
}

static void begin_saving(struct saving *saving, const struct run_state *run) {
    struct step *step = run->step;
    const struct config *config = run->config;
    const struct progress_state *progress = run->progress;
    const struct mesh *mesh = step_mesh(step);
    *saving = (struct saving){0};
    step_settle(step);
    struct json_writer writer = {.out = &saving->json};
    config_to_json(config, &writer);
    struct step_counters counters = step_counters(step);
    saving->state = (struct checkpoint_state){.iteration = progress->iteration,
                                              .consumed_train_samples = progress->consumed_train_samples,
                                              .consumed_valid_samples = progress->consumed_valid_samples,
                                              .skipped_train_samples = progress->skipped_train_samples,
                                              .adam_step = counters.updates,
                                              .schedule_samples = progress->schedule_samples,
                                              .seed = config->run.seed,
                                              .loss_scale = counters.scaler.scale,
                                              .loss_scale_growth = counters.scaler.steps,
                                              .loss_scale_hysteresis = counters.scaler.overflows_left,
                                              .flops_so_far = progress->flops_so_far,
                                              .fp8_steps = counters.fp8_steps,
                                              .replicas_verified = progress->replicas_verified,
                                              .config_json = saving->json.data};
    if (progress->past)
        saving->state.past = *progress->past;
    saving->ranks = (struct checkpoint_ranks){.mesh = mesh, .writers = config->run.ckpt_writers};
    saving->options = (struct checkpoint_save){.folder = run->folder ? run->folder : config->run.save,
                                               .device = step_device(step),
                                               .ranks = &saving->ranks,
                                               .state = &saving->state,
                                               .keep_last = config->run.keep_last,
                                               .retain_interval = config->run.save_retain_interval,
                                               .best = run->best,
                                               .replaced = {run->replaced[0], run->replaced[1]},
                                               .check = run->check,
                                               .context = run->context,
                                               .unmarked = run->unmarked};
    struct checkpoint_save *options = &saving->options;
    options->model = saving->model = list_model(step, config, &options->model_count);
    if (!config->run.no_save_optim) {
        struct tensor masters[PARAM_MOST_GROUPS];
        step_open_masters(step, masters);
        options->optimizer = saving->optimizer = list_optimizer(run, TO_SAVE, masters, &options->optimizer_count);
    }
    if (mesh->rank == 0)
        list_files(run->kept, &options->files);
}

static void end_saving(struct saving *saving, struct step *step) {
    if (saving->optimizer)
        step_close_masters(step);
    free_model_list(saving->model, saving->options.model_count);
    tensors_free(saving->optimizer, saving->options.optimizer_count);
    checkpoint_file_list_free(&saving->options.files);
    buffer_free(&saving->json);
}

// Samples that --train-tokens needs, the last of them in part.
static int64_t samples_of_tokens(const struct config *config) {
    return (config->run.train_tokens - 1) / config->run.seq_length + 1;
}

bool state_is_done(const struct config *config, const struct progress_state *at) {
    return at->iteration >= config->run.train_iters ||
           (config->run.train_samples > 0 && at->consumed_train_samples >= config->run.train_samples) ||
           (config->run.train_tokens > 0 && at->consumed_train_samples >= samples_of_tokens(config));
}

// With Megatron's default --min-lr the rate is 0 after the decay, and the weights stay as they are.
static void warn_of_idle_samples(const struct config *config, const struct progress_state *at) {
    int64_t end = config->run.train_samples > 0 ? config->run.train_samples
                                                : at->schedule_samples + (config->run.train_iters - at->iteration) *
                                                                             config->run.global_batch_size;
    // Rounded down: a decay of as many tokens, rounded to the nearest sample, is not shorter.
    if (config->run.train_tokens > 0 && config->run.train_tokens / config->run.seq_length < end)
        end = config->run.train_tokens / config->run.seq_length;
    if (config->run.lr_decay_steps >= end || schedule_lr(config, end) > 0 || schedule_decoupled_lr(config, end) > 0)
        return;
    log_warn_once("the learning rate is 0 from sample %" PRId64 " on (--lr-decay-iters, -samples or -tokens, "
                  "--min-lr), and the run has %" PRId64
                  " samples: what follows trains nothing; give --min-lr or a longer "
                  "decay%s",
                  config->run.lr_decay_steps, end,
                  config->run.use_checkpoint_opt_param_scheduler ? " with --override-opt_param-scheduler" : "");
}

void state_describe_rest(const struct config *config, const struct progress_state *at) {
    if (!state_is_done(config, at))
        warn_of_idle_samples(config, at);
    else if (at->iteration > 0)
        log_info("note: the checkpoint has all %" PRId64 " iterations of the run, so nothing is left to train; raise "
                 "--train-iters%s to continue",
                 at->iteration,
                 config->run.train_tokens > 0 ? ", --train-samples or --train-tokens" : " or --train-samples");
}

static int save(const struct run_state *run, const char *what, int (*write)(const struct checkpoint_save *options)) {
    struct saving saving;
    OWNED_BY(watchdog_end) struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_SAVE, what);
    begin_saving(&saving, run);
    int status = write(&saving.options);
    end_saving(&saving, run->step);
    return status;
}

int state_check_save(const struct run_state *run) {
    return save(run, "rehearsing a save", checkpoint_save_rehearse);
}

int state_save(const struct run_state *run) {
    IN_PHASE("saving the checkpoint");
    return save(run, "saving the checkpoint", checkpoint_save);
}

int state_save_start(const struct run_state *run, struct checkpoint_job **job) {
    struct saving saving;
    OWNED_BY(watchdog_end) struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_SAVE, "saving the checkpoint");
    begin_saving(&saving, run);
    int status = checkpoint_save_start(job, &saving.options);
    end_saving(&saving, run->step);
    return status;
}

// The configuration in a checkpoint; *object is NULL if it has none.
static int parse_config(struct json **object, const struct checkpoint_state *state, const char *path) {
    *object = NULL;
    if (!state->config_json)
        return 0;
    OWNED char *name = memory_printf("%s/config.json", path);
    return json_parse(object, state->config_json, strlen(state->config_json), name);
}

// The checkpoint must be one of this model, unless its weights begin another run. How it stores gains goes to
// *is_centered; one without a configuration is taken to store them as this run does.
static int check_config(const struct config *config, const struct checkpoint_state *state, const char *path,
                        bool *is_centered) {
    struct json *object;
    TRY(parse_config(&object, state, path));
    int status = object ? likeness_check_json(object, config, config->run.finetune, path) : 0;
    *is_centered = object ? config_json_is_centered(object) : config->model.apply_layernorm_1p;
    json_free(object);
    return status;
}

static int check_optimizer(const char *path) {
    if (!checkpoint_has_part(path, CHECKPOINT_OPTIMIZER))
        return error_set_code(
            EXIT_CODE_NO_CHECKPOINT,
            "%s has no optimizer.safetensors (it was saved with --no-save-optim); give --no-load-optim to continue "
            "with fresh moments, or --finetune to start a new run from its weights",
            path);
    return 0;
}

// A run that begins to average its weights has a checkpoint without averages: they stay as load_weights began them.
static size_t leave_averages(const struct step *step, const char *path, struct checkpoint_tensor *list, size_t count) {
    const char *prefix = OPTIMIZER_AVERAGE ".";
    OWNED char *first = memory_printf("%s%s", prefix, step_params(step)->items[0]->name);
    bool is_left = step_optimizer(step, 0)->average.data && !checkpoint_has_tensor(path, CHECKPOINT_OPTIMIZER, first);
    if (!is_left)
        return count;
    log_warn_once("%s has no moving average of the weights; --ema-decay starts one from its weights", path);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(list[i].name, prefix, strlen(prefix)) == 0)
            free((char *)list[i].name);
        else
            list[kept++] = list[i];
    return kept;
}

// The optimizer's states; load_weights has loaded the masters.
static int load_optimizer(const struct run_state *run, const char *path) {
    size_t count;
    struct checkpoint_tensor *list = list_optimizer(run, TO_LOAD, NULL, &count);
    count = leave_averages(run->step, path, list, count);
    int status = checkpoint_load_tensors(&(struct checkpoint_load){.path = path,
                                                                   .part = CHECKPOINT_OPTIMIZER,
                                                                   .device = step_device(run->step),
                                                                   .tensors = list,
                                                                   .count = count,
                                                                   .is_partial = true});
    tensors_free(list, count);
    return status;
}

// Whether the run that wrote the checkpoint had master weights: those of a run in fp32 are its weights.
static bool has_masters(const struct step *step, const char *path) {
    OWNED char *first = memory_printf("master.%s", step_params(step)->items[0]->name);
    return checkpoint_has_tensor(path, CHECKPOINT_OPTIMIZER, first);
}

// Shapes alone do not tell a model: with other heads, norms or rotary positions the same matrices compute something
// else, so what the folder of another program says of them is compared with the flags.
int foreign_open(struct model_source *source, const struct config *config, const char *path, int64_t step) {
    bool has_heads = flag_is_given(&config->given, "--num-attention-heads");
    return model_source_open(
        source, &(struct model_source_options){
                    .path = path, .step = step, .attention_heads = has_heads ? config->model.num_attention_heads : 0});
}

// A run may have biases where the model has none: they are 0 then.
static int load_biases(const struct run_state *run, struct model_source *source) {
    size_t count = source->biases > 0 ? expert_bias_count(run->step, run->config) : 0;
    if (count == 0)
        return 0;
    struct checkpoint_tensor *list = memory_alloc(count * sizeof *list);
    expert_bias_list(run->step, run->config, list);
    int status = model_source_load(source, step_device(run->step), list, count, true);
    tensors_free(list, count);
    return status;
}

// Sets run->progress unless it is NULL. See load_weights.
static int load_foreign_weights(const struct run_state *run, const char *path) {
    struct step *step = run->step;
    struct model_source source;
    TRY(foreign_open(&source, run->config, path, run->config->run.ckpt_step));
    size_t count = (size_t)step_params(step)->count;
    struct checkpoint_tensor *list = list_weights(step, "");
    // A stage has some of the layers, and text is generated without multi-token prediction.
    bool is_part = step_mesh(step)->length[AXIS_PIPELINE] > 1 || source.config.model.mtp_num_layers > 0;
    int status = likeness_check_weights(&source.config, run->config, path);
    gains_convert(list, step_params(step), source.config.model.apply_layernorm_1p);
    if (status == 0)
        status = model_source_load(&source, step_device(step), list, count, is_part || source.biases > 0);
    tensors_free(list, count);
    if (status == 0)
        status = load_biases(run, &source);
    if (status == 0 && run->progress)
        *run->progress = (struct progress_state){.iteration = source.state.iteration,
                                                 .consumed_train_samples = source.state.consumed_train_samples,
                                                 .consumed_valid_samples = source.state.consumed_valid_samples};
    model_source_close(&source);
    if (status == 0)
        step_accept_weights(step);
    return status;
}

// Everything that this rank computes with, also where the optimizer is split, is rounded from what is loaded here. So
// whatever the checkpoint's dtype and the run's, all replicas have the same values, and with `from_masters` a
// resumed run loses nothing.
static int load_weights(const struct run_state *run, const char *path, bool from_masters, bool is_centered) {
    struct step *step = run->step;
    struct checkpoint_tensor *list = list_weights(step, from_masters ? "master." : "");
    size_t count = (size_t)step_params(step)->count;
    gains_convert(list, step_params(step), is_centered);
    // A stage of a pipeline has some of the layers only; comparing the flags has shown that the checkpoint is of this
    // model. Beside the masters lie the moments, and beside the weights the biases of routers. Text is generated
    // without multi-token prediction.
    bool is_part = step_mesh(step)->length[AXIS_PIPELINE] > 1 || expert_bias_count(step, run->config) > 0 ||
                   run->config->model.mtp_num_layers > 0;
    enum checkpoint_part part = from_masters ? CHECKPOINT_OPTIMIZER : CHECKPOINT_MODEL;
    int status = checkpoint_load_tensors(&(struct checkpoint_load){.path = path,
                                                                   .part = part,
                                                                   .device = step_device(step),
                                                                   .tensors = list,
                                                                   .count = count,
                                                                   .is_partial = from_masters || is_part});
    tensors_free(list, count);
    if (status == 0)
        step_accept_weights(step);
    return status;
}

// Loads what a run needs to resume, beside its weights.
static int resume(const struct run_state *run, const char *path, const struct checkpoint_state *state) {
    struct step_counters counters = {.updates = state->adam_step,
                                     .scaler = {.scale = state->loss_scale,
                                                .steps = state->loss_scale_growth,
                                                .overflows_left = state->loss_scale_hysteresis},
                                     .fp8_steps = run->config->run.fp8_format ? state->fp8_steps : 0};
    TRY(load_optimizer(run, path));
    TRY(expert_load_read(run->step, run->config, path));
    if (run->config->run.fp8_format)
        TRY(ranges_load(run->step, run->config, path, counters.fp8_steps, &counters.has_ranges));
    step_resume(run->step, &counters);
    return 0;
}

static int load(const struct run_state *run, const char *path, bool with_optimizer) {
    struct step *step = run->step;
    struct progress_state *progress = run->progress;
    OWNED_BY(checkpoint_state_free) struct checkpoint_state state = {0};
    bool is_centered = false;
    TRY(checkpoint_load_state(path, &state));
    TRY(check_config(run->config, &state, path, &is_centered));
    if (with_optimizer)
        TRY(check_optimizer(path));
    TRY(load_weights(run, path, with_optimizer && has_masters(step, path), is_centered));
    TRY(expert_bias_load(step, run->config, path));
    if (with_optimizer)
        TRY(resume(run, path, &state));
    if (!progress)
        return 0;
    progress->iteration = state.iteration;
    progress->consumed_train_samples = state.consumed_train_samples;
    progress->consumed_valid_samples = state.consumed_valid_samples;
    // Without the optimizer the schedule starts again, as in Megatron.
    progress->schedule_samples = with_optimizer ? state.schedule_samples : 0;
    progress->skipped_train_samples = state.skipped_train_samples;
    progress->flops_so_far = state.flops_so_far;
    progress->replicas_verified = 0;
    if (progress->past)
        *progress->past = state.past;
    return 0;
}

int state_load(const struct run_state *run, const char *path, bool with_optimizer) {
    IN_PHASE("loading the checkpoint");
    return load(run, path, with_optimizer);
}

int state_load_found(const struct run_state *run, const struct found_checkpoint *from, bool with_optimizer) {
    IN_PHASE("loading the checkpoint");
    CHECK(!with_optimizer || !found_checkpoint_is_foreign(from));
    return found_checkpoint_is_foreign(from) ? load_foreign_weights(run, from->path)
                                             : load(run, from->path, with_optimizer);
}

int state_match_schedule(struct config *config, const char *path) {
    OWNED_BY(checkpoint_state_free) struct checkpoint_state state = {0};
    OWNED struct json *object = NULL;
    TRY(check_optimizer(path));
    TRY(checkpoint_load_state(path, &state));
    TRY(parse_config(&object, &state, path));
    if (!object)
        return 0;
    // If it is another model, nothing else is worth comparing.
    TRY(likeness_check_json(object, config, false, path));
    TRY(config_check_storage(config, object, path));
    TRY(config_match_schedule(config, object, path));
    OWNED_BY(buffer_free) struct buffer changes = {0};
    config_list_changes(config, state.config_json, &changes);
    if (changes.length > 0)
        log_warn_once("settings differ from the checkpoint %s: %s; ignore this if intended", path, changes.data);
    return 0;
}

// The checkpoint's own copies of the tokenizer's files come before the paths it remembers, which may be of another
// machine.
static int use_own_files(struct config *config, const struct checkpoint_file_list *files) {
    static const char *const roles[] = {"vocab-file", "merge-file", "tokenizer-model"};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        const char *path = checkpoint_file_find(files, roles[i]);
        OWNED char *flag = memory_printf("--%s", roles[i]);
        if (path && !flag_is_given(&config->given, flag))
            TRY(config_choose(config, flag, path));
    }
    return 0;
}

static int load_foreign_config(struct config *config, const char *path) {
    struct model_source source;
    TRY(foreign_open(&source, config, path, config->run.ckpt_step));
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer writer = {.out = &text};
    OWNED struct json *object = NULL;
    config_to_json(&source.config, &writer);
    int status = json_parse(&object, buffer_string(&text), text.length, path);
    if (status == 0)
        status = config_from_json(config, object);
    if (status == 0)
        status = use_own_files(config, &source.files);
    if (status == 0 && source.notes.length > 0)
        log_warn("%s", buffer_string(&source.notes));
    model_source_close(&source);
    return status;
}

int state_read_config(struct json **object, const char *path) {
    OWNED_BY(checkpoint_state_free) struct checkpoint_state state = {0};
    *object = NULL;
    TRY(checkpoint_load_state(path, &state));
    return parse_config(object, &state, path);
}

int state_read_resumed(struct json **object, const struct config *config) {
    struct config loaded = *config;
    struct found_checkpoint found;
    *object = NULL;
    if (!config->run.load || config->run.finetune || config_upcycles_load(config))
        return 0;
    loaded.run.pretrained_checkpoint = NULL;
    int status = find_checkpoint_here(&found, &loaded, true);
    if (status == 0 && found.path && !found_checkpoint_is_release(&found))
        status = state_read_config(object, found.path);
    found_checkpoint_free(&found);
    return status;
}

int state_load_config(struct config *config, const struct found_checkpoint *from) {
    const char *path = from->path;
    if (found_checkpoint_is_foreign(from))
        return load_foreign_config(config, path);
    OWNED_BY(checkpoint_state_free) struct checkpoint_state state = {0};
    OWNED_BY(checkpoint_file_list_free) struct checkpoint_file_list files = {0};
    OWNED struct json *object = NULL;
    TRY(checkpoint_load_state(path, &state));
    TRY(parse_config(&object, &state, path));
    if (!object)
        return error_set("%s has no config.json; give the model's flags (--num-layers, …) instead", path);
    TRY(config_from_json(config, object));
    TRY(checkpoint_file_list_read(&files, path));
    return use_own_files(config, &files);
}
