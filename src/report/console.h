// The log lines of Megatron-LM, character for character, so that scripts that read its logs can read these. Only
// --log-throughput departs from them: below 1 TFLOP/s the throughput has four decimals instead of one, and two more
// columns follow Megatron's last, " tokens per second: 1234 | time left: 0:01:02 |". Each function appends to a buffer,
// including the newline.
#ifndef REPORT_CONSOLE_H
#define REPORT_CONSOLE_H

#include "base/buffer.h"
#include "report/metrics.h"

#include <stddef.h>
#include <stdio.h>

// " [2026-01-02 03:04:05.678901] iteration      100/     500 | consumed samples: …"
void console_train(struct buffer *out, const struct metrics *metrics);
// The dashed block " validation loss at iteration 100 | lm loss value: … | lm loss PPL: … | ".
void console_eval(struct buffer *out, const struct metrics_eval *eval);

// " sample at iteration 100 | "prompt" | "text"", both as strings of JSON: control characters are escaped.
void console_sample(struct buffer *out, const struct metrics_sample *sample);

// "saving checkpoint at iteration      10 to DIR in bevatron format"
void console_saving(struct buffer *out, double wall_seconds, int64_t iteration, const char *folder);
// A checkpoint, and the numbers of ranks along the tensor and pipeline axes.
struct console_checkpoint {
    int64_t iteration;
    const char *folder;
    int tensor_ranks, pipeline_ranks;
};
// "  successfully saved checkpoint from iteration      10 to DIR [ t 1/1, p 1/1 ]"
void console_saved(struct buffer *out, double wall_seconds, const struct console_checkpoint *checkpoint);
// "[after model is built] datetime: 2026-01-02 03:04:05.678901 " (the trailing space is Megatron's).
void console_datetime(struct buffer *out, const char *event, double wall_seconds);

// The log lines of fairseq's --log-format json, for scripts that read them: "TIME | INFO | train_inner | {…}", with all
// values as strings of six digits and losses in bits (base 2). fairseq's epochs are left out.
struct fairseq_clock {
    double train_wall;  // seconds of training since the last line
    double wall;        // seconds since the start
};

void fairseq_train(struct buffer *out, const struct metrics *metrics, const struct fairseq_clock *clock);
void fairseq_eval(struct buffer *out, const struct metrics_eval *eval);

// ---- the view of a terminal ----

// The view of a training run at the bottom of a terminal: a bar with the time left, and below it the most important
// numbers first. Internal to this folder. It is drawn with log_view, so that messages are written above it. On such a
// terminal the lines of Megatron-LM, which wrap there, are replaced by shorter ones.

struct live {
    double started, last_shown;  // monotonic seconds
    int64_t first_iteration;     // first iteration of this start
    double tokens_per_second;    // smoothed; 0 before the first iteration
    double teraflops;            // per device, smoothed too
    double peak_teraflops;       // the device's peak; 0 if unknown
    double memory_bytes;         // of the device; 0: this process's memory is shown
    int64_t saved_iteration;     // of the last checkpoint
    double saved;                // when it was complete, monotonic seconds; 0 if there is none
    int columns;                 // of the terminal
    bool has_color, has_symbols;
};

// Losses of this start, oldest first, from the plot.
struct live_losses {
    const double *values;  // (count)
    size_t count;
};

// Returns whether stderr is a terminal for the view; if so, the view is open. Facts about the device are set
// afterwards.
bool live_open(struct live *live, int64_t first_iteration);
// Draws the view after an iteration, at most twice a second.
void live_update(struct live *live, const struct metrics *metrics, struct live_losses losses);
// Redraws it for changes since: times, the size of the window. Does nothing if it is not shown.
void live_tick(struct live *live, const struct metrics *metrics, struct live_losses losses);
void live_saved(struct live *live, int64_t iteration);
// The lines of the view, separated by newlines; each has at most live->columns - 1 characters.
void live_compose(struct buffer *out, const struct live *live, const struct metrics *metrics, struct live_losses losses,
                  double now);
// Removes the view; the next update brings it back.
void live_hide(void);

// The line printed above the view instead of one of Megatron-LM's, cut to fit; with a newline.
void live_train_line(struct buffer *out, const struct live *live, const struct metrics *metrics);
void live_eval_line(struct buffer *out, const struct live *live, const struct metrics_eval *eval);
void live_event_line(struct buffer *out, const struct live *live, const struct metrics_event *event);

// ---- plots ----

// Curves in a terminal, drawn with braille dots (2 × 4 per character), with labelled axes.

struct plot {
    const char *title;
    const char *x_label;  // NULL for "iteration"
    const double *x, *y;  // (count); points that are not finite are left out
    size_t count;
    int width, height;  // of the whole picture in characters; 0: the terminal's width, or 80, and height 16
};

void plot_draw(struct buffer *out, const struct plot *plot);
// Draws to a stream, at the width of its terminal, or 80 if it is not one.
void report_plot(FILE *out, const double *x, const double *y, size_t count, const char *title);
// The number of columns of a stream's terminal; 80 if it is not a terminal.
int plot_terminal_width(FILE *out);

#endif
