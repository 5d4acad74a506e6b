// The report of a run and its last words. See watchers.h.
#include "train/watchers.h"

#include "base/buffer.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "model/census.h"
#include "plan/hardware.h"
#include "train/meter.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Seconds that the process waits at its end for the commands of --on-event.
static const double DONE_SECONDS = 10, FAILED_SECONDS = 5;

const char *watching_name(const struct config *config) {
    return config->run.save             ? config->run.save
           : config->watch.metrics_file ? config->watch.metrics_file
                                        : config->watch.tensorboard_dir;
}

void watching_begin(struct watching *watching, const struct config *config, const struct mesh *mesh,
                    struct trainer_job job) {
    *watching = (struct watching){.config = config, .mesh = mesh, .job = job};
    watching->on_event = on_event_open(
        &(struct on_event_options){.command = config->watch.on_event, .run = watching_name(config), .job = job.number});
    watching->farewell = (struct farewell){.on_event = watching->on_event, .rank = mesh->rank, .ranks = mesh->size};
    farewell_open(&watching->farewell);
}

static struct metrics_choice tensorboard_choice(const struct config *config) {
    return (struct metrics_choice){.no_loss_scale = config->watch.no_log_loss_scale_to_tensorboard,
                                   .timers = config->watch.log_timers_to_tensorboard,
                                   .validation_ppl = config->watch.log_validation_ppl_to_tensorboard,
                                   .world_size =
                                       config->watch.log_world_size_to_tensorboard ? config->machine.world_size : 0};
}

static struct wandb_options wandb_options(struct watching *watching) {
    const struct config *config = watching->config;
    // Scripts pass the name of a variable that may be empty.
    if (!config->watch.wandb_project || !*config->watch.wandb_project)
        return (struct wandb_options){0};
    if (!config->watch.wandb_save_dir)
        watching->wandb_folder = file_join(config->run.save ? config->run.save : ".", "wandb");
    return (struct wandb_options){.folder = config->watch.wandb_save_dir ? config->watch.wandb_save_dir
                                                                         : watching->wandb_folder,
                                  .project = config->watch.wandb_project,
                                  .name = config->watch.wandb_exp_name,
                                  .entity = config->watch.wandb_entity};
}

int watching_open_report(struct watching *watching, const struct step *step, int64_t iteration,
                         struct report **report) {
    const struct config *config = watching->config;
    struct device *device = step_device(step);
    bool is_host = device->ops->is_host_memory;
    const struct trainer_job *job = &watching->job;
    if (watching->mesh->rank != 0)
        return 0;
    double tokens = (double)meter_tokens_per_sample(config);
    struct census census = census_take(config);
    TRY(report_open(&watching->report,
                    &(struct report_options){.console = stdout,
                                             .is_fairseq = strcmp(config->watch.log_format, "json") == 0,
                                             .metrics_path = config->watch.metrics_file,
                                             .tensorboard_folder = config->watch.tensorboard_dir,
                                             .tensorboard_interval = config->watch.tensorboard_log_interval,
                                             .tensorboard = tensorboard_choice(config),
                                             .no_live_view = config->watch.no_live_view,
                                             .peak_teraflops = peak_teraflops(device, step_values(step).dtype),
                                             .device_bytes = is_host ? 0 : (double)step_memory(step)->total,
                                             .first_iteration = iteration,
                                             .train_iters = config->run.train_iters,
                                             .job = job->number,
                                             .job_log = job->log,
                                             .ranks = watching->mesh->size,
                                             .tokens_per_sample = tokens,
                                             .flops_per_token = census_flops(&census, config, 1) / tokens,
                                             .planned_seconds = watching->planned.seconds,
                                             .on_event = watching->on_event,
                                             .wandb = wandb_options(watching),
                                             .prometheus = {.textfile = config->watch.prometheus_textfile,
                                                            .address = config->watch.prometheus_host,
                                                            .port = (int)config->watch.prometheus_port,
                                                            .run = watching_name(config)}}));
    *report = watching->farewell.report = watching->report;
    atomic_store(&watching->farewell.iteration, iteration);
    struct buffer json = {0};
    struct json_writer writer = {.out = &json};
    config_to_json(config, &writer);
    report_run(watching->report, iteration, json.data);
    buffer_free(&json);
    return 0;
}

void watching_tell_end(struct watching *watching, int64_t iteration, const char *stopped, enum exit_code code) {
    char done[96];
    if (watching->config->run.skip_train)
        snprintf(done, sizeof done, "evaluated without training (--skip-train)");
    else
        snprintf(done, sizeof done, "finished all %" PRId64 " iterations", iteration);
    report_event(watching->report, &(struct metrics_event){.name = *stopped ? "stopped" : "finished",
                                                           .iteration = iteration,
                                                           .text = *stopped ? stopped : done,
                                                           .exit_code = (int)code});
}

void watching_tell_failure(struct watching *watching) {
    int number = interrupt_received();
    enum exit_code code = error_exit_code();
    // Same rule as in the command: "run me again" makes sense only if there is a checkpoint.
    if (code == EXIT_CODE_STOPPED && !watching->config->run.save)
        code = (enum exit_code)(128 + (number ? number : SIGTERM));
    // If all ranks have the error, only the first reports it.
    bool is_shared = error_is_shared() || number != 0;
    if (watching->mesh->rank == 0 || !is_shared)
        farewell_say(&watching->farewell, code, error_message());
}

void watching_end(struct watching *watching, bool has_failed) {
    farewell_close(&watching->farewell);
    report_close(watching->report);
    on_event_close(watching->on_event, has_failed ? FAILED_SECONDS : DONE_SECONDS);
    free(watching->wandb_folder);
}
