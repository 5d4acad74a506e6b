// The progress line. On a terminal it is redrawn in place several times a second through log_status, so that messages
// and the bar do not tear each other; in a log file a plain line appears every few seconds.
#include "base/progress.h"

#include "base/clock.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/screen.h"
#include <math.h>
#include <stdio.h>

static const double terminal_interval_seconds = 0.1;
static const double plain_interval_seconds = 5, first_plain_seconds = 1;
enum { MOST_CELLS = 24, FEWEST_CELLS = 4, BAR_FRAME = 3, PLAIN_COLUMNS = 80 };

void progress_append_count(struct buffer *out, double value) {
    static const char suffixes[] = " kMGTP";
    int power = 0;
    while (fabs(value) >= 999.5 && power < 5) {
        value /= 1000;
        power++;
    }
    int decimals = power == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    if (power == 0 && value > 0 && value < 9.995 && value != floor(value))
        decimals = 2;
    buffer_printf(out, "%.*f", decimals, value);
    if (power > 0)
        buffer_append_byte(out, suffixes[power]);
}

void progress_append_duration(struct buffer *out, double seconds) {
    if (!(seconds < 100 * 86400.0)) {
        buffer_append_string(out, "more than 100 d");
        return;
    }
    int64_t whole = (int64_t)(seconds + 0.5);
    int days = (int)(whole / 86400), hours = (int)(whole / 3600 % 24), minutes = (int)(whole / 60 % 60);
    if (days > 0)
        buffer_printf(out, "%d d %02d:%02d h", days, hours, minutes);
    else if (hours > 0)
        buffer_printf(out, "%d:%02d:%02d", hours, minutes, (int)(whole % 60));
    else
        buffer_printf(out, "%d:%02d", minutes, (int)(whole % 60));
}

void progress_append_bar(struct buffer *out, double fraction, int cells) {
    int full = (int)(fraction * cells);
    buffer_append_byte(out, '[');
    for (int i = 0; i < cells; i++)
        buffer_append_byte(out, i < full ? '=' : i == full ? '>' : ' ');
    buffer_append_string(out, "] ");
}

static double fraction_of(const struct progress *p) {
    return p->done < p->total ? p->done / p->total : 1;
}

// The parts of a line, from those in every line to the one that needs most room.
enum detail { TIME_LEFT, RATE, NOTE, AMOUNT, ELAPSED };

// The text after the bar.
static void append_rest(const struct progress *p, double now, const char *note, enum detail detail,
                        struct buffer *out) {
    double elapsed = now - p->started;
    double rate = elapsed > 0 ? p->done / elapsed : 0;
    if (p->total > 0)
        buffer_printf(out, "%3.0f%%", floor(100 * fraction_of(p)));
    const char *gap = p->total > 0 ? " " : "";
    if (detail >= AMOUNT || !(p->total > 0)) {
        buffer_append_string(out, gap);
        progress_append_count(out, p->done);
        if (p->total > 0) {
            buffer_append_byte(out, '/');
            progress_append_count(out, p->total);
        }
        buffer_printf(out, " %s", p->unit);
        gap = ", ";
    }
    if (detail >= RATE) {
        buffer_append_string(out, gap);
        progress_append_count(out, rate);
        buffer_printf(out, " %s/s", p->unit);
    }
    if (note && detail >= NOTE)
        buffer_printf(out, ", %s", note);
    if (detail >= ELAPSED) {
        buffer_append_string(out, ", elapsed ");
        progress_append_duration(out, elapsed);
    }
    if (p->total > p->done && rate > 0) {
        buffer_append_string(out, ", ETA ");
        progress_append_duration(out, (p->total - p->done) / rate);
    }
}

static int width(const struct buffer *text) {
    return screen_width(buffer_string(text));
}

// As many parts as fit into the columns. The bar takes the remaining room; it is dropped first, then note and rate.
static void compose(const struct progress *p, double now, const char *note, int columns, struct buffer *out) {
    struct buffer rest = {0};
    bool has_bar = p->is_terminal && p->total > 0;
    buffer_printf(out, "%s ", p->label);
    int room = columns - 1 - width(out), least = has_bar ? FEWEST_CELLS + BAR_FRAME : 0;
    int lowest = p->is_terminal ? TIME_LEFT : NOTE;  // a file has room
    for (int detail = ELAPSED; detail >= lowest; detail--) {
        buffer_clear(&rest);
        append_rest(p, now, note, (enum detail)detail, &rest);
        if (width(&rest) + (detail > NOTE ? least : 0) <= room)
            break;
    }
    int cells = room - width(&rest) - BAR_FRAME;
    if (has_bar && cells >= FEWEST_CELLS)
        progress_append_bar(out, fraction_of(p), cells < MOST_CELLS ? cells : MOST_CELLS);
    buffer_append_string(out, buffer_string(&rest));
    buffer_free(&rest);
}

static void show(struct progress *p, double now, const char *note, bool is_last) {
    struct buffer line = {0};
    compose(p, now, note, p->is_terminal ? screen_columns() : PLAIN_COLUMNS, &line);
    if (p->is_terminal && !is_last) {
        log_status(buffer_string(&line));
    } else {
        log_status(NULL);
        log_info("%s", buffer_string(&line));
    }
    buffer_free(&line);
    p->last_shown = now;
}

void progress_begin(struct progress *p, const char *label, const char *unit, double total) {
    double now = clock_seconds();
    *p = (struct progress){
        .label = label,
        .unit = unit,
        .total = total,
        .started = now,
        .last_shown = now,
        .is_terminal = screen_is_live(),
    };
}

void progress_update(struct progress *p, double done, const char *note) {
    lifeline_beat();
    p->done = done;
    if (p->is_quiet)
        return;
    double now = clock_now(p->clock), interval = p->is_terminal ? terminal_interval_seconds : plain_interval_seconds;
    if (!p->is_terminal && p->last_shown == p->started)
        interval = first_plain_seconds;
    if (now - p->last_shown >= interval)
        show(p, now, note, false);
}

void progress_end(struct progress *p, const char *note) {
    if (!p->is_quiet)
        show(p, clock_now(p->clock), note, true);
}
