// See limits.h.
#include "train/limits.h"

void limits_open(struct watchdog_work *work, const struct config *config, int rank) {
    watchdog_open(&(struct watchdog_options){.limits = {[WATCHDOG_START] = 60 * config->start_timeout_minutes,
                                                        [WATCHDOG_STEP] = 60 * config->step_timeout_minutes,
                                                        [WATCHDOG_SAVE] = 60 * config->save_timeout_minutes,
                                                        [WATCHDOG_LOAD] = 60 * config->load_timeout_minutes},
                                             .rank = rank});
    watchdog_begin(work, WATCHDOG_START, "starting the run");
}

void limits_train(struct watchdog_work *work) {
    watchdog_end(work);
    watchdog_begin(work, WATCHDOG_STEP, "training");
}

void limits_close(struct watchdog_work *work) {
    watchdog_end(work);
    watchdog_close();
}
