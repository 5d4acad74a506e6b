// See time_to_save.h.
#include "recovery/time_to_save.h"
#include "base/log.h"

#include <stdio.h>

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
