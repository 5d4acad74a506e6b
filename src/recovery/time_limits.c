// Limits of time, and what is done when one is near. See time_limits.h.
#include "recovery/time_limits.h"

#include "base/log.h"
#include <math.h>
#include <stdio.h>

void limits_open(struct watchdog_work *work, const struct config *config, int rank) {
    watchdog_open(&(struct watchdog_options){.limits = {[WATCHDOG_START] = 60 * config->watch.start_timeout_minutes,
                                                        [WATCHDOG_STEP] = 60 * config->watch.step_timeout_minutes,
                                                        [WATCHDOG_SAVE] = 60 * config->watch.save_timeout_minutes,
                                                        [WATCHDOG_LOAD] = 60 * config->watch.load_timeout_minutes},
                                             .rank = rank});
    watchdog_begin(work, WATCHDOG_START, "starting the run");
}

void limits_train(struct watchdog_work *work) {
    watchdog_end(work);
    watchdog_begin(work, WATCHDOG_STEP, "training");
}

void limits_load_begin(struct watchdog_work *work, struct group *all) {
    comm_patience_begin(all, "going back to an earlier checkpoint");
    watchdog_begin(work, WATCHDOG_LOAD, "going back to an earlier checkpoint");
}

void limits_load_end(struct watchdog_work *work, struct group *all, int status) {
    watchdog_end(work);
    // A rank that fails ends the job.
    if (status == 0)
        comm_patience_end(all);
}

void limits_close(struct watchdog_work *work) {
    watchdog_end(work);
    watchdog_close();
}

// ---- the time that a scheduler leaves ----

void stop_time_measure(struct stop_time *time, double step_seconds, double save_seconds) {
    enum { ENOUGH = 2 };
    time->steps++;
    if (time->limit_seconds <= 0 || time->is_said || !time->job || time->steps == 1)
        return;
    if (time->fastest == 0 || step_seconds < time->fastest)
        time->fastest = step_seconds;
    if (time->steps <= ENOUGH || time->fastest + save_seconds <= time->limit_seconds)
        return;
    time->is_said = true;
    char saving[64] = "";
    if (save_seconds > 0)
        snprintf(saving, sizeof saving, " and the last checkpoint took %.1f s", save_seconds);
    log_warn_once(
        "`scancel %s` would not save: finishing a step takes %.1f s%s, and Slurm kills the ranks after %.0f s "
        "(KillWait); to save and stop, run `scancel --batch --signal=USR2 %s`",
        time->job, time->fastest, saving, time->limit_seconds, time->job);
}

// ---- saves that are tried again ----

static const double FIRST_SECONDS = 1, LONGEST_SECONDS = 600;

double save_retry_after(struct save_retry *retry, double began, double now) {
    if (retry->failures++ == 0)
        retry->first_time = began;
    double wait = fmin(LONGEST_SECONDS, fmax(FIRST_SECONDS * exp2(retry->failures - 1), 2 * (now - began)));
    retry->due_time = now + wait;
    return wait;
}

double save_retry_seconds(const struct save_retry *retry, double now) {
    return retry->failures > 0 ? now - retry->first_time : 0;
}
