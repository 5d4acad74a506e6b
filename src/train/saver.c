// Checkpoints of a run, and the log lines about them. See saver.h.
#include "train/saver.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "report/console.h"

static void print_saving(const struct saver *saver, int64_t iteration) {
    struct buffer text = {0};
    console_saving(&text, clock_wall_seconds(), iteration, saver->config->save);
    report_print(saver->report, buffer_string(&text));
    buffer_free(&text);
}

static void print_saved(const struct saver *saver) {
    struct buffer text = {0};
    struct console_checkpoint saved = {.iteration = saver->iteration,
                                       .folder = saver->config->save,
                                       .tensor_ranks = saver->mesh->length[AXIS_TENSOR],
                                       .pipeline_ranks = saver->mesh->length[AXIS_PIPELINE]};
    console_saved(&text, clock_wall_seconds(), &saved);
    report_print(saver->report, buffer_string(&text));
    buffer_free(&text);
}

int saver_save(struct saver *saver, const struct progress_state *at) {
    const struct config *config = saver->config;
    if (!config->save || saver->iteration == at->iteration)
        return 0;
    TRY(saver_finish(saver));
    print_saving(saver, at->iteration);
    TRY(config->async_save ? state_save_start(saver->step, at, &saver->job) : state_save(saver->step, at));
    saver->iteration = at->iteration;
    if (!config->async_save)
        print_saved(saver);
    return 0;
}

int saver_advance(struct saver *saver) {
    if (!saver->job)
        return 0;
    int64_t is_busy = !checkpoint_save_is_ready(saver->job);
    comm_max_i64(saver->mesh->all, &is_busy, 1, "checkpoint in the background");
    if (is_busy)
        return 0;
    TRY(checkpoint_save_advance(&saver->job));
    if (!saver->job)
        print_saved(saver);
    return 0;
}

int saver_finish(struct saver *saver) {
    if (!saver->job)
        return 0;
    struct checkpoint_job *job = saver->job;
    saver->job = NULL;
    TRY(checkpoint_save_finish(job));
    print_saved(saver);
    return 0;
}

void saver_abandon(struct saver *saver) {
    if (!saver->job)
        return;
    // A loss that is not finite is seen by all ranks at the same iteration. Other failures may be one rank's alone.
    bool is_known_to_all = error_exit_code() == EXIT_CODE_NOT_FINITE;
    struct error_note *note = error_take();
    if (!is_known_to_all)
        checkpoint_save_abandon(saver->job);
    else if (saver_finish(saver) < 0)
        log_warn("%s", error_message());
    error_give(note);
}
