// The most important facts come first, because a narrow terminal has no room for the last ones. Time left is based on
// this start's own pace, evaluations and saves included.
#include "report/console.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/screen.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double interval_seconds = 0.5, smoothing = 0.2;
enum { MOST_CELLS = 40, FEWEST_CELLS = 4, BAR_FRAME = 3, SPARKS = 16, SPARK_LEVELS = 8, MOST_LINES = 4 };
enum { COLUMNS_WITH_TIME = 60 };

bool live_open(struct live *live, int64_t first_iteration) {
    if (!screen_is_live())
        return false;
    double now = clock_seconds();
    *live = (struct live){.started = now,
                          .last_shown = now - interval_seconds,
                          .first_iteration = first_iteration,
                          .columns = screen_columns(),
                          .has_color = screen_has_color(),
                          .has_symbols = screen_has_symbols()};
    return true;
}

// ---- one fact after the other ----

// Facts fill lines like words.
struct fact_lines {
    struct buffer *out;
    int columns, at;  // `at`: columns that the present line has
    int line, most_lines;
    bool has_color;
    bool is_full;
};

// A name, faint if the terminal supports it, and a value. False if there is no room, not even on another line.
static bool add_fact(struct fact_lines *lines, const char *name, const char *value) {
    int width = screen_width(name) + screen_width(value) + (*name != '\0'), most = lines->columns - 1;
    bool breaks = lines->at > 0 && lines->at + 2 + width > most;
    lines->is_full = lines->is_full || (breaks && lines->line == lines->most_lines);
    if (width > most || lines->is_full)
        return false;
    buffer_append_string(lines->out, lines->at == 0 ? "" : breaks ? "\n" : "  ");
    lines->at = breaks || lines->at == 0 ? width : lines->at + 2 + width;
    lines->line += breaks;
    buffer_append_string(lines->out, lines->has_color && *name ? "\033[2m" : "");
    buffer_append_string(lines->out, name);
    buffer_append_string(lines->out, lines->has_color && *name ? "\033[0m" : "");
    buffer_append_string(lines->out, *name ? " " : "");
    buffer_append_string(lines->out, value);
    return true;
}

static void __attribute__((format(printf, 3, 4)))
add_value(struct fact_lines *lines, const char *name, const char *format, ...) {
    char value[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    add_fact(lines, name, value);
}

static void add_count(struct fact_lines *lines, const char *name, double count, const char *unit) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    progress_append_count(&text, count);
    buffer_append_string(&text, unit);
    add_fact(lines, name, buffer_string(&text));
}

// ---- the view ----

// The later half of the losses, which the initial fall would flatten: means of as many parts as there are cells.
static size_t gather_sparks(struct live_losses losses, double means[SPARKS]) {
    size_t first = losses.count > 2 * SPARKS ? losses.count / 2 : 0, count = losses.count - first;
    size_t cells = count < SPARKS ? count : SPARKS, made = 0;
    for (size_t i = 0; i < cells; i++) {
        size_t from = first + i * count / cells, to = first + (i + 1) * count / cells, finite = 0;
        double sum = 0;
        for (size_t k = from; k < to; k++) {
            bool is_number = isfinite(losses.values[k]);
            sum += is_number ? losses.values[k] : 0;
            finite += is_number;
        }
        if (finite > 0)
            means[made++] = sum / (double)finite;
    }
    return made;
}

static void append_sparks(struct buffer *out, struct live_losses losses) {
    static const char *const levels[SPARK_LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double means[SPARKS], low = INFINITY, high = -INFINITY;
    size_t count = gather_sparks(losses, means);
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, means[i]);
        high = fmax(high, means[i]);
    }
    if (count < 2)
        return;
    buffer_append_byte(out, ' ');
    for (size_t i = 0; i < count; i++) {
        double height = high > low ? (means[i] - low) / (high - low) : 0;
        buffer_append_string(out, levels[(int)(height * (SPARK_LEVELS - 0.01))]);
    }
}

static double seconds_left(const struct live *live, const struct metrics *m, double now) {
    double done = (double)(m->iteration - live->first_iteration), left = (double)(m->train_iters - m->iteration);
    return done > 0 && left > 0 ? (now - live->started) / done * left : 0;
}

// "[====>   ] 1234/5000  25%  ETA 1:23:45", the bar in the remaining room.
static void append_head(struct buffer *out, const struct live *live, const struct metrics *m, double now) {
    OWNED_BY(buffer_free) struct buffer rest = {0};
    double fraction = m->train_iters > 0 ? (double)m->iteration / (double)m->train_iters : 0;
    double left = seconds_left(live, m, now);
    fraction = fraction > 1 ? 1 : fraction;
    buffer_printf(&rest, "%" PRId64 "/%" PRId64, m->iteration, m->train_iters);
    if (screen_width(buffer_string(&rest)) + 5 < live->columns)
        buffer_printf(&rest, " %3.0f%%", floor(100 * fraction));
    if (left > 0) {
        OWNED_BY(buffer_free) struct buffer time = {0};
        buffer_append_string(&time, "  ETA ");
        progress_append_duration(&time, left);
        if (screen_width(buffer_string(&rest)) + screen_width(buffer_string(&time)) < live->columns)
            buffer_append_string(&rest, buffer_string(&time));
    }
    int cells = live->columns - 1 - screen_width(buffer_string(&rest)) - BAR_FRAME;
    if (cells >= FEWEST_CELLS)
        progress_append_bar(out, fraction, cells < MOST_CELLS ? cells : MOST_CELLS);
    buffer_append_string(out, buffer_string(&rest));
}

static void add_loss(struct fact_lines *lines, const struct live *live, const struct metrics *m,
                     struct live_losses losses) {
    OWNED_BY(buffer_free) struct buffer value = {0};
    if (m->loss_count == 0)
        return;
    buffer_printf(&value, "%.4f", fabs(m->losses[0].value) < 1e6 ? m->losses[0].value : NAN);
    size_t plain = value.length;
    if (live->has_symbols)
        append_sparks(&value, losses);
    if (!add_fact(lines, "loss", buffer_string(&value))) {
        value.data[plain] = '\0';
        add_fact(lines, "loss", value.data);
    }
}

// Memory of this process, in bytes; 0 if unknown.
static double resident_bytes(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*s %lld", &pages) != 1)
        pages = 0;
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void add_saved(struct fact_lines *lines, const struct live *live, double now) {
    OWNED_BY(buffer_free) struct buffer value = {0};
    if (live->saved == 0)
        return;
    buffer_printf(&value, "%" PRId64 ", ", live->saved_iteration);
    progress_append_duration(&value, now - live->saved);
    buffer_append_string(&value, " ago");
    add_fact(lines, "saved", buffer_string(&value));
}

void live_compose(struct buffer *out, const struct live *live, const struct metrics *m, struct live_losses losses,
                  double now) {
    struct fact_lines lines = {
        .out = out, .columns = live->columns, .line = 2, .most_lines = MOST_LINES, .has_color = live->has_color};
    append_head(out, live, m, now);
    buffer_append_byte(out, '\n');
    add_loss(&lines, live, m, losses);
    if (live->tokens_per_second > 0)
        add_count(&lines, "", live->tokens_per_second, " tokens/s");
    if (live->peak_teraflops > 0 && live->teraflops > 0)
        add_value(&lines, "MFU", "%.1f%%", 100 * live->teraflops / live->peak_teraflops);
    add_value(&lines, "lr", "%.2e", m->learning_rate);
    if (m->has_grad_norm)
        add_value(&lines, "grad norm", "%.3f", fabs(m->grad_norm) < 1e6 ? m->grad_norm : NAN);
    if (live->memory_bytes > 0)
        add_count(&lines, "memory", live->memory_bytes, "B");
    add_saved(&lines, live, now);
}

// The mean of rates weighted by time: the harmonic one.
static void smooth(double *mean, double rate) {
    if (rate > 0 && isfinite(rate))
        *mean = *mean == 0 ? rate : 1 / ((1 - smoothing) / *mean + smoothing / rate);
}

static void draw(struct live *live, const struct metrics *metrics, struct live_losses losses) {
    double now = clock_seconds();
    if (now - live->last_shown < interval_seconds)
        return;
    live->last_shown = now;
    live->columns = screen_columns();
    struct live shown = *live;
    if (shown.memory_bytes == 0)
        shown.memory_bytes = resident_bytes();
    OWNED_BY(buffer_free) struct buffer lines = {0};
    live_compose(&lines, &shown, metrics, losses, now);
    log_view(buffer_string(&lines));
}

void live_update(struct live *live, const struct metrics *metrics, struct live_losses losses) {
    smooth(&live->tokens_per_second, metrics->tokens_per_second);
    smooth(&live->teraflops, metrics->teraflops);
    draw(live, metrics, losses);
}

void live_tick(struct live *live, const struct metrics *metrics, struct live_losses losses) {
    if (log_has_view())
        draw(live, metrics, losses);
}

void live_saved(struct live *live, int64_t iteration) {
    live->saved_iteration = iteration;
    live->saved = clock_seconds();
}

void live_hide(void) {
    log_view(NULL);
}

// ---- the lines above it ----

static struct fact_lines begin_line(struct buffer *out, const struct live *live, double wall_seconds) {
    struct fact_lines lines = {.out = out, .columns = live->columns, .line = 1, .most_lines = 1};
    char text[32];
    clock_format(wall_seconds, text, sizeof text);
    text[strlen("2026-01-02 03:04:05")] = '\0';
    if (live->columns >= COLUMNS_WITH_TIME)
        add_fact(&lines, "", text + strlen("2026-01-02 "));
    return lines;
}

void live_train_line(struct buffer *out, const struct live *live, const struct metrics *m) {
    struct fact_lines lines = begin_line(out, live, m->wall_seconds);
    add_value(&lines, "iteration", "%" PRId64 "/%" PRId64, m->iteration, m->train_iters);
    if (m->skipped_iterations > 0)
        add_value(&lines, "skipped", "%" PRId64, m->skipped_iterations);
    if (m->nan_iterations > 0)
        add_value(&lines, "NaN", "%" PRId64, m->nan_iterations);
    for (int i = 0; i < m->loss_count; i++)
        add_value(&lines, m->losses[i].name, m->losses[i].is_share ? "%.2f%%" : "%.4f", m->losses[i].value);
    add_value(&lines, "lr", "%.2e", m->learning_rate);
    if (m->has_grad_norm)
        add_value(&lines, "grad norm", "%.3f", m->grad_norm);
    if (m->tokens_per_second > 0)
        add_count(&lines, "", m->tokens_per_second, " tokens/s");
    add_value(&lines, "", "%.0f ms", m->elapsed_ms);
    buffer_append_byte(out, '\n');
}

void live_eval_line(struct buffer *out, const struct live *live, const struct metrics_eval *eval) {
    struct fact_lines lines = begin_line(out, live, eval->wall_seconds);
    add_value(&lines, eval->is_final && strncmp(eval->set, "test", 4) == 0 ? "test at" : "validation at", "%" PRId64,
              eval->iteration);
    for (int i = 0; i < eval->loss_count; i++) {
        const struct metrics_loss *loss = &eval->losses[i];
        add_value(&lines, loss->name, loss->is_share ? "%.2f%%" : "%.4f", loss->value);
        if (loss->is_share || loss->is_score)
            continue;
        add_value(&lines, "perplexity", "%.2f", metrics_perplexity(loss->value));
    }
    buffer_append_byte(out, '\n');
}

void live_event_line(struct buffer *out, const struct live *live, const struct metrics_event *event) {
    struct fact_lines lines = begin_line(out, live, clock_wall_seconds());
    add_value(&lines, "iteration", "%" PRId64, event->iteration);
    if (!add_fact(&lines, "", event->text)) {
        lines.is_full = false;
        add_fact(&lines, "", event->name);
    }
    buffer_append_byte(out, '\n');
}
