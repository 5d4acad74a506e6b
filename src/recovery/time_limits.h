// Time limits for a run that completes nothing, set by flags for each part of the run. Checkpoints have separate limits
// within these parts, see base/watchdog.h.
#ifndef RECOVERY_TIME_LIMITS_H
#define RECOVERY_TIME_LIMITS_H

#include "base/watchdog.h"
#include "comm/comm.h"
#include "config/config.h"

void limits_open(struct watchdog_work *work, const struct config *config, int rank);  // the run starts
void limits_train(struct watchdog_work *work);                                        // it is about to train
// Around going back to an earlier checkpoint, where ranks read files at their own pace. The work is one of its own.
void limits_load_begin(struct watchdog_work *work, struct group *all);
void limits_load_end(struct watchdog_work *work, struct group *all, int status);
void limits_close(struct watchdog_work *work);

#endif
