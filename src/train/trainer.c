// The training loop. See trainer.h.
//
// Iterations are queued ahead of the device, which thus never waits for the host; their results come in later, in
// order, and `at` is the place of the last one that is known. Whatever needs to know all of them (a save, an
// evaluation, an end, a batch of another size) settles first. All ranks take results at the same places, so that an
// iteration that ends the run ends it on all of them alike.
#include "train/trainer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/flops.h"
#include "optim/schedule.h"
#include "report/console.h"
#include "report/report.h"
#include "train/datasets.h"
#include "train/signals.h"
#include "train/state.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

// What has gathered since the last log line.
struct interval {
    double seconds, tokens;
    double loss, pair_loss;  // sum over the good iterations, whose loss and gradient are finite
    int64_t iterations, good, skipped, nan;
};

struct trainer {
    struct config *config;
    const struct mesh *mesh;
    int local_rank;
    struct device *device;
    struct tokenizer *tokenizer;
    struct step *step;
    struct datasets datasets;
    struct loader *loaders[SPLIT_COUNT];
    struct report *report;
    struct progress_state at;  // after the last iteration whose result is known
    int64_t batch_size;        // of the iteration queued last; all that are pending have it
    double counted;            // when the time of the next result began
    struct interval interval;
    int64_t saved_iteration;     // -1: none of this start
    struct checkpoint_job *job;  // a checkpoint that is being written in the background, or NULL
    int64_t first_iteration;     // of this start
    int64_t stop_reason;         // the signal that ended the run, -1 for the time limit
    double started;
};

static void say(struct trainer *trainer, struct buffer *text) {
    report_print(trainer->report, buffer_string(text));
    buffer_free(text);
}

static void say_datetime(struct trainer *trainer, const char *event) {
    struct buffer text = {0};
    console_datetime(&text, event, clock_wall_seconds());
    say(trainer, &text);
}

static int open_report(struct trainer *trainer) {
    const struct config *config = trainer->config;
    if (trainer->mesh->rank != 0)
        return 0;
    TRY(report_open(&trainer->report,
                    &(struct report_options){
                        .console = stdout,
                        .is_fairseq = strcmp(config->log_format, "json") == 0,
                        .metrics_path = config->metrics_file,
                        .tensorboard_folder = config->tensorboard_dir,
                        .tensorboard_interval = config->tensorboard_log_interval,
                        .tensorboard = {.no_loss_scale = config->no_log_loss_scale_to_tensorboard,
                                        .timers = config->log_timers_to_tensorboard,
                                        .validation_ppl = config->log_validation_ppl_to_tensorboard,
                                        .world_size = config->log_world_size_to_tensorboard ? config->world_size : 0},
                        .first_iteration = trainer->at.iteration,
                        .train_iters = config->train_iters}));
    struct buffer json = {0};
    struct json_writer writer = {.out = &json};
    config_to_json(config, &writer);
    report_run(trainer->report, trainer->at.iteration, json.data);
    buffer_free(&json);
    return 0;
}

// Random weights, or those of --load.
static int set_weights(struct trainer *trainer) {
    struct config *config = trainer->config;
    char *path = NULL;
    int64_t iteration = -1;
    if (config->load)
        TRY(state_find(config, trainer->mesh, &path, &iteration));
    step_initialize(trainer->step);
    if (!path) {
        if (config->load)
            log_warn("no checkpoint in %s: the run starts from random weights", config->load);
        return 0;
    }
    log_info(" loading checkpoint from %s at iteration %" PRId64, config->load, iteration);
    bool is_release = state_is_release(path);
    if (is_release && !config->finetune)
        log_info("note: it holds weights only, so the run begins at iteration 0, as with --finetune");
    bool resumes = !config->finetune && !is_release, with_optimizer = resumes && !config->no_load_optim;
    int status = with_optimizer ? state_match_schedule(config, path) : 0;
    if (status == 0)
        status = state_load(trainer->step, path, with_optimizer, resumes ? &trainer->at : NULL);
    free(path);
    if (status == 0)
        log_info("  successfully loaded checkpoint from %s [ t 1/%d, p 1/%d ] at iteration %" PRId64, config->load,
                 trainer->mesh->length[AXIS_TENSOR], trainer->mesh->length[AXIS_PIPELINE], iteration);
    return status;
}

static int open_loaders(struct trainer *trainer) {
    const struct config *config = trainer->config;
    TRY(datasets_open(&trainer->datasets,
                      &(struct datasets_options){.config = config,
                                                 .mesh = trainer->mesh,
                                                 .local_rank = trainer->local_rank,
                                                 .tokenizer = trainer->tokenizer,
                                                 .iteration = trainer->at.iteration,
                                                 .consumed_train_samples = trainer->at.consumed_train_samples,
                                                 .consumed_valid_samples = trainer->at.consumed_valid_samples}));
    const int64_t consumed[SPLIT_COUNT] = {trainer->at.consumed_train_samples, trainer->at.consumed_valid_samples, 0};
    for (int split = 0; split < SPLIT_COUNT; split++)
        if (trainer->datasets.sources[split].count > 0)
            TRY(datasets_loader(&trainer->loaders[split], &trainer->datasets, (enum split)split, config, trainer->mesh,
                                consumed[split]));
    if (!trainer->loaders[SPLIT_TRAIN] && !config->skip_train && trainer->at.iteration < config->train_iters)
        return error_set_code(EXIT_CODE_BAD_DATA, "there are no training samples: --split %s leaves none for training",
                              config->split ? config->split : "(none)");
    return 0;
}

static int set_up(struct trainer *trainer) {
    struct config *config = trainer->config;
    log_info("using world size: %d, data-parallel size: %" PRId64 ", context-parallel size: %" PRId64
             ", tensor-model-parallel size: %" PRId64 ", pipeline-model-parallel size: %" PRId64,
             trainer->mesh->size, config->data_parallel_size, config->context_parallel_size,
             config->tensor_model_parallel_size, config->pipeline_model_parallel_size);
    TRY(state_prepare_save(config, trainer->mesh));
    TRY(datasets_open_tokenizer(&trainer->tokenizer, config));
    log_info("> learning rate decay style: %s", config->lr_decay_style);
    TRY(step_open(&trainer->step, config, trainer->device, trainer->mesh, STEP_TRAIN));
    struct step *step = trainer->step;
    char text[128];
    device_describe(trainer->device, text, sizeof text);
    log_info("training on %s in %s, %d rank%s", text, dtype_name(step->dtype), trainer->mesh->size,
             trainer->mesh->size == 1 ? "" : "s");
    log_info(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): %" PRId64,
             param_list_elements(&step->params));
    log_info(" > memory: weights %.3f GB, gradients %.3f GB, optimizer %.3f GB, activations %.3f GB",
             (double)step->memory.weights / 1e9, (double)step->memory.gradients / 1e9,
             (double)step->memory.optimizer / 1e9, (double)(step->memory.activations + step->memory.scratch) / 1e9);
    TRY(set_weights(trainer));
    TRY(open_loaders(trainer));
    return open_report(trainer);
}

// Whether a signal or the time limit asks to stop: all ranks must decide the same, so the reasons are shared first.
// Returns the signal, -1 for the time limit, 0 to go on.
static int64_t must_stop(const struct trainer *trainer) {
    double minutes = (clock_seconds() - trainer->started) / 60, limit = trainer->config->exit_duration_in_mins;
    int64_t reasons[2] = {signals_received(), limit > 0 && minutes > limit};
    comm_max_i64(trainer->mesh->all, reasons, 2, "reasons to stop");
    return reasons[0] ? reasons[0] : -reasons[1];
}

// The loss over --eval-iters global batches of a split. Where a signal comes in between, nothing is reported; the
// caller looks for it next.
static int evaluate(struct trainer *trainer, enum split split, bool is_final) {
    const struct config *config = trainer->config;
    if (!trainer->loaders[split] || config->eval_iters == 0)
        return 0;
    if (is_final)
        log_info("Evaluating on %" PRId64 " samples", config->eval_iters * config->global_batch_size);
    // As a whole also where it is cut short: the validations after a resume then see the samples they would have seen.
    if (split == SPLIT_VALID)
        trainer->at.consumed_valid_samples += config->eval_iters * config->global_batch_size;
    double started = clock_seconds();
    int64_t per_step = config->global_batch_size / (config->micro_batch_size * config->data_parallel_size);
    struct step_losses sum = {0};
    for (int64_t i = 0; i < config->eval_iters; i++) {
        if (must_stop(trainer)) {
            step_take_losses(trainer->step, 0, &sum);
            return 0;
        }
        struct step_source source = datasets_source(trainer->loaders[split], per_step);
        TRY(step_evaluate(trainer->step, &source));
        step_take_losses(trainer->step, step_worth_ahead(trainer->step), &sum);
    }
    step_take_losses(trainer->step, 0, &sum);
    struct metrics_eval eval = {
        .wall_seconds = clock_wall_seconds(),
        .iteration = trainer->at.iteration,
        .consumed_samples = trainer->at.consumed_train_samples,
        .set = split == SPLIT_VALID ? "validation" : "test",
        .is_final = is_final,
        .elapsed_ms = (clock_seconds() - started) * 1e3,
        .losses = {{.name = "lm loss", .value = sum.loss / (sum.tokens > 1 ? sum.tokens : 1)},
                   {.name = "sop loss", .value = sum.pair_loss / (sum.pairs > 1 ? sum.pairs : 1)}},
        .loss_count = sum.pairs > 0 ? 2 : 1};
    report_eval(trainer->report, &eval);
    return 0;
}

static struct console_checkpoint describe_checkpoint(const struct trainer *trainer, int64_t iteration,
                                                     const char *folder) {
    return (struct console_checkpoint){.iteration = iteration,
                                       .folder = folder,
                                       .tensor_ranks = trainer->mesh->length[AXIS_TENSOR],
                                       .pipeline_ranks = trainer->mesh->length[AXIS_PIPELINE]};
}

static void say_saved(struct trainer *trainer, int64_t iteration) {
    struct buffer text = {0};
    struct console_checkpoint saved = describe_checkpoint(trainer, iteration, trainer->config->save);
    console_saved(&text, clock_wall_seconds(), &saved);
    say(trainer, &text);
}

// Waits for the checkpoint that is being written in the background, if there is one, and makes it the latest.
static int finish_saving(struct trainer *trainer) {
    if (!trainer->job)
        return 0;
    struct checkpoint_job *job = trainer->job;
    trainer->job = NULL;
    TRY(checkpoint_save_end(job));
    say_saved(trainer, trainer->saved_iteration);
    return 0;
}

// The same without waiting: the next part of it begins once no rank is busy with the one before.
static int look_after_saving(struct trainer *trainer) {
    if (!trainer->job)
        return 0;
    int64_t is_busy = !checkpoint_save_is_ready(trainer->job);
    comm_max_i64(trainer->mesh->all, &is_busy, 1, "checkpoint in the background");
    if (is_busy)
        return 0;
    TRY(checkpoint_save_go_on(&trainer->job));
    if (!trainer->job)
        say_saved(trainer, trainer->saved_iteration);
    return 0;
}

static int save(struct trainer *trainer) {
    const struct config *config = trainer->config;
    if (!config->save || trainer->saved_iteration == trainer->at.iteration)
        return 0;
    TRY(finish_saving(trainer));
    struct buffer text = {0};
    console_saving(&text, clock_wall_seconds(), trainer->at.iteration, config->save);
    say(trainer, &text);
    TRY(config->async_save ? state_save_start(trainer->step, &trainer->at, &trainer->job)
                           : state_save(trainer->step, &trainer->at));
    trainer->saved_iteration = trainer->at.iteration;
    if (!config->async_save)
        say_saved(trainer, trainer->saved_iteration);
    return 0;
}

// A loss or gradient that is not a number cannot be trained on. The optimizer makes no update where the gradient is not
// finite; without the check such a step is counted as skipped, with it the run ends.
static int handle_not_finite(struct trainer *trainer, const struct step_result *result) {
    bool is_skipped = !isfinite(result->grad_norm);
    trainer->interval.skipped += is_skipped;
    trainer->interval.nan += !isfinite(result->loss);
    // With fp16 overflows are how the loss scale is found.
    if (trainer->config->no_check_for_nan_in_loss_and_grad || trainer->config->fp16)
        return 0;
    return error_set_code(EXIT_CODE_NOT_FINITE,
                          "the loss is %g and the gradient norm %g at iteration %" PRId64
                          "%s. Resume from the last checkpoint with a lower --lr or longer "
                          "warm-up, or give --no-check-for-nan-in-loss-and-grad to skip such steps",
                          result->loss, result->grad_norm, trainer->at.iteration,
                          is_skipped ? "; the weights were not changed" : "");
}

// For the speed: of masked words few tokens count for the loss, but all are worked on.
static double tokens_of(const struct config *config, const struct step_result *result, int64_t batch_size) {
    if (config_form(config) == CONFIG_GPT)
        return result->tokens;
    int64_t decoder = config_form(config) == CONFIG_T5 ? config->decoder_seq_length : 0;
    return (double)(batch_size * (config->seq_length + decoder));
}

static struct metrics make_metrics(const struct trainer *trainer, const struct step_result *result, double seconds) {
    const struct config *config = trainer->config;
    int64_t batch_size = trainer->batch_size;
    struct metrics metrics = {
        .wall_seconds = clock_wall_seconds(),
        .iteration = trainer->at.iteration,
        .train_iters = config->train_iters,
        .consumed_samples = trainer->at.consumed_train_samples,
        .elapsed_ms = seconds * 1e3,
        .tokens_per_second = tokens_of(config, result, batch_size) / seconds,
        .teraflops = flops_per_step(config, batch_size) / (seconds * 1e12 * trainer->mesh->size),
        .learning_rate = schedule_lr(config, trainer->at.schedule_samples),
        .global_batch_size = batch_size,
        .losses = {{.name = "lm loss", .value = result->loss}, {.name = "sop loss", .value = result->pair_loss}},
        .loss_count = result->pairs > 0 ? 2 : 1,
        .loss_scale = result->loss_scale,
        .grad_norm = result->grad_norm,
        .has_throughput = config->log_throughput,
        .has_grad_norm = isfinite(result->grad_norm)};
    return metrics;
}

static void add_costly_metrics(struct trainer *trainer, struct metrics *metrics) {
    const struct config *config = trainer->config;
    metrics->has_params_norm = config->log_params_norm;
    if (config->log_params_norm)
        metrics->params_norm = step_params_norm(trainer->step);
    metrics->has_num_zeros = config->log_num_zeros_in_grad;
    if (config->log_num_zeros_in_grad)
        metrics->num_zeros = (double)step_count_zero_gradients(trainer->step);
}

static bool has_line(const struct trainer *trainer, int64_t iteration) {
    return iteration % trainer->config->log_interval == 0 || iteration == trainer->first_iteration;
}

// Whether something is reported that is found out by looking at the weights or gradients of this iteration.
static bool has_costly_metrics(const struct trainer *trainer, int64_t iteration) {
    const struct config *config = trainer->config;
    bool is_board = config->tensorboard_dir && iteration % config->tensorboard_log_interval == 0;
    return (config->log_params_norm || config->log_num_zeros_in_grad) && (is_board || has_line(trainer, iteration));
}

static void report_iteration(struct trainer *trainer, const struct step_result *result, double seconds) {
    struct interval *interval = &trainer->interval;
    const struct config *config = trainer->config;
    struct metrics metrics = make_metrics(trainer, result, seconds);
    if (has_costly_metrics(trainer, trainer->at.iteration))
        add_costly_metrics(trainer, &metrics);
    report_step(trainer->report, &metrics);
    if (!has_line(trainer, trainer->at.iteration))
        return;
    int64_t good = interval->good;
    double mean = interval->seconds / (double)interval->iterations;
    metrics.elapsed_ms = mean * 1e3;
    metrics.tokens_per_second = interval->tokens / interval->seconds;
    metrics.teraflops = flops_per_step(config, trainer->batch_size) / (mean * 1e12 * trainer->mesh->size);
    metrics.losses[0].value = good > 0 ? interval->loss / (double)good : NAN;
    metrics.losses[1].value = good > 0 ? interval->pair_loss / (double)good : NAN;
    metrics.loss_count = good > 0 ? metrics.loss_count : 0;
    metrics.skipped_iterations = interval->skipped;
    metrics.nan_iterations = interval->nan;
    report_interval(trainer->report, &metrics);
    if (trainer->at.iteration % config->log_interval == 0)
        *interval = (struct interval){0};
}

// The oldest iteration that is pending has given its result.
static int finish_iteration(struct trainer *trainer) {
    const struct config *config = trainer->config;
    int64_t batch_size = trainer->batch_size;
    struct step_result result = step_take_result(trainer->step);
    double now = clock_seconds(), seconds = now - trainer->counted;
    trainer->counted = now;
    trainer->at.iteration++;
    trainer->at.consumed_train_samples += batch_size;
    trainer->at.flops_so_far += flops_per_step(config, batch_size);
    trainer->interval.iterations++;
    trainer->interval.tokens += tokens_of(config, &result, batch_size);
    if (isfinite(result.grad_norm))
        trainer->at.schedule_samples += batch_size;
    if (isfinite(result.loss) && isfinite(result.grad_norm)) {
        trainer->interval.good++;
        trainer->interval.loss += result.loss;
        trainer->interval.pair_loss += result.pair_loss;
    } else {
        TRY(handle_not_finite(trainer, &result));
    }
    trainer->interval.seconds += seconds;
    report_iteration(trainer, &result, seconds);
    return 0;
}

// Waits until no more than `most` iterations are pending.
static int finish_iterations(struct trainer *trainer, int most) {
    while (step_pending(trainer->step) > most)
        TRY(finish_iteration(trainer));
    return 0;
}

// Where the run will be when what is pending is done, if none of it is skipped.
static struct progress_state look_ahead(const struct trainer *trainer) {
    struct progress_state ahead = trainer->at;
    int pending = step_pending(trainer->step);
    ahead.iteration += pending;
    ahead.consumed_train_samples += pending * trainer->batch_size;
    ahead.schedule_samples += pending * trainer->batch_size;
    return ahead;
}

static int queue_iteration(struct trainer *trainer) {
    const struct config *config = trainer->config;
    struct progress_state ahead = look_ahead(trainer);
    int pending = step_pending(trainer->step);
    if (pending == 0)
        trainer->counted = clock_seconds();
    trainer->batch_size = config_global_batch_size(config, ahead.consumed_train_samples);
    int64_t micro_batches = trainer->batch_size / (config->micro_batch_size * config->data_parallel_size);
    // A step that is skipped does not move the schedules.
    struct adam_pace paces[STEP_ROWS];
    for (int skipped = 0; skipped <= pending; skipped++) {
        int64_t samples = ahead.schedule_samples - skipped * trainer->batch_size;
        paces[skipped] = (struct adam_pace){schedule_lr(config, samples), schedule_weight_decay(config, samples)};
    }
    struct step_source source = datasets_source(trainer->loaders[SPLIT_TRAIN], micro_batches);
    return step_train_paced(trainer->step, &source, paces);
}

enum ending { GO_ON, END_STOPPED, END_INTERVAL };

// What `reason` to stop, or --exit-interval, makes of the run.
static enum ending find_ending(struct trainer *trainer, int64_t reason) {
    const struct config *config = trainer->config;
    char event[96];
    if (reason > 0)
        snprintf(event, sizeof event, "exiting program after receiving SIG%s.",
                 reason == SIGTERM  ? "TERM"
                 : reason == SIGINT ? "INT"
                                    : "USR1");
    else if (reason < 0)
        snprintf(event, sizeof event, "exiting program after %.1f minutes", (clock_seconds() - trainer->started) / 60);
    else if (config->exit_interval > 0 && trainer->at.iteration % config->exit_interval == 0)
        snprintf(event, sizeof event, "exiting program at iteration %" PRId64, trainer->at.iteration);
    else
        return GO_ON;
    say_datetime(trainer, event);
    trainer->stop_reason = reason;
    return reason ? END_STOPPED : END_INTERVAL;
}

// A batch that begins to grow is a good place to come back to; Megatron saves there too.
static int follow_ramp_up(struct trainer *trainer) {
    int64_t before = trainer->batch_size;
    int64_t next = config_global_batch_size(trainer->config, look_ahead(trainer).consumed_train_samples);
    if (before == next || before == 0)
        return 0;
    log_info("ramping up batch size from %" PRId64 " to %" PRId64, before, next);
    return save(trainer);
}

static bool is_done(const struct config *config, const struct progress_state *at) {
    return at->iteration >= config->train_iters ||
           (config->train_samples > 0 && at->consumed_train_samples >= config->train_samples);
}

static bool is_multiple(int64_t iteration, int64_t interval) {
    return interval > 0 && iteration % interval == 0;
}

// Whether what follows the iteration queued last depends on its result.
static bool must_know(const struct trainer *trainer) {
    const struct config *config = trainer->config;
    struct progress_state ahead = look_ahead(trainer);
    int64_t at = ahead.iteration;
    return is_done(config, &ahead) || is_multiple(at, config->check_replicas) ||
           is_multiple(at, config->eval_interval) || is_multiple(at, config->save_interval) ||
           is_multiple(at, config->exit_interval) || has_costly_metrics(trainer, at) ||
           config_global_batch_size(config, ahead.consumed_train_samples) != trainer->batch_size;
}

// What is done after some iterations; all results are known.
static int follow_intervals(struct trainer *trainer) {
    const struct config *config = trainer->config;
    int64_t at = trainer->at.iteration;
    if (is_multiple(at, config->check_replicas))
        TRY(step_check_replicas(trainer->step));
    if (is_multiple(at, config->eval_interval))
        TRY(evaluate(trainer, SPLIT_VALID, false));
    if (is_multiple(at, config->save_interval))
        TRY(save(trainer));
    return 0;
}

// Where no iteration can be queued any more, those before it have their lines nevertheless. Returns -1 with the error
// that was set.
static int report_the_rest(struct trainer *trainer) {
    struct error_note *note = error_take();
    if (finish_iterations(trainer, 0) < 0)
        error_clear();
    return error_give(note);
}

static int run_iterations(struct trainer *trainer, enum ending *ending) {
    const struct config *config = trainer->config;
    *ending = GO_ON;
    while (!is_done(config, &trainer->at) && *ending == GO_ON) {
        TRY(follow_ramp_up(trainer));
        if (queue_iteration(trainer) < 0)
            return report_the_rest(trainer);
        bool knows_all = must_know(trainer);
        TRY(finish_iterations(trainer, knows_all ? 0 : step_worth_ahead(trainer->step)));
        TRY(look_after_saving(trainer));
        if (knows_all)
            TRY(follow_intervals(trainer));
        int64_t reason = must_stop(trainer);
        if (reason)
            TRY(finish_iterations(trainer, 0));
        if (reason || knows_all)
            *ending = find_ending(trainer, reason);
    }
    return 0;
}

// "Run me again" is true only where there is something to go on from. Without it a signal ends the run as signals do.
static enum exit_code stopped_code(const struct trainer *trainer) {
    if (trainer->config->save)
        return EXIT_CODE_STOPPED;
    return trainer->stop_reason > 0 ? (enum exit_code)(128 + trainer->stop_reason) : EXIT_CODE_OK;
}

static int run(struct trainer *trainer, enum exit_code *exit_code) {
    enum ending ending = GO_ON;
    if (!trainer->config->skip_train) {
        say_datetime(trainer, "before the start of training step");
        TRY(run_iterations(trainer, &ending));
        say_datetime(trainer, "after training is done");
        TRY(save(trainer));
        TRY(finish_saving(trainer));
    }
    if (ending == GO_ON) {
        TRY(evaluate(trainer, SPLIT_VALID, true));
        TRY(evaluate(trainer, SPLIT_TEST, true));
        int64_t reason = must_stop(trainer);
        if (reason)
            ending = find_ending(trainer, reason);
    }
    *exit_code = ending == END_STOPPED ? stopped_code(trainer) : EXIT_CODE_OK;
    return 0;
}

// A run that fails still has the checkpoint that was on its way, where all ranks know of the failure; else it is lost.
static void give_up_saving(struct trainer *trainer) {
    if (!trainer->job)
        return;
    bool is_known = error_exit_code() == EXIT_CODE_NOT_FINITE;
    struct error_note *note = error_take();
    if (!is_known)
        checkpoint_save_drop(trainer->job);
    else if (finish_saving(trainer) < 0)
        log_warn("%s", error_message());
    error_give(note);
}

int trainer_run(const struct trainer_options *options, enum exit_code *exit_code) {
    struct trainer trainer = {.config = options->config,
                              .mesh = options->mesh,
                              .local_rank = options->local_rank,
                              .device = options->device,
                              .saved_iteration = -1,
                              .started = clock_seconds()};
    signals_install();
    // Ranks load weights and look at data each in their own time. One that fails ends the job, and need not end this.
    comm_patience_begin(options->mesh->all, "opening the checkpoint and the data");
    int status = set_up(&trainer);
    if (status == 0)
        comm_patience_end(options->mesh->all);
    trainer.first_iteration = trainer.at.iteration + 1;
    if (status == 0)
        status = run(&trainer, exit_code);
    if (status < 0)
        give_up_saving(&trainer);
    if (status == 0 && options->plot && trainer.report)
        report_plot_loss(trainer.report, stdout);
    report_close(trainer.report);
    // The device may wait for a message that nobody will send, and closing waits for the device.
    if (status < 0 && options->mesh->size > 1)
        return -1;
    for (int split = 0; split < SPLIT_COUNT; split++)
        loader_close(trainer.loaders[split]);
    datasets_close(&trainer.datasets);
    step_close(trainer.step);
    tokenizer_free(trainer.tokenizer);
    return status;
}
