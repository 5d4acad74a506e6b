// Ends a run. See run_end.h.
#include "train/run_end.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "report/console.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ending_print(const struct ending *ending, const char *event) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    console_datetime(&text, event, clock_wall_seconds());
    report_print(ending->report, buffer_string(&text));
}

void ending_answer(const struct ending *ending, const char *doing, int64_t iteration) {
    if (ending->mesh->rank != 0)
        return;
    if (ending->config->run.save)
        interrupt_answer(doing, iteration, ", then saving", "quit without saving");
    else
        interrupt_answer("stopping (nothing is saved without --save)", -1, "", "quit at once");
}

// Between two micro-batches, of which an iteration may have thousands.
static int next_unless_stopped(void *context, struct batch *batch) {
    struct ending *ending = context;
    int number = interrupt_received();
    if (number != 0)
        return error_set_code(EXIT_CODE_STOPPED, "stopped by %s; nothing is saved without --save",
                              interrupt_name(number));
    return ending->source.next(ending->source.context, batch);
}

struct step_source ending_source(struct ending *ending, struct step_source source) {
    ending->source = source;
    return ending->config->run.save ? source : (struct step_source){next_unless_stopped, ending, source.count};
}

static double minutes_of(const struct ending *ending) {
    return (clock_seconds() - ending->started) / 60;
}

// Whether --trigger-path has a file of this name.
static bool has_trigger(const struct ending *ending, const char *name) {
    const char *folder = ending->config->run.trigger_path;
    if (!folder)
        return false;
    OWNED char *path = file_join(folder, name);
    return file_exists(path);
}

// 0, or the reason. Only one rank looks, to spare the file system a thousand queries per iteration.
static int64_t file_that_stops(const struct ending *ending) {
    const char *path = ending->config->run.kill_switch_path;
    if (ending->mesh->rank != 0)
        return 0;
    if (path && file_exists(path))
        return ENDING_BY_KILL_SWITCH;
    return has_trigger(ending, "exit") ? ENDING_BY_TRIGGER : 0;
}

// For runs without --save-interval: unrequested saves that take minutes must not fill most of the run.
static bool is_save_due(const struct ending *ending) {
    const struct config *config = ending->config;
    double limit = 60 * config->run.save_minutes, shares = 20;
    if (ending->mesh->rank != 0 || !config->run.save || config->run.save_interval > 0 || limit <= 0)
        return false;
    if (!flag_is_given(&config->given, "--save-minutes"))
        limit = fmax(limit, shares * ending->save_seconds);
    return clock_now(ending->clock) - ending->saved >= limit;
}

int64_t ending_reason(struct ending *ending) {
    double limit = ending->config->run.exit_duration_in_mins;
    int64_t reasons[4] = {interrupt_received(), limit > 0 && minutes_of(ending) > limit, file_that_stops(ending),
                          is_save_due(ending)};
    comm_max_i64(ending->mesh->all, reasons, 4, "reasons to stop");
    ending->is_save_due = reasons[3];
    if (reasons[0])
        return reasons[0];
    return reasons[2] ? reasons[2] : reasons[1] ? ENDING_BY_TIME : 0;
}

bool ending_wants_save(struct ending *ending) {
    int64_t is_asked = 0;
    if (ending->mesh->rank == 0 && ending->config->run.save) {
        bool is_there = has_trigger(ending, "save");
        ending->is_save_stuck = ending->is_save_stuck && is_there;
        is_asked = is_there && !ending->is_save_stuck;
    }
    if (ending->config->run.save && ending->config->run.trigger_path)
        comm_max_i64(ending->mesh->all, &is_asked, 1, "a file that asks for a checkpoint");
    ending->is_save_asked = is_asked;
    return is_asked || ending->is_save_due;
}

void ending_saved(struct ending *ending, double save_seconds) {
    ending->saved = clock_now(ending->clock);
    ending->save_seconds = save_seconds;
    ending->is_save_due = false;
}

void ending_save_done(struct ending *ending) {
    if (!ending->is_save_asked)
        return;
    ending->is_save_asked = false;
    if (ending->mesh->rank != 0)
        return;
    OWNED char *path = file_join(ending->config->run.trigger_path, "save");
    // Else there would be a checkpoint after every iteration.
    ending->is_save_stuck = unlink(path) < 0;
    if (ending->is_save_stuck)
        log_warn("cannot remove %s, which asked for a checkpoint (%s); it counts no more until you remove it", path,
                 strerror(errno));
}

enum ending_kind ending_find(struct ending *ending, int64_t iteration, int64_t reason) {
    const struct config *config = ending->config;
    char event[96], *text = ending->text;
    const size_t size = sizeof ending->text;
    double minutes = minutes_of(ending);
    if (reason >= ENDING_BY_TRIGGER) {
        const char *flag = reason == ENDING_BY_KILL_SWITCH ? "--kill-switch-path" : "--trigger-path";
        snprintf(event, sizeof event, "exiting program, as the file of %s asks", flag);
        snprintf(text, size, "stopped by a file (%s)", flag);
    } else if (reason > 0) {
        snprintf(event, sizeof event, "exiting program after receiving %s.", interrupt_name((int)reason));
        snprintf(text, size, "stopped by %s", interrupt_name((int)reason));
    } else if (reason == ENDING_BY_TIME) {
        snprintf(event, sizeof event, "exiting program after %.1f minutes", minutes);
        snprintf(text, size, "stopped after %.1f minutes (--exit-duration-in-mins)", minutes);
    } else if (config->run.exit_interval > 0 && iteration % config->run.exit_interval == 0) {
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
    // The run must not be restarted.
    if (ending->reason >= ENDING_BY_TRIGGER)
        return EXIT_CODE_OK;
    if (ending->config->run.save)
        return EXIT_CODE_STOPPED;
    return ending->reason > 0 ? (enum exit_code)(128 + ending->reason) : EXIT_CODE_OK;
}
