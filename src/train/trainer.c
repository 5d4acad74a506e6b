// The training loop. See trainer.h.
//
// Iterations are queued ahead of the device, so that it never waits for the host. Their results arrive later, in order;
// `at` is where the run stands after the last iteration whose result is known. Whatever needs all results (a save, an
// evaluation, the end, a change of the batch size) waits for them first. All ranks take results at the same points, so
// an iteration that ends the run ends it on every rank.
#include "train/trainer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/interrupt.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/phase.h"
#include "optim/schedule.h"
#include "plan/setup.h"
#include "recovery/rewind.h"
#include "recovery/time_limits.h"
#include "recovery/run_folders.h"
#include "report/report.h"
#include "train/state.h"
#include "train/datasets.h"
#include "train/evaluate.h"
#include "train/step_sources.h"
#include "train/identity.h"
#include "train/meter.h"
#include "train/run_end.h"
#include "train/generate.h"
#include "train/saver.h"
#include "train/tracing.h"
#include "train/watchers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct trainer {
    struct config *config;
    const struct mesh *mesh;
    int local_rank;
    const struct trainer_options *options;
    struct device *device;
    struct text_data texts;
    struct tokenizer *tokenizer;
    struct step *step;
    struct datasets datasets;
    struct loader *loaders[DATASETS_MOST];
    struct report *report;
    struct watching watching;
    struct progress_state at;  // after the last iteration whose result is known
    int64_t batch_size;        // of the iteration queued last; all pending iterations have the same
    double last_result;        // when the last result came in, or when the first iteration after a pause was queued
    struct recovery recovery;
    struct checkpoint_past past;  // of `at`
    struct replay_check replay;
    struct meter meter;
    struct tracing tracing;
    struct save_folder save_folder;
    struct identity identity;  // of the first rank
    struct kept_files kept;
    struct saver saver;
    struct memory_checkpoint memory;
    struct sampler *sampler;  // NULL without --sample-interval
    struct evaluate_tasks tasks;
    struct trainer_job job;
    struct stop_time stop_time;
    struct watchdog_work work;
    struct first_iteration first;
    struct ending ending;
};

// Loaders that begin where the run stands; those that are open are closed.
static int start_loaders(struct trainer *trainer) {
    const int64_t consumed[SPLIT_COUNT] = {trainer->at.consumed_train_samples, trainer->at.consumed_valid_samples, 0};
    for (int set = 0; set < trainer->datasets.count; set++) {
        loader_close(trainer->loaders[set]);
        trainer->loaders[set] = NULL;
        if (trainer->datasets.sources[set].count > 0)
            TRY(datasets_loader(&trainer->loaders[set], &trainer->datasets, set, trainer->config, trainer->mesh,
                                consumed[trainer->datasets.sets[set].split]));
    }
    return 0;
}

static int open_loaders(struct trainer *trainer) {
    IN_PHASE("opening the data and building its sample index");
    TRY(datasets_open(&trainer->datasets,
                      &(struct datasets_options){.config = trainer->config,
                                                 .mesh = trainer->mesh,
                                                 .local_rank = trainer->local_rank,
                                                 .tokenizer = trainer->tokenizer,
                                                 .texts = &trainer->texts,
                                                 .iteration = trainer->at.iteration,
                                                 .consumed_train_samples = trainer->at.consumed_train_samples,
                                                 .consumed_valid_samples = trainer->at.consumed_valid_samples}));
    return start_loaders(trainer);
}

// Opens the run's inputs and outputs, and chooses the flags that were not given.
static int open_files(struct trainer *trainer) {
    struct config *config = trainer->config;
    setup_log_ranks(config, trainer->mesh);
    TRY(save_folder_open(&trainer->save_folder, config, trainer->mesh));
    // The file is now known to be this run's.
    trainer->watching.farewell.metrics_path = config->watch.metrics_file;
    TRY(text_data_open(&trainer->texts, &(struct text_data_options){.config = config,
                                                                    .mesh = trainer->mesh,
                                                                    .local_rank = trainer->local_rank,
                                                                    .user_cache = trainer->options->user_cache}));
    TRY(datasets_open_tokenizer(&trainer->tokenizer, config));
    if (!config->run.skip_train)
        identity_take(&trainer->identity, &(struct identity_sources){.config = config,
                                                                     .mesh = trainer->mesh,
                                                                     .texts = &trainer->texts,
                                                                     .tokenizer = trainer->tokenizer});
    if (config->run.save && !config->run.skip_train && trainer->mesh->rank == 0)
        kept_files_open(&trainer->kept, config, &trainer->identity);
    const struct automatic_run run = {trainer->options->open, config, trainer->device, trainer->mesh, &trainer->texts};
    TRY(automatic_settle(&run, trainer->options->dumps_arguments));
    return validation_set_settle(config, &trainer->texts, trainer->mesh);
}

// The step, with the weights that the run begins or continues with, and what saves them.
static int open_step(struct trainer *trainer) {
    struct config *config = trainer->config;
    struct phase *phase = phase_begin("planning the run");
    planned_make(trainer->options->planner, config, trainer->device, trainer->mesh, &trainer->watching.planned);
    phase_end(phase);
    log_info("> learning rate decay style: %s", config->run.lr_decay_style);
    phase = phase_begin("preparing the model and its memory");
    int status = setup_step(&trainer->step, &(struct setup){config, trainer->device, trainer->mesh, STEP_TRAIN});
    phase_end(phase);
    TRY(status);
    setup_log(trainer->step, config);
    TRY(interrupt_check());
    trainer->at.past = &trainer->past;
    TRY(memory_checkpoint_open(&trainer->memory,
                               &(struct memory_checkpoint_options){.config = config,
                                                                   .step = trainer->step,
                                                                   .identity = &trainer->identity.json,
                                                                   .latest_on_disk = find_checkpoint_latest,
                                                                   .path = trainer->options->memory_path}));
    TRY(beginning_set_weights(&(struct beginning_options){trainer->step, config, &trainer->identity, &trainer->memory},
                              &trainer->at));
    TRY(interrupt_check());
    TRY(evaluate_tasks_open(&trainer->tasks, config, trainer->tokenizer, trainer->step));
    if (!config->run.skip_train)
        TRY(sampler_open(&trainer->sampler, &(struct sampler_options){.config = config,
                                                                      .device = trainer->device,
                                                                      .mesh = trainer->mesh,
                                                                      .tokenizer = trainer->tokenizer,
                                                                      .step = trainer->step}));
    trainer->saver = (struct saver){.config = config,
                                    .mesh = trainer->mesh,
                                    .step = trainer->step,
                                    .kept = &trainer->kept.files,
                                    .place = &trainer->save_folder,
                                    .loads_copy = trainer->options->loads_copy,
                                    .iteration = -1,
                                    .kept_iteration = trainer->at.iteration};
    if (config->run.save && !config->run.skip_train && !state_is_done(config, &trainer->at))
        return saver_check(&trainer->saver, &trainer->at, trainer->memory.is_resumed);
    return 0;
}

// Opens the parts that report on iterations or react to them.
static int open_watching(struct trainer *trainer) {
    const struct config *config = trainer->config;
    TRY(watching_open_report(&trainer->watching, trainer->step, trainer->at.iteration, &trainer->report));
    trainer->ending.report = trainer->saver.report = trainer->tasks.report = trainer->report;
    trainer->tasks.ending = &trainer->ending;
    trainer->meter = (struct meter){.config = config,
                                    .census = census_take(config),
                                    .mesh = trainer->mesh,
                                    .step = trainer->step,
                                    .report = trainer->report,
                                    .planned = &trainer->watching.planned,
                                    .first_iteration = trainer->at.iteration + 1};
    meter_open(&trainer->meter);
    trainer->recovery = (struct recovery){.config = config,
                                          .mesh = trainer->mesh,
                                          .report = trainer->report,
                                          .past = &trainer->past,
                                          .begins_at_zero = trainer->at.iteration == 0};
    TRY(recovery_open(&trainer->recovery, trainer->device->ops->is_host_memory));
    tracing_open(&trainer->tracing, &(struct tracing_options){config, trainer->mesh, trainer->step, trainer->report,
                                                              trainer->watching.planned});
    trainer->stop_time =
        (struct stop_time){.limit_seconds = trainer->job.kill_wait_seconds, .job = trainer->job.number};
    return 0;
}

// A signal ends this with EXIT_CODE_STOPPED: what has been created is removed, and the run is left as it was.
static int set_up(struct trainer *trainer) {
    TRY(open_files(trainer));
    TRY(open_step(trainer));
    TRY(open_loaders(trainer));
    TRY(open_watching(trainer));
    return saver_start_copies(&trainer->saver);
}

// Micro-batches of one rank in an iteration.
static int64_t count_micro_batches(const struct config *config, int64_t batch_size) {
    return batch_size / (config->run.micro_batch_size * config->machine.data_parallel_size);
}

// Reports the loss over --eval-iters global batches of a set, unless the evaluation is cut short.
static int evaluate_set(struct trainer *trainer, int set, bool is_final, bool *is_cut) {
    struct metrics_eval eval = {.iteration = trainer->at.iteration,
                                .consumed_samples = trainer->at.consumed_train_samples,
                                .set = trainer->datasets.sets[set].text,
                                .is_final = is_final};
    const struct evaluate_batches batches = {
        .step = trainer->step, .loader = trainer->loaders[set], .config = trainer->config, .ending = &trainer->ending};
    double started = clock_seconds();
    TRY(evaluate_batches(&batches, &trainer->meter, &eval, is_cut));
    tracing_phase(&trainer->tracing, "evaluate", started);
    if (!*is_cut)
        report_eval(trainer->report, &eval);
    if (!*is_cut && set == SPLIT_VALID)
        saver_judge(&trainer->saver, eval.iteration, eval.losses[0].value);
    return 0;
}

// All sets of a split, one after another, up to a signal; the caller checks for it next.
static int evaluate(struct trainer *trainer, enum split split, bool is_final) {
    const struct config *config = trainer->config;
    if (!trainer->loaders[split] || config->run.eval_iters == 0)
        return 0;
    if (is_final)
        log_info("Evaluating on %" PRId64 " samples", config->run.eval_iters * config_eval_batch_size(config));
    // Counted in full even if it is cut short, so that evaluations after a resume see the samples they would have seen.
    // Every set gives as many.
    if (split == SPLIT_VALID)
        trainer->at.consumed_valid_samples += config->run.eval_iters * config_eval_batch_size(config);
    ending_answer(&trainer->ending, "ending the evaluation at iteration ", trainer->at.iteration);
    bool is_cut = false;
    for (int set = 0; set < trainer->datasets.count && !is_cut; set++)
        if (trainer->datasets.sets[set].split == split && trainer->loaders[set])
            TRY(evaluate_set(trainer, set, is_final, &is_cut));
    return 0;
}

// Waits for the result of the oldest pending iteration and accounts for it.
static int finish_iteration(struct trainer *trainer) {
    struct tracing_times times = {.started = trainer->last_result, .awaited = clock_seconds()};
    struct meter_reading reading = {.result = step_take_result(trainer->step), .batch_size = trainer->batch_size};
    first_iteration_end(&trainer->first);
    times.ended = trainer->last_result = clock_seconds();
    reading.seconds = times.ended - times.started;
    trainer->at.iteration++;
    trainer->at.consumed_train_samples += reading.batch_size;
    lifeline_iteration(trainer->at.iteration);
    atomic_store(&trainer->watching.farewell.iteration, trainer->at.iteration);
    trainer->at.flops_so_far += census_flops(&trainer->meter.census, trainer->config, reading.batch_size);
    if (isfinite(reading.result.grad_norm))
        trainer->at.schedule_samples += reading.batch_size;
    TRY(recovery_judge(&trainer->recovery, &reading.result, trainer->at.iteration));
    reading.at = trainer->at;
    meter_add(&trainer->meter, &reading);
    tracing_end(&trainer->tracing, trainer->at.iteration, times);
    // A signal that comes now waits for the iterations that are queued, too.
    if (trainer->config->run.save)
        stop_time_measure(&trainer->stop_time, reading.seconds * (1 + step_lookahead(trainer->step)),
                          trainer->saver.seconds);
    return 0;
}

// Waits until no more than `most` iterations are pending, or until one of them asks to go back.
static int finish_iterations(struct trainer *trainer, int most) {
    while (step_pending(trainer->step) > most && !trainer->recovery.is_due)
        TRY(finish_iteration(trainer));
    return 0;
}

// The run's progress after all pending iterations, if none of them is skipped.
static struct progress_state look_ahead(const struct trainer *trainer) {
    struct progress_state ahead = trainer->at;
    int pending = step_pending(trainer->step);
    ahead.iteration += pending;
    ahead.consumed_train_samples += pending * trainer->batch_size;
    ahead.schedule_samples += pending * trainer->batch_size;
    return ahead;
}

static bool is_multiple(int64_t iteration, int64_t interval) {
    return interval > 0 && iteration % interval == 0;
}

static int queue_iteration(struct trainer *trainer) {
    const struct config *config = trainer->config;
    struct progress_state ahead = look_ahead(trainer);
    int pending = step_pending(trainer->step);
    fault_set_iteration(ahead.iteration + 1);
    (void)fault_at(FAULT_AT_STEP);
    tracing_begin(&trainer->tracing, ahead.iteration + 1, pending);
    if (pending == 0)
        trainer->last_result = clock_seconds();
    trainer->batch_size = config_global_batch_size(config, ahead.consumed_train_samples);
    // A skipped step does not advance the schedules, and how many of the pending ones are skipped is not known yet.
    struct pace paces[STEP_MOST_AHEAD + 1];
    for (int skipped = 0; skipped <= pending; skipped++) {
        int64_t samples = ahead.schedule_samples - skipped * trainer->batch_size;
        paces[skipped] = (struct pace){.lr = schedule_lr(config, samples),
                                       .weight_decay = schedule_weight_decay(config, samples),
                                       .decoupled_lr = schedule_decoupled_lr(config, samples)};
    }
    ending_answer(&trainer->ending, "finishing iteration ", ahead.iteration + 1);
    int64_t micro_batches = count_micro_batches(config, trainer->batch_size);
    struct step_source source = datasets_source(trainer->loaders[SPLIT_TRAIN], micro_batches);
    source = ending_source(&trainer->ending, first_iteration_count(&trainer->first, source));
    if (!is_multiple(ahead.iteration + 1, config->watch.replay_check))
        return step_train_paced(trainer->step, &source, paces);
    struct kept_batches kept;
    const struct step_source first = kept_batches_first(&kept, source), again = kept_batches_again(&kept);
    int status = step_train_twice(trainer->step, &first, &again, paces);
    kept_batches_free(&kept);
    if (status < 0 && error_exit_code() == EXIT_CODE_CORRUPT)
        error_context("iteration %" PRId64, ahead.iteration + 1);
    return status;
}

// Reads the batch of the next iteration and drops it. None may be pending.
static int skip_iteration(struct trainer *trainer) {
    const struct config *config = trainer->config;
    trainer->batch_size = config_global_batch_size(config, trainer->at.consumed_train_samples);
    int64_t micro_batches = count_micro_batches(config, trainer->batch_size);
    struct step_source source = datasets_source(trainer->loaders[SPLIT_TRAIN], micro_batches);
    struct batch dropped;
    for (int64_t i = 0; i < micro_batches; i++)
        TRY(source.next(source.context, &dropped));
    trainer->at.iteration++;
    trainer->at.consumed_train_samples += trainer->batch_size;
    trainer->at.skipped_train_samples += trainer->batch_size;
    lifeline_iteration(trainer->at.iteration);
    if (!skips_have(&trainer->past, trainer->at.iteration - 1))
        log_info("skipping iterations %" PRId64 " to %" PRId64 ": their batches are not trained on",
                 trainer->at.iteration, skips_last(&trainer->past, trainer->at.iteration));
    return 0;
}

static int load_earlier(void *context, const char *path) {
    struct trainer *trainer = context;
    const struct beginning_options now = {trainer->step, trainer->config, &trainer->identity, &trainer->memory};
    return beginning_load_earlier(&now, &trainer->at, path);
}

// Continues from an earlier iteration, see rewind.h. What is pending was computed from weights that are given up.
static int go_back(struct trainer *trainer) {
    while (step_pending(trainer->step) > 0)
        (void)step_take_result(trainer->step);
    TRY(saver_wait(&trainer->saver));
    meter_finish(&trainer->meter);
    // The checkpoint in memory is later than the iteration to which the run returns.
    memory_checkpoint_forget(&trainer->memory);
    struct watchdog_work work;
    limits_load_begin(&work, trainer->mesh->all);
    int status = recovery_go_back(&trainer->recovery, load_earlier, trainer);
    if (status == 0)
        status = start_loaders(trainer);
    limits_load_end(&work, trainer->mesh->all, status);
    TRY(status);
    trainer->batch_size = 0;
    meter_forget(&trainer->meter);
    trainer->meter.first_iteration = trainer->at.iteration + 1;
    atomic_store(&trainer->watching.farewell.iteration, trainer->at.iteration);
    return saver_go_back(&trainer->saver, &trainer->at, trainer->recovery.from);
}

// No checkpoint is made of rows that do not belong together. `way` is a function of the saver.
static int save(struct trainer *trainer, int (*way)(struct saver *saver, struct progress_state *at)) {
    if (trainer->config->run.save && trainer->loaders[SPLIT_TRAIN])
        TRY(same_data_check_rows(trainer->mesh, loader_digest(trainer->loaders[SPLIT_TRAIN])));
    if (trainer->config->run.save && trainer->mesh->rank == 0)
        interrupt_answer("finishing the checkpoint of iteration ", trainer->at.iteration, "", "quit without it");
    double started = clock_seconds();
    int64_t before = trainer->saver.iteration;
    TRY(way(&trainer->saver, &trainer->at));
    ending_saved(&trainer->ending, trainer->saver.seconds);
    if (trainer->saver.iteration != before)
        tracing_phase(&trainer->tracing, "save-checkpoint", started);
    return 0;
}

// Saves before the batch size grows, as Megatron does: it is a good point to come back to.
static int follow_ramp_up(struct trainer *trainer) {
    int64_t before = trainer->batch_size;
    int64_t next = config_global_batch_size(trainer->config, look_ahead(trainer).consumed_train_samples);
    if (before == next || before == 0)
        return 0;
    log_info("ramping up batch size from %" PRId64 " to %" PRId64, before, next);
    return save(trainer, saver_save);
}

// Whether what comes after the iteration queued last depends on its result.
static bool needs_results(const struct trainer *trainer) {
    const struct config *config = trainer->config;
    struct progress_state ahead = look_ahead(trainer);
    int64_t at = ahead.iteration;
    return state_is_done(config, &ahead) || is_multiple(at, config->watch.check_replicas) ||
           is_multiple(at, config->run.eval_interval) || is_multiple(at, trainer->tasks.interval) ||
           is_multiple(at, config->run.save_interval) || memory_checkpoint_is_due(&trainer->memory, at) ||
           is_multiple(at, config->run.exit_interval) || replay_check_is_due(&trainer->replay, at) ||
           is_multiple(at, config->watch.sample_interval) || meter_needs_weights(&trainer->meter, at) ||
           tracing_needs_results(&trainer->tracing, at) ||
           config_global_batch_size(config, ahead.consumed_train_samples) != trainer->batch_size;
}

static int check_replicas(struct trainer *trainer) {
    IN_PHASE("comparing the replicas");
    return step_check_replicas(trainer->step);
}

// Does what is due at this iteration by one of the intervals. All results must be known.
static int follow_intervals(struct trainer *trainer) {
    const struct config *config = trainer->config;
    int64_t at = trainer->at.iteration;
    TRY(replay_check_end(&trainer->replay, &trainer->recovery, trainer->step, at));
    if (is_multiple(at, config->watch.check_replicas))
        TRY(check_replicas(trainer));
    if (is_multiple(at, config->run.eval_interval))
        TRY(evaluate(trainer, SPLIT_VALID, false));
    TRY(evaluate_tasks(&trainer->tasks, at, trainer->at.consumed_train_samples));
    if (is_multiple(at, config->watch.sample_interval)) {
        ending_answer(&trainer->ending, "finishing the samples of iteration ", at);
        sampler_run(trainer->sampler, at, trainer->report);
    }
    bool is_asked = is_multiple(at, config->run.save_interval) || trainer->ending.is_save_asked;
    if (is_asked || trainer->ending.is_save_due || trainer->saver.better.iteration == at)
        TRY(save(trainer, is_asked ? saver_save : saver_save_passing));
    ending_save_done(&trainer->ending);
    if (memory_checkpoint_is_due(&trainer->memory, at))
        memory_checkpoint_save(&trainer->memory, &trainer->at);
    return 0;
}

// Handles the status of a call that may have compared the replicas: if they differ, the run may go back.
static int take_status(struct trainer *trainer, int status) {
    return replay_check_begin(&trainer->replay, &trainer->recovery, trainer->step, trainer->at.iteration, status);
}

// Called when an iteration could not be queued: those queued before it still get their log lines. Returns -1 with the
// error that was set.
static int report_the_rest(struct trainer *trainer) {
    struct error_note *note = error_take();
    if (finish_iterations(trainer, 0) < 0)
        error_clear();
    return error_give(note);
}

static int run_iterations(struct trainer *trainer, enum ending_kind *ending) {
    const struct config *config = trainer->config;
    // One that came too late to cut the start short; there is nothing new to save. The time limit waits for a step.
    int64_t early = ending_reason(&trainer->ending);
    *ending = early > 0 ? ending_find(&trainer->ending, trainer->at.iteration, early) : GO_ON;
    if (early > 0 && !trainer->memory.is_resumed)
        trainer->saver.iteration = trainer->at.iteration;
    int64_t samples = config_global_batch_size(config, trainer->at.consumed_train_samples);
    first_iteration_begin(&trainer->first, count_micro_batches(config, samples), config->watch.timing_log_level > 0);
    while (!state_is_done(config, &trainer->at) && *ending == GO_ON) {
        bool is_skipped = skips_have(&trainer->past, look_ahead(trainer).iteration + 1);
        TRY(take_status(trainer, follow_ramp_up(trainer)));
        if (trainer->recovery.is_due) {
            TRY(go_back(trainer));
            continue;
        }
        if (!is_skipped && queue_iteration(trainer) < 0)
            return report_the_rest(trainer);
        bool saves_again = saver_retry_is_due(&trainer->saver);
        bool knows_all = ending_wants_save(&trainer->ending) || is_skipped || needs_results(trainer) || saves_again;
        TRY(finish_iterations(trainer, knows_all ? 0 : step_lookahead(trainer->step)));
        if (trainer->recovery.is_due) {
            TRY(go_back(trainer));
            continue;
        }
        if (is_skipped)
            TRY(skip_iteration(trainer));
        TRY(saver_advance(&trainer->saver, trainer->at.iteration));
        if (knows_all)
            TRY(take_status(trainer, follow_intervals(trainer)));
        if (saves_again && !trainer->recovery.is_due)
            TRY(take_status(trainer, save(trainer, saver_retry)));
        int64_t reason = ending_reason(&trainer->ending);
        if (reason)
            TRY(finish_iterations(trainer, 0));
        bool goes_back = trainer->recovery.is_due;
        if (goes_back)
            TRY(go_back(trainer));
        if (reason || (knows_all && !goes_back))
            *ending = ending_find(&trainer->ending, trainer->at.iteration, reason);
    }
    return 0;
}

// *is_over unless the last save has found replicas that differ, and the run has gone back for it.
static int run_to_last_save(struct trainer *trainer, enum ending_kind *ending, bool *is_over) {
    int status = run_iterations(trainer, ending);
    meter_finish(&trainer->meter);
    TRY(status);
    ending_print(&trainer->ending, "after training is done");
    TRY(take_status(trainer, save(trainer, saver_save_last)));
    *is_over = !trainer->recovery.is_due;
    return *is_over ? 0 : go_back(trainer);
}

static int run_training(struct trainer *trainer, enum exit_code *exit_code) {
    enum ending_kind ending = GO_ON;
    if (!trainer->config->run.skip_train) {
        state_describe_rest(trainer->config, &trainer->at);
        if (!trainer->memory.is_resumed)
            saver_leave_done(&trainer->saver, &trainer->at);
        ending_print(&trainer->ending, "before the start of training step");
        ending_saved(&trainer->ending, 0);
        bool is_over = false;
        while (!is_over)
            TRY(run_to_last_save(trainer, &ending, &is_over));
    }
    if (ending == GO_ON) {
        TRY(evaluate(trainer, SPLIT_VALID, true));
        TRY(evaluate(trainer, SPLIT_TEST, true));
        int64_t reason = ending_reason(&trainer->ending);
        if (reason)
            ending = ending_find(&trainer->ending, trainer->at.iteration, reason);
    }
    *exit_code = ending == END_STOPPED ? ending_code(&trainer->ending) : EXIT_CODE_OK;
    // A run that was stopped asks to be run again, and copies what is missing then.
    int status = saver_finish_copies(&trainer->saver);
    if (status < 0 && *exit_code != EXIT_CODE_OK) {
        if (trainer->mesh->rank == 0)
            log_warn("%s", error_message());
        error_clear();
        return 0;
    }
    return status;
}

int trainer_run(const struct trainer_options *options, enum exit_code *exit_code) {
    struct trainer trainer = {.config = options->config,
                              .mesh = options->mesh,
                              .local_rank = options->local_rank,
                              .options = options,
                              .device = options->device,
                              .job = options->job,
                              .ending = {.config = options->config, .mesh = options->mesh, .started = clock_seconds()}};
    watching_begin(&trainer.watching, options->config, options->mesh, options->job);
    limits_open(&trainer.work, options->config, options->mesh->rank);
    if (options->mesh->rank == 0)
        interrupt_answer("stopping before the first iteration", -1, "", "quit at once");
    // Ranks load weights and read data at their own pace. A rank that fails ends the job, so this needs no end there.
    comm_patience_begin(options->mesh->all, "opening the checkpoint and the data");
    int status = set_up(&trainer);
    interrupt_defer();
    if (status < 0)
        interrupt_answer(NULL, -1, "", "");  // mpirun ends the others and this one; the error is the last word
    if (status == 0)
        comm_patience_end(options->mesh->all);
    limits_train(&trainer.work);
    if (status == 0)
        status = run_training(&trainer, exit_code);
    first_iteration_end(&trainer.first);
    tracing_close(&trainer.tracing, status < 0);
    if (status < 0) {
        saver_abandon(&trainer.saver);
        // The checkpoint in memory may contain the fault too.
        if (error_exit_code() == EXIT_CODE_CORRUPT)
            memory_checkpoint_forget(&trainer.memory);
        run_folders_point_to_verified(options->config, options->mesh);
    }
    limits_close(&trainer.work);
    if (status == 0 && options->plot && trainer.report)
        report_plot_loss(trainer.report, stdout);
    if (status < 0)
        watching_tell_failure(&trainer.watching);
    else
        watching_tell_end(&trainer.watching, trainer.at.iteration, trainer.ending.text, *exit_code);
    watching_end(&trainer.watching, status < 0);
    save_folder_close(&trainer.save_folder);
    // Closing would wait for the device, which may be waiting for a message that no rank will send any more.
    if (status < 0 && options->mesh->size > 1)
        return -1;
    for (int set = 0; set < trainer.datasets.count; set++)
        loader_close(trainer.loaders[set]);
    datasets_close(&trainer.datasets);
    memory_checkpoint_close(&trainer.memory);
    sampler_close(trainer.sampler);
    tasks_close(trainer.tasks.tasks);
    step_close(trainer.step);
    tokenizer_free(trainer.tokenizer);
    text_data_close(&trainer.texts);
    kept_files_close(&trainer.kept);
    identity_free(&trainer.identity);
    meter_close(&trainer.meter);
    return status;
}
