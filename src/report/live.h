// The view of a training run at the bottom of a terminal: a bar with the time that is left, and below it the numbers
// that users look for, the most important first. Internal to this folder. It is drawn with log_view, so that messages
// are written above it. On such a terminal the lines of Megatron-LM, which wrap there, are replaced by shorter ones.
#ifndef REPORT_LIVE_H
#define REPORT_LIVE_H

#include "base/buffer.h"
#include "report/metrics.h"

#include <stddef.h>

struct live {
    double started, last_shown;  // monotonic seconds
    int64_t first_iteration;     // where this start of the run began
    double tokens_per_second;    // smoothed; 0 before the first iteration
    double teraflops;            // of a device, smoothed too
    double peak_teraflops;       // what it can do; 0 if unknown
    double memory_bytes;         // of the device; 0: that of this process is shown
    int64_t saved_iteration;     // of the last checkpoint
    double saved;                // when it was complete, monotonic seconds; 0 if there is none
    int columns;                 // of the terminal
    bool has_color, has_symbols;
};

// Losses of this start, oldest first, as they are kept for the plot.
struct live_losses {
    const double *values;  // (count)
    size_t count;
};

// Returns whether stderr is a terminal that can show it; if so, the view is open. What is known about the device is set
// afterwards.
bool live_open(struct live *live, int64_t first_iteration);
// Draws the view after an iteration, at most twice a second.
void live_update(struct live *live, const struct metrics *metrics, struct live_losses losses);
// Draws it again with what has changed since: times, the size of the window. Nothing if it is not there.
void live_tick(struct live *live, const struct metrics *metrics, struct live_losses losses);
void live_saved(struct live *live, int64_t iteration);
// The lines of the view, separated by newlines; each has at most live->columns - 1 characters.
void live_compose(struct buffer *out, const struct live *live, const struct metrics *metrics, struct live_losses losses,
                  double now);
// Removes the view; the next update brings it back.
void live_hide(void);

// What is printed above the view instead of a line of Megatron-LM's, as much of it as fits; with a newline.
void live_train_line(struct buffer *out, const struct live *live, const struct metrics *metrics);
void live_eval_line(struct buffer *out, const struct live *live, const struct metrics_eval *eval);
void live_event_line(struct buffer *out, const struct live *live, const struct metrics_event *event);

#endif
