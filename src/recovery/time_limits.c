// See time_limits.h.
#include "recovery/time_limits.h"

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
