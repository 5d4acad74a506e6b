// Evaluation over a whole source. See evaluate.h.
#include "train/evaluate.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/phase.h"
#include "base/progress.h"
#include "data/loader.h"
#include "train/datasets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int fill_text(void *context, int64_t sample, const struct batch *row) {
    const struct token_text *text = context;
    int64_t first = sample * text->stride, T = text->seq_length, seen = sample > 0 ? T - text->stride : 0;
    for (int64_t t = 0; t < T; t++) {
        bool is_there = first + t + 1 < text->count;
        row->tokens[t] = first + t < text->count ? text->ids[first + t] : 0;
        row->labels[t] = is_there ? text->ids[first + t + 1] : 0;
        row->loss_mask[t] = is_there && t >= seen;
        row->positions[t] = (int32_t)t;
    }
    return 0;
}

struct sample_source token_text_source(struct token_text *text) {
    int64_t predicted = text->count - 1, later = predicted - text->seq_length;
    int64_t count = later > 0 ? 1 + (later + text->stride - 1) / text->stride : predicted > 0;
    return (struct sample_source){.context = text,
                                  .name = "text",
                                  .count = count,
                                  .seq_length = text->seq_length,
                                  .form = {.T = text->seq_length, .fields = BATCH_TEXT},
                                  .fill = fill_text};
}

static int sum_losses(const struct evaluate_batches *batches, struct step_result *sum, bool *is_cut) {
    const struct config *config = batches->config;
    int64_t per_step =
        config_eval_batch_size(config) / (config->run.micro_batch_size * config->machine.data_parallel_size);
    struct phase *phase = phase_begin_amount("evaluating", "iterations", (double)config->run.eval_iters);
    int status = 0;
    for (int64_t i = 0; status == 0 && i < config->run.eval_iters; i++) {
        *is_cut = ending_reason(batches->ending);
        if (*is_cut)
            break;
        (void)fault_at(FAULT_AT_EVALUATE);
        struct step_source source = datasets_source(batches->loader, per_step);
        status = step_evaluate(batches->step, &source);
        if (status == 0)
            step_take_losses(batches->step, step_lookahead(batches->step), sum);
        phase_advance(phase, 1);
    }
    if (status == 0)
        step_take_losses(batches->step, 0, sum);
    phase_end(phase);
    return status;
}

int evaluate_batches(const struct evaluate_batches *batches, const struct meter *meter, struct metrics_eval *eval,
                     bool *is_cut) {
    struct step_result sum = {0};
    double started = clock_seconds();
    *is_cut = false;
    if (batches->config->run.eval_with_ema)
        step_exchange_averages(batches->step);
    int status = sum_losses(batches, &sum, is_cut);
    if (batches->config->run.eval_with_ema)
        step_exchange_averages(batches->step);
    eval->wall_seconds = clock_wall_seconds();
    eval->elapsed_ms = (clock_seconds() - started) * 1e3;
    struct step_result mean = step_mean_losses(batches->step, &sum);
    eval->loss_count = meter_list_losses(meter, &mean, eval->losses);
    return status;
}

// All ranks have the same sums.
static int check_finite(const struct step_result *mean, const char *name) {
    bool is_finite = isfinite(mean->loss);
    for (int i = 0; i < mean->depths; i++)
        is_finite = is_finite && isfinite(mean->depth_losses[i]);
    if (is_finite)
        return 0;
    return error_set_code(EXIT_CODE_NOT_FINITE,
                          "the loss on %s is %g: the model's weights have NaN or infinity, or overflow in this "
                          "precision; load an earlier checkpoint",
                          name, mean->loss);
}

int evaluate_run(const struct evaluate *evaluate, struct evaluation *result) {
    struct step *step = evaluate->step;
    struct sample_source source = evaluate->source;
    if (evaluate->max_samples > 0 && evaluate->max_samples < source.count)
        source.count = evaluate->max_samples;
    if (source.count == 0)
        return error_set_code(EXIT_CODE_BAD_DATA, "%s has no samples to evaluate", source.name);
    const struct mesh *mesh = step_mesh(step);
    struct loader_options options = {.source = source,
                                     .micro_batch_size = evaluate->micro_batch_size,
                                     .dp_rank = mesh_index(mesh, mesh->place, MESH_SAMPLES),
                                     .dp_size = mesh_count(mesh, MESH_SAMPLES),
                                     .depth = 2,
                                     .eod = -1,
                                     .pad_last = !(source.form.fields & BATCH_BIT(CONTEXT_TOKENS))};
    struct loader *loader;
    int64_t batches = loader_batch_count(&options);
    if (batches == 0)
        return error_set_code(EXIT_CODE_BAD_DATA,
                              "%s has %" PRId64 " samples, but a batch of all ranks has %" PRId64
                              "; lower --micro-batch-size",
                              source.name, source.count, options.micro_batch_size * options.dp_size);
    TRY(loader_open(&loader, &options));
    struct progress progress;
    progress_begin(&progress, "evaluating", "batches", (double)batches);
    int64_t filled = batches * options.micro_batch_size * options.dp_size;
    *result = (struct evaluation){.samples = filled < source.count ? filled : source.count};
    int status = 0;
    struct step_result sum = {0};
    // Enough micro-batches at once to fill a pipeline.
    int64_t most = step_mesh(step)->length[AXIS_PIPELINE] > 1 ? 4 * step_mesh(step)->length[AXIS_PIPELINE] : 1;
    for (int64_t i = 0, count; i < batches && status == 0; i += count) {
        count = batches - i < most ? batches - i : most;
        struct step_source some = datasets_source(loader, count);
        status = step_evaluate(step, &some);
        if (status < 0)
            break;
        step_take_losses(step, step_lookahead(step), &sum);
        progress_update(&progress, (double)(i + count), NULL);
    }
    progress_end(&progress, NULL);
    step_take_losses(step, 0, &sum);
    result->mean = step_mean_losses(step, &sum);
    loader_close(loader);
    return status < 0 ? -1 : check_finite(&result->mean, source.name);
}

int evaluate_tasks_open(struct evaluate_tasks *scoring, const struct config *config, const struct tokenizer *tokenizer,
                        struct step *step) {
    *scoring = (struct evaluate_tasks){.step = step, .config = config};
    if (!config->watch.eval_tasks || config->run.skip_train)
        return 0;
    scoring->interval = config->watch.eval_tasks_interval;
    if (!tokenizer)
        return error_set_code(EXIT_CODE_USAGE, "--eval-tasks needs the tokenizer: give --tokenizer-type and its files");
    return tasks_open(&scoring->tasks, &(struct tasks_options){.names = config->watch.eval_tasks,
                                                               .folder = config->watch.eval_task_data,
                                                               .file = config->watch.eval_task_file,
                                                               .tokenizer = tokenizer,
                                                               .window = step_window(step),
                                                               .limit = config->watch.eval_tasks_limit,
                                                               .shots = -1});
}

static bool is_task_cut(void *ending) {
    (void)fault_at(FAULT_AT_EVALUATE);
    return ending_reason(ending) != 0;
}

int evaluate_tasks(const struct evaluate_tasks *scoring, int64_t iteration, int64_t consumed_samples) {
    double started = clock_seconds();
    if (scoring->interval == 0 || iteration % scoring->interval != 0)
        return 0;
    ending_answer(scoring->ending, "ending the evaluation at iteration ", iteration);
    if (scoring->config->run.eval_with_ema)
        step_exchange_averages(scoring->step);
    int status =
        tasks_run(scoring->tasks, &(struct tasks_run){.step = scoring->step,
                                                      .micro_batch_size = scoring->config->run.micro_batch_size,
                                                      .is_quiet = true,
                                                      .is_cut = is_task_cut,
                                                      .context = scoring->ending});
    if (scoring->config->run.eval_with_ema)
        step_exchange_averages(scoring->step);
    if (status != 0)
        return status < 0 ? -1 : 0;
    double elapsed_ms = (clock_seconds() - started) * 1e3;
    struct task_score score, next;
    int64_t at = 0;
    for (bool has_more = tasks_next_score(scoring->tasks, &at, false, &score); has_more;) {
        char set[128];
        snprintf(set, sizeof set, "validation %s", score.task);
        struct metrics_eval eval = {.wall_seconds = clock_wall_seconds(),
                                    .iteration = iteration,
                                    .consumed_samples = consumed_samples,
                                    .set = set,
                                    .elapsed_ms = elapsed_ms};
        do {
            eval.losses[eval.loss_count++] = (struct metrics_loss){score.metric, score.value, .is_score = true};
            has_more = tasks_next_score(scoring->tasks, &at, false, &next);
            bool is_same = has_more && strcmp(next.task, score.task) == 0;
            score = next;
            if (!is_same)
                break;
        } while (eval.loss_count < METRICS_MAX_LOSSES);
        report_eval(scoring->report, &eval);
        elapsed_ms = 0;
    }
    return 0;
}
