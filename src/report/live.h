// The live line of a training run, at the bottom of a terminal: how far, the loss, the speed, the time left.
// Internal to this folder. It goes through log_status, so messages on stderr and the line do not tear each other.
#ifndef REPORT_LIVE_H
#define REPORT_LIVE_H

#include "base/buffer.h"
#include "report/metrics.h"

struct live {
    double started, last_shown;  // monotonic seconds
    int64_t first_iteration;     // where this start began
    int columns;                 // of the terminal
};

// Whether stderr is a terminal, and then an open live line.
bool live_open(struct live *live, int64_t first_iteration);
// Shows the line, at most ten times a second.
void live_update(struct live *live, const struct metrics *metrics);
// The line for a moment; at most live->columns - 1 characters.
void live_compose(struct buffer *out, const struct live *live, const struct metrics *metrics, double now);
// Takes the line away, so that something can be printed; the next update brings it back.
void live_hide(void);

#endif
