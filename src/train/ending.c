// How a run ends. See ending.h.
#include "train/ending.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "report/console.h"

#include <inttypes.h>
#include <stdio.h>

void ending_print(const struct ending *ending, const char *event) {
    struct buffer text = {0};
    console_datetime(&text, event, clock_wall_seconds());
    report_print(ending->report, buffer_string(&text));
    buffer_free(&text);
}

void ending_answer(const struct ending *ending, const char *doing, int64_t iteration) {
    if (ending->mesh->rank != 0)
        return;
    if (ending->config->save)
        interrupt_answer(doing, iteration, ", then saving", "quit without saving");
    else
        interrupt_answer(doing, iteration, ", then stopping (nothing is saved without --save)", "quit at once");
}

static double minutes_of(const struct ending *ending) {
    return (clock_seconds() - ending->started) / 60;
}

int64_t ending_reason(const struct ending *ending) {
    double limit = ending->config->exit_duration_in_mins;
    int64_t reasons[2] = {interrupt_received(), limit > 0 && minutes_of(ending) > limit};
    comm_max_i64(ending->mesh->all, reasons, 2, "reasons to stop");
    return reasons[0] ? reasons[0] : -reasons[1];
}

enum ending_kind ending_find(struct ending *ending, int64_t iteration, int64_t reason) {
    const struct config *config = ending->config;
    char event[96], *text = ending->text;
    const size_t size = sizeof ending->text;
    double minutes = minutes_of(ending);
    if (reason > 0) {
        snprintf(event, sizeof event, "exiting program after receiving %s.", interrupt_name((int)reason));
        snprintf(text, size, "stopped by %s", interrupt_name((int)reason));
    } else if (reason < 0) {
        snprintf(event, sizeof event, "exiting program after %.1f minutes", minutes);
        snprintf(text, size, "stopped after %.1f minutes (--exit-duration-in-mins)", minutes);
    } else if (config->exit_interval > 0 && iteration % config->exit_interval == 0) {
        snprintf(event, sizeof event, "exiting program at iteration %" PRId64, iteration);
        snprintf(text, size, "stopped at iteration %" PRId64 " (--exit-interval)", iteration);
    } else {
        return GO_ON;
    }
    ending_print(ending, event);
    ending->reason = reason;
    return reason ? END_STOPPED : END_INTERVAL;
}

enum exit_code ending_code(const struct ending *ending) {
    if (ending->config->save)
        return EXIT_CODE_STOPPED;
    return ending->reason > 0 ? (enum exit_code)(128 + ending->reason) : EXIT_CODE_OK;
}
