// The live line of a training run at the bottom of a terminal: progress, loss, speed, time left. Internal to this
// folder. It is drawn with log_status, so that messages on stderr do not garble it.
#ifndef REPORT_LIVE_H
#define REPORT_LIVE_H

#include "base/buffer.h"
#include "report/metrics.h"

struct live {
    double started, last_shown;  // monotonic seconds
    int64_t first_iteration;     // where this start of the run began
    int columns;                 // of the terminal
};

// Returns whether stderr is a terminal; if so, the live line is open.
bool live_open(struct live *live, int64_t first_iteration);
// Shows the line, at most ten times a second.
void live_update(struct live *live, const struct metrics *metrics);
// The text of the line; at most live->columns - 1 characters.
void live_compose(struct buffer *out, const struct live *live, const struct metrics *metrics, double now);
// Removes the line so that something can be printed; the next update brings it back.
void live_hide(void);

#endif
