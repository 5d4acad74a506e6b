// The most wanted facts come first, because a narrow terminal cuts the end off; the bar is for wide ones. Time left
// is reckoned from this start's own pace, evaluations and saves included.
#include "report/live.h"

#include "base/clock.h"
#include "base/log.h"
#include "report/plot.h"
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const double interval_seconds = 0.1;
enum { BAR_CELLS = 20, COLUMNS_WITH_BAR = 100 };

bool live_open(struct live *live, int64_t first_iteration) {
    if (!isatty(STDERR_FILENO))
        return false;
    *live = (struct live){
        .started = clock_seconds(), .first_iteration = first_iteration, .columns = plot_terminal_width(stderr)};
    live->last_shown = live->started;
    return true;
}

static void append_bar(struct buffer *out, double fraction) {
    int cells = (int)(fraction * BAR_CELLS);
    buffer_append_byte(out, '[');
    for (int i = 0; i < BAR_CELLS; i++)
        buffer_append_byte(out, i < cells ? '=' : i == cells ? '>' : ' ');
    buffer_append_string(out, "] ");
}

static void append_time_left(struct buffer *out, double seconds) {
    if (seconds >= 100 * 86400.0) {
        buffer_append_string(out, ", more than 100 days left");
        return;
    }
    int64_t whole = (int64_t)(seconds + 0.5);
    int64_t days = whole / 86400, hours = whole / 3600 % 24, minutes = whole / 60 % 60;
    buffer_append_string(out, ", ");
    if (days > 0)
        buffer_printf(out, "%" PRId64 " d %02" PRId64 ":%02" PRId64 " h left", days, hours, minutes);
    else if (hours > 0)
        buffer_printf(out, "%" PRId64 ":%02" PRId64 ":%02" PRId64 " left", hours, minutes, whole % 60);
    else
        buffer_printf(out, "%" PRId64 ":%02" PRId64 " left", minutes, whole % 60);
}

void live_compose(struct buffer *out, const struct live *live, const struct metrics *m, double now) {
    size_t start = out->length;
    double done = (double)(m->iteration - live->first_iteration), left = (double)(m->train_iters - m->iteration);
    double fraction = m->train_iters > 0 ? (double)m->iteration / (double)m->train_iters : 0;
    fraction = fraction > 1 ? 1 : fraction;
    if (live->columns >= COLUMNS_WITH_BAR)
        append_bar(out, fraction);
    buffer_printf(out, "iteration %" PRId64 "/%" PRId64 " (%.0f%%)", m->iteration, m->train_iters, 100 * fraction);
    if (m->loss_count > 0)
        buffer_printf(out, ", %s %.4f", m->losses[0].name, m->losses[0].value);
    if (m->tokens_per_second > 0)
        buffer_printf(out, ", %.0f tokens/s", m->tokens_per_second);
    if (done > 0 && left > 0)
        append_time_left(out, (now - live->started) / done * left);
    // A line as wide as the terminal would wrap, and could not be taken away again.
    size_t limit = start + (size_t)(live->columns > 1 ? live->columns - 1 : 1);
    if (out->length > limit) {
        out->length = limit;
        out->data[limit] = '\0';
    }
}

void live_update(struct live *live, const struct metrics *metrics) {
    double now = clock_seconds();
    if (now - live->last_shown < interval_seconds)
        return;
    live->last_shown = now;
    live->columns = plot_terminal_width(stderr);
    struct buffer line = {0};
    live_compose(&line, live, metrics, now);
    log_status(buffer_string(&line));
    buffer_free(&line);
}

void live_hide(void) {
    log_status(NULL);
}
