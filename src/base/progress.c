// The progress line. On a terminal it is redrawn in place several times a second through log_status, so that messages
// and the bar do not tear each other; in a log file a plain line appears every few seconds.
#include "base/progress.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const double terminal_interval_seconds = 0.1;
static const double plain_interval_seconds = 5;
enum { BAR_CELLS = 24 };

static int terminal_columns(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

// 950, 12.3k, 4.56M: four characters or so for any count.
static void append_count(struct buffer *out, double value) {
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

static void append_duration(struct buffer *out, double seconds) {
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

static void append_bar(struct buffer *out, double fraction) {
    int cells = (int)(fraction * BAR_CELLS);
    buffer_append_byte(out, '[');
    for (int i = 0; i < BAR_CELLS; i++)
        buffer_append_byte(out, i < cells ? '=' : i == cells ? '>' : ' ');
    buffer_append_string(out, "] ");
}

static void compose(const struct progress *p, double now, const char *note, struct buffer *out) {
    double elapsed = now - p->started;
    double rate = elapsed > 0 ? p->done / elapsed : 0;
    buffer_printf(out, "%s ", p->label);
    if (p->total > 0) {
        double fraction = p->done < p->total ? p->done / p->total : 1;
        if (p->is_terminal)
            append_bar(out, fraction);
        buffer_printf(out, "%3.0f%% ", floor(100 * fraction));
    }
    append_count(out, p->done);
    if (p->total > 0) {
        buffer_append_byte(out, '/');
        append_count(out, p->total);
    }
    buffer_printf(out, " %s, ", p->unit);
    append_count(out, rate);
    buffer_append_string(out, "/s, ");
    append_duration(out, elapsed);
    if (p->total > p->done && rate > 0) {
        buffer_append_string(out, ", ");
        append_duration(out, (p->total - p->done) / rate);
        buffer_append_string(out, " left");
    }
    if (note)
        buffer_printf(out, ", %s", note);
}

// A line as wide as the terminal would wrap, and then redrawing in place no longer works.
static void cut_to_columns(struct buffer *line, int columns) {
    size_t shown = 0, at = 0;
    while (at < line->length) {
        bool starts_character = ((unsigned char)line->data[at] & 0xC0) != 0x80;
        if (starts_character && ++shown >= (size_t)columns)
            break;
        at++;
    }
    line->length = at;
    if (line->data)
        line->data[at] = '\0';
}

static void show(struct progress *p, double now, const char *note, bool is_last) {
    struct buffer line = {0};
    compose(p, now, note, &line);
    if (p->is_terminal && !is_last) {
        cut_to_columns(&line, terminal_columns());
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
        .is_terminal = isatty(STDERR_FILENO),
    };
}

void progress_update(struct progress *p, double done, const char *note) {
    p->done = done;
    if (p->is_quiet)
        return;
    double now = clock_seconds();
    if (now - p->last_shown >= (p->is_terminal ? terminal_interval_seconds : plain_interval_seconds))
        show(p, now, note, false);
}

void progress_end(struct progress *p, const char *note) {
    if (!p->is_quiet)
        show(p, clock_seconds(), note, true);
}
