// Checkpoints of a run, and the log lines about them. See saver.h.
#include "train/saver.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/watchdog.h"
#include "store/folder.h"
#include "store/remote_checkpoint.h"
#include "recovery/run_folders.h"
#include "report/console.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_saved(struct saver *saver) {
    struct buffer text = {0};
    saver->seconds = clock_seconds() - saver->started;
    struct console_checkpoint saved = {.iteration = saver->iteration,
                                       .folder = saver->folder,
                                       .tensor_ranks = saver->mesh->length[AXIS_TENSOR],
                                       .pipeline_ranks = saver->mesh->length[AXIS_PIPELINE]};
    console_saved(&text, clock_wall_seconds(), &saved);
    report_print_long(saver->report, buffer_string(&text));
    buffer_free(&text);
    OWNED char *sentence = memory_printf("saved a checkpoint to %s in %.1f s", saver->folder, saver->seconds);
    report_event(saver->report,
                 &(struct metrics_event){.name = "saved", .iteration = saver->iteration, .text = sentence});
    if (!saver->copier || saver->folder != saver->config->run.save)
        return;
    bool is_best = saver->better.iteration == saver->iteration;
    remote_copier_offer(saver->copier,
                        (struct remote_offer){.iteration = saver->iteration,
                                              .is_passing = saver->is_passing,
                                              .best = is_best ? saver->iteration : saver->best.iteration});
}

// The iteration of --save that the run continues, for remote_copy_check. Launchers always add --load SAVE, so the flag
// alone does not say that there is a checkpoint.
static int find_continued(const struct saver *saver, int64_t *iteration) {
    const struct config *config = saver->config;
    *iteration = saver->loads_copy ? REMOTE_COPY_LOADED : -1;
    if (saver->loads_copy || !config->run.load || !file_is_same(config->run.load, config->run.save))
        return 0;
    return folder_marker_read(config->run.save, iteration) < 0 ? -1 : 0;
}

int saver_start_copies(struct saver *saver) {
    const struct config *config = saver->config;
    int status = 0;
    if (!config->run.save_to || config->run.skip_train)
        return 0;
    if (saver->mesh->rank == 0) {
        const struct remote_copy_options options = {.folder = config->run.save,
                                                    .url = config->run.save_to,
                                                    .keep_last = config->run.keep_last,
                                                    .retain_interval = config->run.save_retain_interval};
        int64_t continued;
        status = find_continued(saver, &continued);
        if (status == 0)
            status = remote_copy_check(&options, continued);
        if (status == 0)
            saver->copier = remote_copier_start(&options);
    }
    return comm_agree(saver->mesh->all, status, "address of --save-to");
}

int saver_finish_copies(struct saver *saver) {
    if (!saver->config->run.save_to || saver->config->run.skip_train)
        return 0;
    comm_patience_begin(saver->mesh->all, "copying the last checkpoint to --save-to");
    if (saver->copier)
        log_info("waiting until the last checkpoint is copied to %s", saver->config->run.save_to);
    struct watchdog_work work;
    struct phase *phase = phase_begin("copying the last checkpoint");
    watchdog_begin(&work, WATCHDOG_ELSEWHERE, "copying the last checkpoint to --save-to");
    int status = remote_copier_finish(saver->copier, true);
    watchdog_end(&work);
    phase_end(phase);
    saver->copier = NULL;
    status = comm_agree(saver->mesh->all, status, "last copy to --save-to");
    comm_patience_end(saver->mesh->all);
    return status;
}

// ---- saves that fail ----

// Broadcasts a decision of the first rank, which depends on its clock.
static bool decide(const struct saver *saver, bool is_so, const char *name) {
    int64_t answer = is_so;
    comm_broadcast_i64(saver->mesh->all, &answer, 1, 0, name);
    return answer != 0;
}

static void tell_failure(const struct saver *saver, int64_t iteration, const char *next) {
    OWNED char *text = memory_printf("the checkpoint of iteration %" PRId64 " was not saved: %s; %s", iteration,
                                     error_message(), next);
    log_warn_once("%s", text);
    report_event(saver->report, &(struct metrics_event){.name = "unsaved", .iteration = iteration, .text = text});
    error_clear();
}

// No folder takes the checkpoint: says when the next attempt is, or ends the run.
static int schedule_retry(struct saver *saver, int64_t iteration) {
    const struct config *config = saver->config;
    bool is_last = saver->last_time > 0;
    double now = clock_seconds(), wait = save_retry_after(&saver->retry, saver->started, now);
    double left = is_last ? config->run.last_save_minutes * 60 - (now - saver->last_time)
                          : config->run.save_retry_minutes * 60 - save_retry_seconds(&saver->retry, now);
    const char *flag = is_last ? "--last-save-minutes" : "--save-retry-minutes";
    if (decide(saver, left <= 0, "end of a run that cannot save")) {
        lifeline_cannot_save();
        return error_context("iterations %" PRId64 " to %" PRId64 " are not saved (%s)", saver->kept_iteration + 1,
                             iteration, flag);
    }
    // One attempt is made when the time is up.
    saver->retry.due_time = now + fmin(wait, left);
    OWNED char *next = memory_printf(
        "%sthe next attempt is in %.0f s, and the run ends in %.*f minutes if none succeeds (%s)",
        is_last ? "" : "training continues, ", fmax(fmin(wait, left), 1), left < 600 ? 1 : 0, left / 60, flag);
    tell_failure(saver, iteration, next);
    return 0;
}

// A save has failed, and the error that is set says why. Returns 0 if the run continues. Only errors of files may go
// away by themselves.
static int take_failure(struct saver *saver, int64_t iteration) {
    const struct config *config = saver->config;
    bool was_fallback = saver->folder != config->run.save;
    saver->iteration = -1;
    saver->is_failing = true;
    saver->is_fallback_next = config->run.save_fallback && !was_fallback;
    if (error_exit_code() != EXIT_CODE_ERROR)
        return -1;
    if (!saver->is_fallback_next)
        return schedule_retry(saver, iteration);
    OWNED char *next = memory_printf("trying %s (--save-fallback)", config->run.save_fallback);
    tell_failure(saver, iteration, next);
    return 0;
}

// ---- the best one ----

static char *best_path(const struct saver *saver) {
    return file_join(saver->config->run.save, "best.json");
}

// The checkpoint of saver->iteration has the lowest loss.
static void take_best(struct saver *saver) {
    saver->best = saver->better;
    saver->best.is_passing = saver->is_passing;
    saver->better.iteration = 0;
    if (saver->mesh->rank != 0)
        return;
    OWNED char *path = best_path(saver),
               *text = memory_printf("{\"iteration\": %" PRId64 ", \"validation_loss\": %.9g}\n", saver->best.iteration,
                                     saver->best.loss);
    if (file_write_all(path, text, strlen(text)) < 0)
        log_warn("%s; a run that resumes will not know its best checkpoint", error_message());
    error_clear();
    log_info("the best checkpoint so far is that of iteration %" PRId64 " (validation loss %.4f); load it with "
             "--ckpt-step %" PRId64,
             saver->best.iteration, saver->best.loss, saver->best.iteration);
}

static void read_best(struct saver *saver) {
    enum { MOST_BYTES = 4096 };
    OWNED struct json *object = NULL;
    if (!saver->config->run.keep_best || saver->mesh->rank != 0)
        return;
    OWNED char *path = best_path(saver);
    bool is_bad = file_exists(path) && (json_parse_own(&object, path, MOST_BYTES) < 0 ||
                                        json_get_int(object, "iteration", &saver->best.iteration) < 0 ||
                                        json_get_double(object, "validation_loss", &saver->best.loss) < 0);
    OWNED char *named = checkpoint_path(saver->config->run.save, saver->best.iteration);
    if (is_bad)
        log_warn("%s; the best checkpoint is looked for from here on", error_message());
    if (is_bad || !file_is_folder(named))
        saver->best = (struct saver_best){0};
    error_clear();
}

void saver_judge(struct saver *saver, int64_t iteration, double loss) {
    // One that was not saved is no longer of use.
    bool is_being_saved = saver->job && saver->iteration == saver->better.iteration;
    const struct saver_best *lowest = is_being_saved ? &saver->better : &saver->best;
    bool is_lower = isfinite(loss) && (lowest->iteration == 0 || loss < lowest->loss);
    if (!saver->config->run.keep_best || !decide(saver, is_lower, "the lowest validation loss"))
        return;
    saver->better = (struct saver_best){.iteration = iteration, .loss = loss};
    if (saver->iteration == iteration && !saver->job)
        take_best(saver);
}

// ---- before training ----

int saver_check(struct saver *saver, struct progress_state *at, bool may_wait) {
    const struct config *config = saver->config;
    struct run_state run = {.step = saver->step, .config = config, .progress = at, .kept = saver->kept};
    saver->folder = config->run.save;
    saver->started = clock_seconds();
    read_best(saver);
    int status = state_check_save(&run);
    if (config->run.save_fallback && (status == 0 || error_exit_code() == EXIT_CODE_ERROR)) {
        if (status < 0)
            log_warn_once("%s; checkpoints are written to %s (--save-fallback) until this is fixed", error_message(),
                          config->run.save_fallback);
        error_clear();
        run.folder = config->run.save_fallback;
        status = state_check_save(&run);
    }
    if (status == 0 || !may_wait || error_exit_code() != EXIT_CODE_ERROR)
        return status;
    saver->is_failing = true;
    return schedule_retry(saver, at->iteration);
}

// A restart takes the latest checkpoint of both folders, which may be one that the run gave up.
static void move_markers(struct saver *saver) {
    if (saver->mesh->rank == 0 && run_folders_point(saver->config, saver->folder, saver->iteration) < 0)
        log_warn("%s; if the run is restarted, it may resume from a checkpoint that it gave up", error_message());
    error_clear();
    saver->is_unmarked = false;
}

// The checkpoint of saver->iteration is complete.
static void take_success(struct saver *saver) {
    saver->passing = saver->is_passing ? saver->iteration : 0;
    if (saver->is_unmarked)
        move_markers(saver);
    saver->kept_iteration = saver->iteration;
    saver->is_failing = saver->is_fallback_next = false;
    saver->retry = (struct save_retry){0};
    print_saved(saver);
    if (saver->better.iteration == saver->iteration)
        take_best(saver);
}

// ---- saving ----

// Waits for the background save, if there is one, and makes its checkpoint the latest.
static int finish_job(struct saver *saver) {
    if (!saver->job)
        return 0;
    struct checkpoint_job *job = saver->job;
    saver->job = NULL;
    struct phase *phase = phase_begin("finishing the checkpoint in the background");
    int status = checkpoint_save_finish(job);
    phase_end(phase);
    TRY(status);
    take_success(saver);
    return 0;
}

static int keep_place(void *place, const char *folder) {
    (void)folder;
    return save_folder_keep(place);
}

// One attempt in one folder. A background save may still fail later.
static int save_to(struct saver *saver, struct progress_state *at, const char *folder) {
    const struct config *config = saver->config;
    saver->folder = folder;
    OWNED_BY(buffer_free) struct buffer text = {0};
    console_saving(&text, clock_wall_seconds(), at->iteration, folder);
    report_print_long(saver->report, buffer_string(&text));
    saver->started = clock_seconds();
    fault_set_save(at->iteration);
    (void)fault_at(FAULT_AT_SAVE);
    bool is_best = saver->better.iteration == at->iteration;
    const struct run_state run = {
        .step = saver->step,
        .config = config,
        .progress = at,
        .kept = saver->kept,
        .folder = folder,
        .unmarked = &saver->unmarked[folder != config->run.save],
        .check = saver->place ? keep_place : NULL,
        .context = saver->place,
        .best = is_best ? at->iteration : saver->best.iteration,
        .replaced = {saver->passing == saver->best.iteration ? 0 : saver->passing,
                     is_best && saver->best.is_passing ? saver->best.iteration : 0},
    };
    TRY(config->run.async_save ? state_save_start(&run, &saver->job) : state_save(&run));
    saver->iteration = at->iteration;
    if (!config->run.async_save)
        take_success(saver);
    return 0;
}

// Saves to --save, or to the fallback if that has just failed or fails now. Returns 0 if the run continues.
static int save_somewhere(struct saver *saver, struct progress_state *at, bool is_passing) {
    const struct config *config = saver->config;
    int64_t unfinished = saver->iteration;
    // Whatever differs would be saved as if it were right: this rank's copy, or another's.
    TRY(step_check_replicas(saver->step));
    at->replicas_verified = step_replica_count(saver->step);
    if (finish_job(saver) < 0)
        TRY(take_failure(saver, unfinished));
    saver->is_passing = is_passing;
    if (!saver->is_fallback_next) {
        if (save_to(saver, at, config->run.save) == 0)
            return 0;
        TRY(take_failure(saver, at->iteration));
    }
    if (saver->is_fallback_next && save_to(saver, at, config->run.save_fallback) < 0)
        return take_failure(saver, at->iteration);
    return 0;
}

static int save_if_new(struct saver *saver, struct progress_state *at, bool is_passing) {
    if (!saver->config->run.save || saver->iteration == at->iteration || saver->is_failing)
        return 0;
    return save_somewhere(saver, at, is_passing);
}

int saver_save(struct saver *saver, struct progress_state *at) {
    return save_if_new(saver, at, false);
}

int saver_save_passing(struct saver *saver, struct progress_state *at) {
    return save_if_new(saver, at, true);
}

void saver_leave_done(struct saver *saver, const struct progress_state *at) {
    const struct config *config = saver->config;
    if (at->iteration > 0 && state_is_done(config, at) && config->run.load && config->run.save &&
        file_is_same(config->run.load, config->run.save))
        saver->iteration = at->iteration;
}

bool saver_retry_is_due(const struct saver *saver) {
    if (!saver->is_failing || saver->job)
        return false;
    return saver->is_fallback_next || decide(saver, clock_seconds() >= saver->retry.due_time, "time to save again");
}

int saver_retry(struct saver *saver, struct progress_state *at) {
    return save_somewhere(saver, at, saver->is_passing);
}

int saver_advance(struct saver *saver, int64_t iteration) {
    // A background save looks at the lock itself.
    if (!saver->job)
        return saver->place && iteration % saver->config->watch.log_interval == 0 ? save_folder_watch(saver->place) : 0;
    int64_t is_busy = !checkpoint_save_is_ready(saver->job);
    comm_max_i64(saver->mesh->all, &is_busy, 1, "checkpoint in the background");
    if (is_busy)
        return 0;
    if (checkpoint_save_advance(&saver->job) < 0)
        return take_failure(saver, saver->iteration);
    if (!saver->job)
        take_success(saver);
    return 0;
}

int saver_wait(struct saver *saver) {
    return finish_job(saver) < 0 ? take_failure(saver, saver->iteration) : 0;
}

// The other ranks wait for the first one, which sleeps.
static void wait_before_retry(const struct saver *saver) {
    const double nap = 0.1;
    struct group *all = saver->mesh->all;
    comm_patience_begin(all, "waiting to save again");
    for (; saver->mesh->rank == 0 && clock_seconds() < saver->retry.due_time; clock_sleep(nap))
        lifeline_beat();
    comm_barrier(all, "time to save again");
    comm_patience_end(all);
}

int saver_save_last(struct saver *saver, struct progress_state *at) {
    if (!saver->config->run.save)
        return 0;
    saver->last_time = clock_seconds();
    for (;;) {
        if (saver->iteration != at->iteration)
            TRY(save_somewhere(saver, at, false));
        if (finish_job(saver) < 0)
            TRY(take_failure(saver, at->iteration));
        if (saver->iteration == at->iteration)
            return 0;
        if (!saver->is_fallback_next)
            wait_before_retry(saver);
    }
}

static int save_start(struct saver *saver, struct progress_state *at) {
    if (!decide(saver, saver->mesh->rank == 0 && run_folders_latest(saver->config) > 0, "checkpoints of the run"))
        return 0;
    saver->iteration = -1;
    saver->is_unmarked = true;
    TRY(save_somewhere(saver, at, false));
    return saver_wait(saver);
}

// The run went back to a checkpoint in the fallback: the copies are those of --save, whose marker names one before.
static void offer_earlier(struct saver *saver) {
    int64_t iteration;
    OWNED char *path = NULL;
    if (folder_marker_read(saver->config->run.save, &iteration) > 0)
        path = checkpoint_path(saver->config->run.save, iteration);
    if (path && file_exists(path))
        remote_copier_offer(saver->copier,
                            (struct remote_offer){.iteration = iteration, .best = saver->best.iteration});
    error_clear();
}

int saver_go_back(struct saver *saver, struct progress_state *at, const char *from) {
    saver->iteration = saver->kept_iteration = at->iteration;
    // It may have been the last save that found a reason.
    saver->last_time = 0;
    if (!from)
        return saver->config->run.save ? save_start(saver, at) : 0;
    saver->is_unmarked = false;
    if (saver->copier && from == saver->config->run.save)
        remote_copier_offer(saver->copier,
                            (struct remote_offer){.iteration = at->iteration, .best = saver->best.iteration});
    else if (saver->copier)
        offer_earlier(saver);
    return 0;
}

static void abandon_save(struct saver *saver) {
    // A loss that is not finite, or replicas that differ, are known to all ranks at the same iteration. Other failures
    // may be one rank's alone.
    bool is_known_to_all = error_exit_code() == EXIT_CODE_NOT_FINITE || error_exit_code() == EXIT_CODE_CORRUPT;
    struct error_note *note = error_take();
    if (!is_known_to_all)
        checkpoint_save_abandon(saver->job);
    else if (finish_job(saver) < 0)
        log_warn("%s", error_message());
    error_give(note);
}

void saver_abandon(struct saver *saver) {
    if (saver->job)
        abandon_save(saver);
    (void)remote_copier_finish(saver->copier, false);
    saver->copier = NULL;
}
