// Metrics of iterations and of intervals of them. See meter.h.
#include "train/meter.h"

#include "base/clock.h"
#include "base/host_limits.h"
#include "base/memory.h"
#include "optim/schedule.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct meter_usage usage_now(const struct meter *meter) {
    return (struct meter_usage){
        .at = clock_seconds(), .ran = clock_process_seconds(), .waited_for_data = step_data_seconds(meter->step)};
}

void meter_open(struct meter *meter) {
    const struct config *config = meter->config;
    expert_balance_open(&meter->experts, config);
    meter->interval.began = usage_now(meter);
    for (int64_t i = 0; i < config->run.retriever_report_topk_accuracies.count; i++)
        snprintf(meter->top_names[i], sizeof meter->top_names[i], "top%" PRId64 "_acc", config_top(config, i));
}

void meter_close(struct meter *meter) {
    expert_balance_close(&meter->experts);
}

void meter_forget(struct meter *meter) {
    meter->interval = (struct meter_interval){.began = usage_now(meter)};
    expert_balance_clear(&meter->experts);
}

int meter_list_losses(const struct meter *meter, const struct step_result *result,
                      struct metrics_loss losses[METRICS_MAX_LOSSES]) {
    bool is_ict = meter->config->model.form == CONFIG_ICT;
    int count = 0;
    losses[count++] = (struct metrics_loss){.name = is_ict ? "loss" : "lm loss", .value = result->loss};
    if (result->pairs > 0)
        losses[count++] = (struct metrics_loss){.name = "sop loss", .value = result->pair_loss};
    static const char *const balance[] = {[BALANCE_BATCH] = "load_balancing_loss",
                                          [BALANCE_SEQUENCE] = "seq_load_balancing_loss",
                                          [BALANCE_GLOBAL] = "global_load_balancing_loss",
                                          [BALANCE_Z] = "z_loss"};
    for (int i = 0; i < BALANCE_COUNT; i++)
        if (result->has_balance[i])
            losses[count++] = (struct metrics_loss){.name = balance[i], .value = result->balance[i]};
    static const char *const depths[CONFIG_MOST_DEPTHS] = {"mtp_1 loss", "mtp_2 loss", "mtp_3 loss", "mtp_4 loss",
                                                           "mtp_5 loss", "mtp_6 loss", "mtp_7 loss", "mtp_8 loss"};
    for (int i = 0; i < result->depths; i++)
        losses[count++] = (struct metrics_loss){.name = depths[i], .value = result->depth_losses[i]};
    for (int i = 0; i < result->tops; i++)
        losses[count++] =
            (struct metrics_loss){.name = meter->top_names[i], .value = 100 * result->accuracies[i], .is_share = true};
    return count;
}

int64_t meter_tokens_per_sample(const struct config *config) {
    int64_t second = config->model.form == CONFIG_T5    ? config->run.decoder_seq_length
                     : config->model.form == CONFIG_ICT ? config->run.seq_length
                                                        : 0;
    return config->run.seq_length + second;
}

// The tokens that the speed counts. In masked-word training few tokens count for the loss, but all are computed.
static double count_tokens(const struct config *config, const struct meter_reading *reading) {
    if (config->model.form == CONFIG_GPT)
        return reading->result.tokens;
    return (double)(reading->batch_size * meter_tokens_per_sample(config));
}

// In TFLOP/s of one device, for a step that took `seconds`.
static double device_teraflops(const struct meter *meter, int64_t batch_size, double seconds) {
    return census_flops(&meter->census, meter->config, batch_size) / (seconds * 1e12 * meter->mesh->size);
}

static double planned_speed(const struct meter *meter, int64_t batch_size) {
    const struct planned *planned = meter->planned;
    bool is_planned = planned && planned->seconds > 0 && batch_size == meter->config->run.global_batch_size;
    return is_planned ? planned->tokens / planned->seconds : 0;
}

static struct metrics make_metrics(const struct meter *meter, const struct meter_reading *reading) {
    const struct config *config = meter->config;
    const struct step_result *result = &reading->result;
    struct metrics metrics = {.wall_seconds = clock_wall_seconds(),
                              .iteration = reading->at.iteration,
                              .train_iters = config->run.train_iters,
                              .consumed_samples = reading->at.consumed_train_samples,
                              .elapsed_ms = reading->seconds * 1e3,
                              .tokens_per_second = count_tokens(config, reading) / reading->seconds,
                              .teraflops = device_teraflops(meter, reading->batch_size, reading->seconds),
                              .planned_tokens_per_second = planned_speed(meter, reading->batch_size),
                              .learning_rate = schedule_lr(config, reading->at.schedule_samples),
                              .decoupled_learning_rate = schedule_decoupled_lr(config, reading->at.schedule_samples),
                              .has_decoupled = config->run.decoupled_lr > 0,
                              .global_batch_size = reading->batch_size,
                              .loss_scale = result->loss_scale,
                              .grad_norm = result->grad_norm,
                              .is_skipped = !isfinite(result->grad_norm),
                              .has_throughput = config->watch.log_throughput,
                              .has_grad_norm = isfinite(result->grad_norm)};
    metrics.loss_count = meter_list_losses(meter, result, metrics.losses);
    return metrics;
}

static void add_weight_metrics(const struct meter *meter, struct metrics *metrics) {
    const struct config *config = meter->config;
    // The zeros come first: the norm overwrites the gradients.
    metrics->has_num_zeros = config->watch.log_num_zeros_in_grad;
    if (config->watch.log_num_zeros_in_grad)
        metrics->num_zeros = (double)step_count_zero_gradients(meter->step);
    metrics->has_params_norm = config->watch.log_params_norm;
    if (config->watch.log_params_norm)
        metrics->params_norm = step_params_norm(meter->step);
}

static double thousandths(double value) {
    return round(value * 1e3) / 1e3;
}

static void add_system(const struct meter *meter, struct metrics *metrics) {
    const struct meter_interval *interval = &meter->interval;
    struct meter_usage now = usage_now(meter), began = interval->began;
    if (now.at <= began.at)
        return;
    metrics->has_system = true;
    metrics->processors = thousandths((now.ran - began.ran) / (now.at - began.at));
    metrics->data_wait_ms =
        thousandths((now.waited_for_data - began.waited_for_data) * 1e3 / (double)interval->iterations);
    if (!step_device(meter->step)->ops->is_host_memory)
        metrics->host_memory_bytes = (int64_t)host_memory_resident();
}

// Replaces the last iteration's values in `metrics` by those of the interval.
static void take_interval(struct meter *meter, struct metrics *metrics) {
    const struct meter_interval *interval = &meter->interval;
    double mean_seconds = interval->seconds / (double)interval->iterations;
    bool has_loss = interval->good > 0;
    metrics->elapsed_ms = mean_seconds * 1e3;
    metrics->tokens_per_second = interval->tokens / interval->seconds;
    metrics->teraflops = device_teraflops(meter, metrics->global_batch_size, mean_seconds);
    for (int i = 0; i < METRICS_MAX_LOSSES; i++)
        metrics->losses[i].value = has_loss ? interval->losses[i] / (double)interval->good : NAN;
    metrics->loss_count = has_loss ? metrics->loss_count : 0;
    metrics->skipped_iterations = interval->skipped;
    metrics->nan_iterations = interval->nan;
    expert_balance_tell(&meter->experts, NULL, metrics);
    add_system(meter, metrics);
}

// Peak memory over ranks: the step's memory on a device with its own memory, else the process's memory.
static int64_t most_memory(const struct meter *meter) {
    const struct step_memory *memory = step_memory(meter->step);
    bool is_host = step_device(meter->step)->ops->is_host_memory;
    int64_t bytes = (int64_t)(is_host ? host_memory_resident() : memory->total + memory->device_own);
    comm_max_i64(meter->mesh->all, &bytes, 1, "memory in use");
    return bytes;
}

static void add_to_interval(struct meter *meter, const struct meter_reading *reading) {
    struct meter_interval *interval = &meter->interval;
    const struct step_result *result = &reading->result;
    interval->iterations++;
    interval->seconds += reading->seconds;
    interval->tokens += count_tokens(meter->config, reading);
    interval->skipped += !isfinite(result->grad_norm);
    interval->nan += !isfinite(result->loss);
    if (!step_result_is_good(result))
        return;
    interval->good++;
    expert_balance_add(&meter->experts, result->expert_counts);
    struct metrics_loss losses[METRICS_MAX_LOSSES];
    for (int i = 0, count = meter_list_losses(meter, result, losses); i < count; i++)
        interval->losses[i] += losses[i].value;
}

static bool has_log_line(const struct meter *meter, int64_t iteration) {
    return iteration % meter->config->watch.log_interval == 0 || iteration == meter->first_iteration;
}

bool meter_needs_weights(const struct meter *meter, int64_t iteration) {
    const struct config *config = meter->config;
    bool has_events = config->watch.tensorboard_dir && iteration % config->watch.tensorboard_log_interval == 0;
    return (config->watch.log_params_norm || config->watch.log_num_zeros_in_grad) &&
           (has_events || has_log_line(meter, iteration));
}

void meter_add(struct meter *meter, const struct meter_reading *reading) {
    int64_t iteration = reading->at.iteration;
    add_to_interval(meter, reading);
    struct metrics metrics = make_metrics(meter, reading);
    if (reading->result.expert_counts)
        expert_balance_tell(&meter->experts, reading->result.expert_counts, &metrics);
    if (meter_needs_weights(meter, iteration))
        add_weight_metrics(meter, &metrics);
    report_step(meter->report, &metrics);
    meter->rest = metrics;
    meter->has_rest = !has_log_line(meter, iteration);
    if (meter->has_rest)
        return;
    take_interval(meter, &metrics);
    metrics.memory_bytes = most_memory(meter);
    report_interval(meter->report, &metrics);
    // The line of the first iteration is an extra one: its numbers also count for the interval it belongs to.
    if (iteration % meter->config->watch.log_interval == 0)
        meter_forget(meter);
}

// Without this, a run shorter than the log interval would show only its first iteration.
void meter_finish(struct meter *meter) {
    if (!meter->has_rest)
        return;
    take_interval(meter, &meter->rest);
    report_rest(meter->report, &meter->rest);
    meter->has_rest = false;
}

// ---- experts ----

void expert_balance_open(struct expert_balance *balance, const struct config *config) {
    *balance =
        (struct expert_balance){.layers = config_routed_layers(&config->model), .experts = config->model.num_experts};
    if (balance->layers == 0)
        return;
    balance->sums = memory_alloc(sizeof *balance->sums * (size_t)(balance->layers * balance->experts));
    balance->each = memory_alloc(sizeof *balance->each * (size_t)balance->layers);
    int64_t at = 0;
    OWNED bool *has_experts = config_list_expert_layers(&config->model);
    for (int64_t layer = 0; layer < config->model.num_layers; layer++)
        if (has_experts[layer])
            balance->each[at++].layer = layer;
    for (int64_t layer = config->model.num_layers; at < balance->layers; layer++)
        balance->each[at++].layer = layer;
    expert_balance_clear(balance);
}

void expert_balance_close(struct expert_balance *balance) {
    free(balance->sums);
    free(balance->each);
    *balance = (struct expert_balance){0};
}

void expert_balance_add(struct expert_balance *balance, const float *counts) {
    for (int64_t i = 0; counts && i < balance->layers * balance->experts; i++)
        balance->sums[i] += (double)counts[i];
}

void expert_balance_clear(struct expert_balance *balance) {
    for (int64_t i = 0; i < balance->layers * balance->experts; i++)
        balance->sums[i] = 0;
}

// False if no token was counted.
static bool describe(struct metrics_expert_layer *layer, const float *counts, const double *sums, int64_t experts) {
    double most = 0, all = 0;
    layer->idle = 0;
    for (int64_t e = 0; e < experts; e++) {
        double tokens = counts ? (double)counts[e] : sums[e];
        most = tokens > most ? tokens : most;
        all += tokens;
        layer->idle += tokens == 0;
    }
    layer->balance = most * (double)experts / all;
    return all > 0;
}

void expert_balance_tell(struct expert_balance *balance, const float *counts, struct metrics *metrics) {
    double sum = 0;
    int64_t idle = 0;
    metrics->expert_layers = NULL;
    metrics->expert_layer_count = 0;
    for (int64_t i = 0; i < balance->layers; i++) {
        int64_t first = i * balance->experts;
        if (!describe(&balance->each[i], counts ? counts + first : NULL, balance->sums + first, balance->experts))
            return;
        sum += balance->each[i].balance;
        idle += balance->each[i].idle;
    }
    metrics->expert_layers = balance->each;
    metrics->expert_layer_count = (int)balance->layers;
    metrics->expert_balance = balance->layers > 0 ? sum / (double)balance->layers : 0;
    metrics->idle_experts = idle;
}
