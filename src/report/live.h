// The view of a training run at the bottom of a terminal: a bar with the time left, and below it the most important
// numbers first. Internal to this folder. It is drawn with log_view, so that messages are written above it. On such a
// terminal the lines of Megatron-LM, which wrap there, are replaced by shorter ones.
#ifndef REPORT_LIVE_H
#define REPORT_LIVE_H

#include "base/buffer.h"
#include "report/metrics.h"

#include <stddef.h>

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

#endif
