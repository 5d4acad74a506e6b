// The training loop. See trainer.h.
//
// Iterations are queued ahead of the device, so that it never waits for the host. Their results arrive later, in order;
// `at` is where the run stands after the last iteration whose result is known. Whatever needs all results (a save, an
// evaluation, the end, a change of the batch size) waits for them first. All ranks take results at the same points, so
// an iteration that ends the run ends it on every rank.
#include "train/trainer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/phase.h"
#include "model/flops.h"
#include "optim/schedule.h"
#include "report/console.h"
#include "report/report.h"
#include "train/beginning.h"
#include "train/datasets.h"
#include "train/meter.h"
#include "train/same_data.h"
#include "train/save_folder.h"
#include "train/saver.h"
#include "train/state.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    int64_t batch_size;        // of the iteration queued last; all pending iterations have the same
    double last_result;        // when the last result came in, or when the first iteration after a pause was queued
    int64_t lowest_overflows;  // overflows in a row after which the loss scale was as low as it goes
    struct meter meter;
    struct save_folder save_folder;
    struct saver saver;
    // Until its result is known. On a GPU it takes longest: libraries choose algorithms, and passes are recorded.
    struct phase *first_iteration;
    int64_t stop_reason;  // the signal that ended the run, -1 for the time limit
    double started;
};

static void print_datetime(struct trainer *trainer, const char *event) {
    struct buffer text = {0};
    console_datetime(&text, event, clock_wall_seconds());
    report_print(trainer->report, buffer_string(&text));
    buffer_free(&text);
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
    return 0;
}

// Says what the step trains on, and how large it is.
static void log_step(const struct trainer *trainer) {
    const struct step *step = trainer->step;
    char text[128];
    device_describe(trainer->device, text, sizeof text);
    log_info("training in %s on %s, %d rank%s", dtype_name(step->dtype), text, trainer->mesh->size,
             trainer->mesh->size == 1 ? "" : "s");
    log_info(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): %" PRId64,
             param_list_elements(&step->params));
    log_info(" > memory: weights %.3f GB, gradients %.3f GB, optimizer %.3f GB, activations %.3f GB",
             (double)step->memory.weights / 1e9, (double)step->memory.gradients / 1e9,
             (double)step->memory.optimizer / 1e9, (double)(step->memory.activations + step->memory.scratch) / 1e9);
    if (step->memory.device_own)
        log_info(" > memory for copies in fp32: %.3f GB", (double)step->memory.device_own / 1e9);
}

static bool is_done(const struct config *config, const struct progress_state *at) {
    return at->iteration >= config->train_iters ||
           (config->train_samples > 0 && at->consumed_train_samples >= config->train_samples);
}

// A signal cuts this short with EXIT_CODE_STOPPED: what was begun is removed, and the run is as it was before.
static int set_up(struct trainer *trainer) {
    struct config *config = trainer->config;
    log_info("using world size: %d, data-parallel size: %" PRId64 ", context-parallel size: %" PRId64
             ", tensor-model-parallel size: %" PRId64 ", pipeline-model-parallel size: %" PRId64,
             trainer->mesh->size, config->data_parallel_size, config->context_parallel_size,
             config->tensor_model_parallel_size, config->pipeline_model_parallel_size);
    TRY(save_folder_open(&trainer->save_folder, config, trainer->mesh));
    TRY(datasets_open_tokenizer(&trainer->tokenizer, config));
    log_info("> learning rate decay style: %s", config->lr_decay_style);
    struct phase *phase = phase_begin("preparing the model and its memory");
    int status = step_open(&trainer->step, config, trainer->device, trainer->mesh, STEP_TRAIN);
    phase_end(phase);
    TRY(status);
    log_step(trainer);
    TRY(interrupt_check());
    TRY(beginning_set_weights(trainer->step, config, &trainer->at));
    TRY(interrupt_check());
    if (config->save && !config->skip_train && !is_done(config, &trainer->at))
        TRY(state_check_save(trainer->step, &trainer->at));
    phase = phase_begin("opening the data and building its sample index");
    status = open_loaders(trainer);
    phase_end(phase);
    TRY(status);
    TRY(open_report(trainer));
    trainer->meter = (struct meter){.config = config,
                                    .mesh = trainer->mesh,
                                    .step = trainer->step,
                                    .report = trainer->report,
                                    .first_iteration = trainer->at.iteration + 1};
    trainer->saver = (struct saver){
        .config = config, .mesh = trainer->mesh, .step = trainer->step, .report = trainer->report, .iteration = -1};
    return 0;
}

// Whether a signal or the time limit asks the run to stop: returns the signal, -1 for the time limit, 0 to go on. All
// ranks must decide alike, so they share their reasons first.
static int64_t must_stop(const struct trainer *trainer) {
    double minutes = (clock_seconds() - trainer->started) / 60, limit = trainer->config->exit_duration_in_mins;
    int64_t reasons[2] = {interrupt_received(), limit > 0 && minutes > limit};
    comm_max_i64(trainer->mesh->all, reasons, 2, "reasons to stop");
    return reasons[0] ? reasons[0] : -reasons[1];
}

// What Ctrl-C is answered with from now on, by one rank.
static void answer_with(const struct trainer *trainer, const char *doing, int64_t iteration) {
    if (trainer->mesh->rank != 0)
        return;
    if (trainer->config->save)
        interrupt_answer(doing, iteration, ", then saving", "quit without saving");
    else
        interrupt_answer(doing, iteration, ", then stopping (nothing is saved without --save)", "quit at once");
}

// Adds the losses of --eval-iters global batches; *is_cut if a signal has come meanwhile.
static int sum_losses(struct trainer *trainer, enum split split, struct step_losses *sum, bool *is_cut) {
    const struct config *config = trainer->config;
    int64_t per_step = config->global_batch_size / (config->micro_batch_size * config->data_parallel_size);
    struct phase *phase = phase_begin_amount("evaluating", "iterations", (double)config->eval_iters);
    int status = 0;
    *is_cut = false;
    for (int64_t i = 0; status == 0 && i < config->eval_iters; i++) {
        *is_cut = must_stop(trainer);
        if (*is_cut)
            break;
        struct step_source source = datasets_source(trainer->loaders[split], per_step);
        status = step_evaluate(trainer->step, &source);
        if (status == 0)
            step_take_losses(trainer->step, step_lookahead(trainer->step), sum);
        phase_advance(phase, 1);
    }
    if (status == 0)
        step_take_losses(trainer->step, 0, sum);
    phase_end(phase);
    return status;
}

// Reports the loss over --eval-iters global batches of a split. If a signal arrives meanwhile, nothing is reported; the
// caller checks for it next.
static int evaluate(struct trainer *trainer, enum split split, bool is_final) {
    const struct config *config = trainer->config;
    if (!trainer->loaders[split] || config->eval_iters == 0)
        return 0;
    if (is_final)
        log_info("Evaluating on %" PRId64 " samples", config->eval_iters * config->global_batch_size);
    // Counted in full even if it is cut short, so that evaluations after a resume see the samples they would have seen.
    if (split == SPLIT_VALID)
        trainer->at.consumed_valid_samples += config->eval_iters * config->global_batch_size;
    answer_with(trainer, "ending the evaluation at iteration ", trainer->at.iteration);
    double started = clock_seconds();
    struct step_losses sum = {0};
    bool is_cut;
    TRY(sum_losses(trainer, split, &sum, &is_cut));
    if (is_cut)
        return 0;
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

// Whether a result that is not finite may be cured by a lower loss scale. A constant one stays what it is, and a
// dynamic one that is as low as it goes has been given as many chances as overflows would have halved it.
static bool may_be_overflow(struct trainer *trainer, const struct step_result *result) {
    const struct config *config = trainer->config;
    if (!config->fp16 || config->loss_scale > 0)
        return false;
    bool is_lowest = result->loss_scale <= (double)(float)config->min_loss_scale;
    trainer->lowest_overflows = is_lowest ? trainer->lowest_overflows + 1 : 0;
    return trainer->lowest_overflows <= config->hysteresis;
}

// A loss or gradient that is not finite cannot be trained on. The optimizer makes no update when the gradient is not
// finite. With the check, the run ends unless that is how fp16 finds its loss scale; without it, the iteration counts
// as skipped.
static int check_finite(struct trainer *trainer, const struct step_result *result) {
    if (meter_result_is_good(result)) {
        trainer->lowest_overflows = 0;
        return 0;
    }
    if (trainer->config->no_check_for_nan_in_loss_and_grad || may_be_overflow(trainer, result))
        return 0;
    char scale[64] = "";
    if (trainer->config->fp16)
        snprintf(scale, sizeof scale, " with a loss scale of %g, which stays", result->loss_scale);
    return error_set_code(EXIT_CODE_NOT_FINITE,
                          "the loss is %g and the gradient norm %g at iteration %" PRId64
                          "%s%s. Resume from the last checkpoint with a lower --lr or longer "
                          "warm-up%s, or give --no-check-for-nan-in-loss-and-grad to skip such steps",
                          result->loss, result->grad_norm, trainer->at.iteration, scale,
                          isfinite(result->grad_norm) ? "" : "; the weights were not changed",
                          trainer->config->fp16 ? ", or with --bf16" : "");
}

static void end_first_iteration(struct trainer *trainer) {
    phase_end(trainer->first_iteration);
    trainer->first_iteration = NULL;
}

// Waits for the result of the oldest pending iteration and accounts for it.
static int finish_iteration(struct trainer *trainer) {
    struct meter_reading reading = {.result = step_take_result(trainer->step), .batch_size = trainer->batch_size};
    end_first_iteration(trainer);
    double now = clock_seconds();
    reading.seconds = now - trainer->last_result;
    trainer->last_result = now;
    trainer->at.iteration++;
    trainer->at.consumed_train_samples += reading.batch_size;
    trainer->at.flops_so_far += flops_per_step(trainer->config, reading.batch_size);
    if (isfinite(reading.result.grad_norm))
        trainer->at.schedule_samples += reading.batch_size;
    TRY(check_finite(trainer, &reading.result));
    reading.at = trainer->at;
    meter_add(&trainer->meter, &reading);
    return 0;
}

// Waits until no more than `most` iterations are pending.
static int finish_iterations(struct trainer *trainer, int most) {
    while (step_pending(trainer->step) > most)
        TRY(finish_iteration(trainer));
    return 0;
}

// Where the run will be once all pending iterations are done, if none of them is skipped.
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
        trainer->last_result = clock_seconds();
    trainer->batch_size = config_global_batch_size(config, ahead.consumed_train_samples);
    int64_t micro_batches = trainer->batch_size / (config->micro_batch_size * config->data_parallel_size);
    // A skipped step does not advance the schedules, and how many of the pending ones are skipped is not known yet.
    struct adam_pace paces[STEP_ROWS];
    for (int skipped = 0; skipped <= pending; skipped++) {
        int64_t samples = ahead.schedule_samples - skipped * trainer->batch_size;
        paces[skipped] = (struct adam_pace){.lr = schedule_lr(config, samples),
                                            .weight_decay = schedule_weight_decay(config, samples),
                                            .decoupled_lr = schedule_decoupled_lr(config, samples)};
    }
    answer_with(trainer, "finishing iteration ", ahead.iteration + 1);
    struct step_source source = datasets_source(trainer->loaders[SPLIT_TRAIN], micro_batches);
    return step_train_paced(trainer->step, &source, paces);
}

enum ending { GO_ON, END_STOPPED, END_INTERVAL };

// How the run goes on, given a reason to stop (see must_stop) and --exit-interval.
static enum ending find_ending(struct trainer *trainer, int64_t reason) {
    const struct config *config = trainer->config;
    char event[96];
    if (reason > 0)
        snprintf(event, sizeof event, "exiting program after receiving %s.", interrupt_name((int)reason));
    else if (reason < 0)
        snprintf(event, sizeof event, "exiting program after %.1f minutes", (clock_seconds() - trainer->started) / 60);
    else if (config->exit_interval > 0 && trainer->at.iteration % config->exit_interval == 0)
        snprintf(event, sizeof event, "exiting program at iteration %" PRId64, trainer->at.iteration);
    else
        return GO_ON;
    print_datetime(trainer, event);
    trainer->stop_reason = reason;
    return reason ? END_STOPPED : END_INTERVAL;
}

// No checkpoint is made of rows that do not belong together.
static int save(struct trainer *trainer) {
    if (trainer->config->save && trainer->loaders[SPLIT_TRAIN])
        TRY(same_data_check_rows(trainer->mesh, loader_digest(trainer->loaders[SPLIT_TRAIN])));
    if (trainer->config->save && trainer->mesh->rank == 0)
        interrupt_answer("finishing the checkpoint of iteration ", trainer->at.iteration, "", "quit without it");
    return saver_save(&trainer->saver, &trainer->at);
}

// Saves before the batch size grows, as Megatron does: it is a good point to come back to.
static int follow_ramp_up(struct trainer *trainer) {
    int64_t before = trainer->batch_size;
    int64_t next = config_global_batch_size(trainer->config, look_ahead(trainer).consumed_train_samples);
    if (before == next || before == 0)
        return 0;
    log_info("ramping up batch size from %" PRId64 " to %" PRId64, before, next);
    return save(trainer);
}

static bool is_multiple(int64_t iteration, int64_t interval) {
    return interval > 0 && iteration % interval == 0;
}

// Whether what comes after the iteration queued last depends on its result.
static bool needs_results(const struct trainer *trainer) {
    const struct config *config = trainer->config;
    struct progress_state ahead = look_ahead(trainer);
    int64_t at = ahead.iteration;
    return is_done(config, &ahead) || is_multiple(at, config->check_replicas) ||
           is_multiple(at, config->eval_interval) || is_multiple(at, config->save_interval) ||
           is_multiple(at, config->exit_interval) || meter_needs_weights(&trainer->meter, at) ||
           config_global_batch_size(config, ahead.consumed_train_samples) != trainer->batch_size;
}

// Does what is due after every so many iterations. All results must be known.
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

// Called when an iteration could not be queued: those queued before it still get their log lines. Returns -1 with the
// error that was set.
static int report_the_rest(struct trainer *trainer) {
    struct error_note *note = error_take();
    if (finish_iterations(trainer, 0) < 0)
        error_clear();
    return error_give(note);
}

static int run_iterations(struct trainer *trainer, enum ending *ending) {
    const struct config *config = trainer->config;
    // A signal that came too late to cut the start short; there is nothing new to save. The time limit waits for a
    // step.
    int64_t early = must_stop(trainer);
    *ending = early > 0 ? find_ending(trainer, early) : GO_ON;
    if (early > 0)
        trainer->saver.iteration = trainer->at.iteration;
    trainer->first_iteration = phase_begin("computing the first iteration");
    while (!is_done(config, &trainer->at) && *ending == GO_ON) {
        TRY(follow_ramp_up(trainer));
        if (queue_iteration(trainer) < 0)
            return report_the_rest(trainer);
        bool knows_all = needs_results(trainer);
        TRY(finish_iterations(trainer, knows_all ? 0 : step_lookahead(trainer->step)));
        TRY(saver_advance(&trainer->saver));
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

// EXIT_CODE_STOPPED means "run me again", which only makes sense if a checkpoint was saved. Otherwise the exit code is
// the usual one of a process that was ended by a signal.
static enum exit_code stopped_code(const struct trainer *trainer) {
    if (trainer->config->save)
        return EXIT_CODE_STOPPED;
    return trainer->stop_reason > 0 ? (enum exit_code)(128 + trainer->stop_reason) : EXIT_CODE_OK;
}

// A run that was done before has nothing new to save where its checkpoint came from.
static void note_finished_run(struct trainer *trainer) {
    const struct config *config = trainer->config;
    if (trainer->at.iteration == 0 || !is_done(config, &trainer->at))
        return;
    log_info("note: the checkpoint has all of the run's %" PRId64 " iterations, so nothing is left to train; raise "
             "--train-iters or --train-samples to go on",
             trainer->at.iteration);
    if (config->load && config->save && file_is_same(config->load, config->save))
        trainer->saver.iteration = trainer->at.iteration;
}

static int run(struct trainer *trainer, enum exit_code *exit_code) {
    enum ending ending = GO_ON;
    if (!trainer->config->skip_train) {
        note_finished_run(trainer);
        print_datetime(trainer, "before the start of training step");
        TRY(run_iterations(trainer, &ending));
        print_datetime(trainer, "after training is done");
        TRY(save(trainer));
        TRY(saver_finish(&trainer->saver));
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

int trainer_run(const struct trainer_options *options, enum exit_code *exit_code) {
    struct trainer trainer = {.config = options->config,
                              .mesh = options->mesh,
                              .local_rank = options->local_rank,
                              .device = options->device,
                              .started = clock_seconds()};
    // Someone who watches a run through a pipe and goes away must not end it.
    signal(SIGPIPE, SIG_IGN);
    if (options->mesh->rank == 0)
        interrupt_answer("stopping before the first iteration", -1, "", "quit at once");
    // Ranks load weights and read data at their own pace. A rank that fails ends the job, and need not end this.
    comm_patience_begin(options->mesh->all, "opening the checkpoint and the data");
    int status = set_up(&trainer);
    interrupt_defer();
    if (status == 0)
        comm_patience_end(options->mesh->all);
    if (status == 0)
        status = run(&trainer, exit_code);
    end_first_iteration(&trainer);
    if (status < 0)
        saver_abandon(&trainer.saver);
    if (status == 0 && options->plot && trainer.report)
        report_plot_loss(trainer.report, stdout);
    report_close(trainer.report);
    save_folder_close(&trainer.save_folder);
    // Closing would wait for the device, which may be waiting for a message that no rank will send any more.
    if (status < 0 && options->mesh->size > 1)
        return -1;
    for (int split = 0; split < SPLIT_COUNT; split++)
        loader_close(trainer.loaders[split]);
    datasets_close(&trainer.datasets);
    step_close(trainer.step);
    tokenizer_free(trainer.tokenizer);
    return status;
}
